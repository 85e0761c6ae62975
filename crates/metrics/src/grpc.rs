//! Counters of the gRPC services, counted from outside.
//!
//! A call is observed at its edges: the request body on its way in, the response body and its
//! status on the way out. So no service has to count, and calls through the JSON gateway count
//! alike.

mod body;
mod unary;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http::Request;
use parking_lot::RwLock;
use tonic::body::Body;
use tonic::{Code, Status};
use vetch_api::error::code_name;
use vetch_api::gateway::Kind;
use vetch_counters::Histogram;
use vetch_http2::{Answer, Reply};
use vetch_node::metrics::DISK_BOUNDS;

use super::methods::{self, Method};
use super::text::{Text, Type};
use body::{Incoming, Outgoing};
pub use unary::{Method as CountedMethod, Observed as ObservedCall, OpenCall};

/// Length of a message's prefix, which is not counted.
const PREFIX: usize = 5;
/// Distinct client versions counted by name. A client chooses what it sends, so their number must
/// be bounded.
const CLIENT_VERSIONS_MAX: usize = 64;

const CODES: [Code; 17] = [
    Code::Ok,
    Code::Cancelled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unimplemented,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
];

#[derive(Debug)]
pub struct GrpcMetrics {
    extensive: bool,
    methods: Vec<Arc<Counters>>,
    by_path: HashMap<&'static str, usize>,
    traffic: Arc<Traffic>,
    clients: RwLock<Vec<Client>>,
}

#[derive(Debug, Default)]
struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
    /// Calls in progress, streams included.
    open: AtomicU64,
}

/// Requests of clients that named one version.
#[derive(Debug)]
struct Client {
    version: String,
    unary: AtomicU64,
    stream: AtomicU64,
}

impl Client {
    fn count(&self, kind: Kind) {
        if kind == Kind::Unary { &self.unary } else { &self.stream }.fetch_add(1, Relaxed);
    }
}

/// The counters of one RPC.
#[derive(Debug)]
struct Counters {
    method: Method,
    started: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    handled: [AtomicU64; CODES.len()],
    took: Histogram,
    took_failed: Histogram,
    handling: Option<Histogram>,
    /// A unary call that takes longer is logged.
    slow: Duration,
}

/// The bucket bounds of grpc_server_handling_seconds.
const HANDLING_BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl Counters {
    fn new(method: Method, extensive: bool, slow: Duration) -> Counters {
        Counters {
            method,
            started: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            handled: std::array::from_fn(|_| AtomicU64::new(0)),
            took: Histogram::new(DISK_BOUNDS),
            took_failed: Histogram::new(DISK_BOUNDS),
            handling: extensive.then(|| Histogram::new(HANDLING_BOUNDS)),
            slow,
        }
    }

    fn calls(&self) -> Calls {
        let handled: Vec<u64> = self.handled.iter().map(|count| count.load(Relaxed)).collect();
        let counts = self.took.counts().iter().zip(self.took_failed.counts()).map(|(a, b)| a + b).collect();
        Calls {
            service: self.method.service,
            method: self.method.name,
            started: self.started.load(Relaxed),
            ok: handled[0],
            failed: handled[1..].iter().sum(),
            bounds: self.took.bounds().to_vec(),
            counts,
            sum: self.took.sum() + self.took_failed.sum(),
        }
    }

    fn finished(&self, code: Code, took: Duration) {
        let index = CODES.iter().position(|c| *c == code).expect("every code is in the list");
        self.handled[index].fetch_add(1, Relaxed);
        if self.method.kind == Kind::Unary {
            if code == Code::Ok { &self.took } else { &self.took_failed }.observe(took);
            if took > self.slow {
                let code = code_name(code);
                tracing::warn!(method = self.method.path, code, took = ?took, "request took too long");
            }
        }
        if let Some(handling) = &self.handling {
            handling.observe(took);
        }
    }
}

/// The calls of one RPC.
pub struct Calls {
    pub service: &'static str,
    pub method: &'static str,
    pub started: u64,
    pub ok: u64,
    pub failed: u64,
    /// Durations of ended unary calls: bounds, counts and the sum in seconds.
    pub bounds: Vec<f64>,
    pub counts: Vec<u64>,
    pub sum: f64,
}

/// A call in progress. If it is dropped before it finished, the client cancelled it.
#[derive(Debug)]
struct Call {
    counters: Arc<Counters>,
    traffic: Arc<Traffic>,
    started: Instant,
    done: bool,
}

impl Call {
    fn begin(counters: Arc<Counters>, traffic: Arc<Traffic>) -> Call {
        counters.started.fetch_add(1, Relaxed);
        traffic.open.fetch_add(1, Relaxed);
        Call { counters, traffic, started: Instant::now(), done: false }
    }

    /// It is unary.
    fn answered(&mut self, reply: &Reply) {
        match reply {
            Reply::Refused(headers) => {
                let status = Status::from_header_map(headers);
                self.finish(status.map_or(Code::Unknown, |status| status.code()));
            }
            Reply::Message(_) | Reply::Long(_) => {
                self.counters.sent.fetch_add(1, Relaxed);
                self.traffic.sent.fetch_add((reply.len() - PREFIX) as u64, Relaxed);
                self.finish(Code::Ok);
            }
        }
    }

    fn finish(&mut self, code: Code) {
        if !self.done {
            self.done = true;
            self.counters.finished(code, self.started.elapsed());
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.finish(Code::Cancelled);
        self.traffic.open.fetch_sub(1, Relaxed);
    }
}

impl GrpcMetrics {
    pub(super) fn new(extensive: bool, slow: Duration) -> GrpcMetrics {
        let methods = methods::all();
        let by_path = methods.iter().enumerate().map(|(i, m)| (m.path, i)).collect();
        GrpcMetrics {
            extensive,
            methods: methods.into_iter().map(|m| Arc::new(Counters::new(m, extensive, slow))).collect(),
            by_path,
            traffic: Arc::default(),
            clients: RwLock::default(),
        }
    }

    /// Calls in progress now, streams included.
    pub fn open(&self) -> u64 {
        self.traffic.open.load(Relaxed)
    }

    /// Bytes of messages that came in and went out.
    pub fn bytes(&self) -> (u64, u64) {
        (self.traffic.received.load(Relaxed), self.traffic.sent.load(Relaxed))
    }

    /// The outcomes of every RPC that was called.
    pub fn calls(&self) -> Vec<Calls> {
        self.methods.iter().map(|counters| counters.calls()).filter(|calls| calls.started > 0).collect()
    }

    /// Serves a request by `services` and counts it.
    pub async fn observed<S, F>(&self, request: Request<Body>, services: S) -> Answer<Body>
    where
        S: FnOnce(Request<Body>) -> F,
        F: Future<Output = Answer<Body>>,
    {
        let Some(index) = self.by_path.get(request.uri().path()) else {
            return services(request).await;
        };
        let counters = &self.methods[*index];
        self.count_client(&request, counters.method.kind);
        let mut call = Call::begin(counters.clone(), self.traffic.clone());
        let request =
            request.map(|body| Body::new(Incoming::new(body, counters.clone(), self.traffic.clone())));
        let response = match services(request).await {
            Answer::Response(response) => response,
            Answer::Reply(reply) => {
                call.answered(&reply);
                return Answer::Reply(reply);
            }
        };
        // A response without messages carries its status in the headers.
        if let Some(status) = Status::from_header_map(response.headers()) {
            call.finish(status.code());
            return Answer::Response(response);
        }
        Answer::Response(response.map(|body| Body::new(Outgoing::new(body, call))))
    }

    /// Whether the path is that of a unary RPC.
    pub fn is_unary(&self, path: &str) -> bool {
        self.by_path.get(path).is_some_and(|index| self.methods[*index].method.kind == Kind::Unary)
    }

    fn count_client<B>(&self, request: &Request<B>, kind: Kind) {
        let header = request.headers().get("client-api-version").and_then(|v| v.to_str().ok());
        self.count_version(header.unwrap_or("unknown"), kind);
    }

    fn count_version(&self, version: &str, kind: Kind) {
        let is_it = |c: &Client, version: &str| c.version == version;
        if let Some(client) = self.clients.read().iter().find(|c| is_it(c, version)) {
            return client.count(kind);
        }
        let mut clients = self.clients.write();
        let full = clients.len() >= CLIENT_VERSIONS_MAX;
        let version = if full { "other" } else { version };
        if let Some(client) = clients.iter().find(|c| is_it(c, version)) {
            return client.count(kind);
        }
        let client =
            Client { version: version.to_string(), unary: AtomicU64::new(0), stream: AtomicU64::new(0) };
        client.count(kind);
        clients.push(client);
    }

    pub(super) fn write(&self, page: &mut Text) {
        self.write_handled(page);
        let families: [Family; 3] = [
            ("grpc_server_started_total", "RPCs begun.", |c| &c.started),
            ("grpc_server_msg_received_total", "Messages received.", |c| &c.received),
            ("grpc_server_msg_sent_total", "Messages sent.", |c| &c.sent),
        ];
        for (name, help, counter) in families {
            page.heading(name, Type::Counter, help);
            for counters in &self.methods {
                page.sample(name, &labels(&counters.method), counter(counters).load(Relaxed) as f64);
            }
        }
        self.write_durations(page);
        self.write_clients(page);
        let (received, sent) = (self.traffic.received.load(Relaxed), self.traffic.sent.load(Relaxed));
        page.counter(
            "etcd_network_client_grpc_received_bytes_total",
            "Bytes of messages from clients.",
            received,
        );
        page.counter("etcd_network_client_grpc_sent_bytes_total", "Bytes of messages to clients.", sent);
    }

    fn write_handled(&self, page: &mut Text) {
        let name = "grpc_server_handled_total";
        page.heading(name, Type::Counter, "RPCs ended, by the code they ended with.");
        for counters in &self.methods {
            let [method, service, kind] = labels(&counters.method);
            for (code, count) in CODES.iter().zip(&counters.handled) {
                let labels = [("grpc_code", code_name(*code)), method, service, kind];
                page.sample(name, &labels, count.load(Relaxed) as f64);
            }
        }
        if self.extensive {
            let name = "grpc_server_handling_seconds";
            page.heading(name, Type::Histogram, "Time from the start of an RPC to its end.");
            for counters in &self.methods {
                if let Some(handling) = &counters.handling {
                    page.histogram(name, &labels(&counters.method), handling);
                }
            }
        }
    }

    fn write_durations(&self, page: &mut Text) {
        let name = "etcd_server_request_duration_seconds";
        page.heading(name, Type::Histogram, "Time to answer a unary request.");
        for counters in &self.methods {
            let kind = counters.method.request_type();
            for (success, took) in [("false", &counters.took_failed), ("true", &counters.took)] {
                if took.counts().iter().any(|n| *n > 0) {
                    page.histogram(name, &[("success", success), ("type", &kind)], took);
                }
            }
        }
    }

    fn write_clients(&self, page: &mut Text) {
        let name = "etcd_server_client_requests_total";
        page.heading(name, Type::Counter, "Requests by the API version the client says it speaks.");
        for client in self.clients.read().iter() {
            for (kind, count) in [("stream", &client.stream), ("unary", &client.unary)] {
                let count = count.load(Relaxed);
                if count > 0 {
                    page.sample(
                        name,
                        &[("client_api_version", &client.version), ("type", kind)],
                        count as f64,
                    );
                }
            }
        }
    }
}

type Family = (&'static str, &'static str, fn(&Counters) -> &AtomicU64);

fn labels(method: &Method) -> [(&'static str, &'static str); 3] {
    [("grpc_method", method.name), ("grpc_service", method.service), ("grpc_type", method.grpc_type())]
}

#[cfg(test)]
mod tests;
