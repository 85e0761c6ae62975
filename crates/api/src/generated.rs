//! The output of the build script, in modules like the protobuf packages.

// Our lints do not apply to generated code.
#![allow(clippy::all, clippy::unwrap_used, unreachable_pub, unused_qualifications)]

pub mod mvccpb {
    include!(concat!(env!("OUT_DIR"), "/mvccpb.rs"));
    include!(concat!(env!("OUT_DIR"), "/mvccpb.serde.rs"));
}

pub mod authpb {
    include!(concat!(env!("OUT_DIR"), "/authpb.rs"));
    include!(concat!(env!("OUT_DIR"), "/authpb.serde.rs"));
}

pub mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.serde.rs"));
}

pub mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.serde.rs"));
}

pub mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.serde.rs"));
}

pub mod vetch {
    include!(concat!(env!("OUT_DIR"), "/vetch.v1.rs"));
}

pub mod health {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.serde.rs"));
}
