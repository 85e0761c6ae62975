//! The wire surface: etcd's messages and services, their JSON form, the error table and the HTTP
//! mapping.
//!
//! * [`pb`] and its siblings are generated from `proto/`: one Rust type per message, gRPC clients
//!   and servers.
//! * [`vetch`] is our own: a service for operators, and one between servers; no part of etcd's API.
//! * [`wire`] holds responses that carry already encoded key-values, for the paths where
//!   re-encoding them field by field would be most of the work; [`wire_server`] serves `KV` and
//!   `Watch` with those.
//! * [`error`] is the table of every error a client can see, with etcd's exact codes and texts.
//! * [`gateway`] maps HTTP paths to RPCs; [`json`] reads and writes the bodies.
//! * [`version`] has the versions of etcd that clients see.
//!
//! Not here: how a request is served. No store, no journal, no server.

pub mod codec;
pub mod error;
pub mod gateway;
mod generated;
pub mod json;
pub mod version;
pub mod wire;
pub mod wire_server;

pub use error::EtcdError;
pub use generated::{
    authpb, etcdserverpb, etcdserverpb as pb, health, mvccpb, v3electionpb, v3lockpb, vetch,
};
