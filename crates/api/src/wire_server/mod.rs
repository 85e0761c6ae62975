//! gRPC servers for `KV` and `Watch` that answer with [`wire`](crate::wire) messages.
//!
//! They replace the generated servers of the same names and register under the same service names.
//! Two things differ: the response types, and that the traits' methods are plain `async fn`s, which
//! saves an allocation per call. Message compression is not offered, as etcd does not offer it.

mod codec;
pub mod kv_server;
mod method;
pub mod watch_server;

pub use codec::WireCodec;
