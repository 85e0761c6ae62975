//! Unary calls whose messages are at hand: counted without a body to look into.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tonic::Code;

use super::{Call, Counters, GrpcMetrics};

/// An RPC as one client calls it: found once, counted often.
#[derive(Debug)]
pub(crate) struct Method {
    counters: Arc<Counters>,
    version: Box<str>,
}

/// A call in progress. Dropped, it was given up by the client.
#[derive(Debug)]
pub(crate) struct Observed(Call);

impl GrpcMetrics {
    /// None: there is no such RPC.
    pub(crate) fn method(&self, path: &str, version: &str) -> Option<Method> {
        let counters = Arc::clone(&self.methods[*self.by_path.get(path)?]);
        Some(Method { counters, version: version.into() })
    }

    /// A call of which the whole message, of `len` bytes, is there.
    pub(crate) fn begin(&self, method: &Method, len: usize) -> Observed {
        let counters = &method.counters;
        self.count_version(&method.version, counters.method.kind);
        counters.received.fetch_add(1, Relaxed);
        self.traffic.received.fetch_add(len as u64, Relaxed);
        Observed(Call::begin(Arc::clone(counters), Arc::clone(&self.traffic)))
    }
}

/// What precedes a message on the wire, which is not counted.
const PREFIX: usize = 5;

impl Observed {
    /// With a message that has `len` bytes, its prefix included.
    pub(crate) fn answered(mut self, len: usize) {
        self.0.counters.sent.fetch_add(1, Relaxed);
        self.0.traffic.sent.fetch_add((len - PREFIX) as u64, Relaxed);
        self.0.finish(Code::Ok);
    }

    pub(crate) fn refused(mut self, code: Code) {
        self.0.finish(code);
    }
}
