//! Unary calls with whole messages: counted without a body.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tonic::Code;
use vetch_http2::Reply;

use super::{Call, Counters, GrpcMetrics, Traffic};

/// An RPC as one client calls it: found once, counted often.
#[derive(Debug)]
pub(crate) struct Method {
    counters: Arc<Counters>,
    version: Box<str>,
}

/// A call without a message yet: only its being open is counted.
#[derive(Debug)]
pub(crate) struct OpenCall(Arc<Traffic>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// A call in progress. If it is dropped, the client cancelled it.
#[derive(Debug)]
pub(crate) struct Observed(Call);

impl GrpcMetrics {
    pub(crate) fn open_call(&self) -> OpenCall {
        self.traffic.open.fetch_add(1, Relaxed);
        OpenCall(Arc::clone(&self.traffic))
    }

    /// None: there is no such RPC.
    pub(crate) fn method(&self, path: &str, version: &str) -> Option<Method> {
        let counters = Arc::clone(&self.methods[*self.by_path.get(path)?]);
        Some(Method { counters, version: version.into() })
    }

    /// A call whose whole message, of `len` bytes, has arrived.
    pub(crate) fn begin(&self, method: &Method, len: usize) -> Observed {
        let counters = &method.counters;
        self.count_version(&method.version, counters.method.kind);
        counters.received.fetch_add(1, Relaxed);
        self.traffic.received.fetch_add(len as u64, Relaxed);
        Observed(Call::begin(Arc::clone(counters), Arc::clone(&self.traffic)))
    }
}

impl Observed {
    pub(crate) fn answered(mut self, reply: &Reply) {
        self.0.answered(reply);
    }

    pub(crate) fn refused(mut self, code: Code) {
        self.0.finish(code);
    }
}
