//! Compiles `proto/` into Rust: messages, gRPC clients and servers, and the JSON mapping of every
//! message.
//!
//! The protobuf compiler is a Rust library, so a build needs no tools besides cargo. Nothing
//! generated is kept in the repository.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

const FILES: [&str; 8] = [
    "kv.proto",
    "auth.proto",
    "rpc.proto",
    "maintenance.proto",
    "auth_rpc.proto",
    "v3lock.proto",
    "v3election.proto",
    "health.proto",
];

const PACKAGES: [&str; 6] =
    [".mvccpb", ".authpb", ".etcdserverpb", ".v3lockpb", ".v3electionpb", ".grpc.health.v1"];

/// Of clients and servers alike.
const CODEC: &str = "crate::codec::SmallCodec";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let encoded = descriptors.encode_to_vec();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), &encoded)?;

    tonic_prost_build::configure().bytes(".").codec_path(CODEC).compile_fds(descriptors)?;

    pbjson_build::Builder::new()
        .register_descriptors(&encoded)?
        .preserve_proto_field_names()
        .ignore_unknown_fields()
        .build(&PACKAGES)?;

    // Our own services, apart from etcd's. Their JSON is for people and scripts, so numbers are
    // numbers there.
    let own = protox::compile(["vetch.proto", "peer.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .message_attribute(".", "#[derive(serde::Serialize)]")
        .codec_path(CODEC)
        .compile_fds(own)?;
    Ok(())
}
