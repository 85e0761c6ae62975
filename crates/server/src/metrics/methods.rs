//! The RPCs there are, for counters that exist before the first call.

use std::borrow::Cow;

use vetch_api::gateway::{Kind, ROUTES};

/// One RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Method {
    pub(super) path: &'static str,
    pub(super) service: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

impl Method {
    /// The `type` label of etcd's request durations.
    pub(super) fn request_type(&self) -> Cow<'static, str> {
        match self.name {
            "Compact" => "Compaction".into(),
            name if name.starts_with("User") || name.starts_with("Role") => format!("Auth{name}").into(),
            name => name.into(),
        }
    }

    /// The value of the label `grpc_type`.
    pub(super) fn grpc_type(&self) -> &'static str {
        match self.kind {
            Kind::Unary => "unary",
            Kind::ServerStream => "server_stream",
            Kind::Bidi => "bidi_stream",
        }
    }
}

/// Every RPC once: those with an HTTP path, and those without one.
pub(super) fn all() -> Vec<Method> {
    let mut methods = vec![
        without_route("/etcdserverpb.KV/RangeStream", Kind::ServerStream),
        without_route("/grpc.health.v1.Health/Check", Kind::Unary),
        without_route("/grpc.health.v1.Health/List", Kind::Unary),
        without_route("/grpc.health.v1.Health/Watch", Kind::ServerStream),
        without_route("/vetch.v1.Operator/Look", Kind::Unary),
        without_route("/vetch.v1.Operator/BackUp", Kind::Unary),
        without_route("/vetch.v1.Peer/Report", Kind::Unary),
        without_route("/vetch.v1.Peer/Checkpoint", Kind::ServerStream),
        without_route("/vetch.v1.Peer/ReadIndex", Kind::Unary),
        without_route("/vetch.v1.Peer/Introduce", Kind::Unary),
    ];
    for route in ROUTES {
        if methods.iter().all(|m| m.path != route.rpc) {
            let (service, name) = (route.service, route.method);
            methods.push(Method { path: route.rpc, service, name, kind: route.kind });
        }
    }
    methods
}

fn without_route(path: &'static str, kind: Kind) -> Method {
    let (service, name) = path[1..].split_once('/').expect("the path of an RPC has two parts");
    Method { path, service, name, kind }
}
