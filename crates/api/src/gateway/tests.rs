use std::collections::{BTreeMap, BTreeSet};

use protox::prost_reflect::{DescriptorPool, MethodDescriptor};

use super::{Kind, ROUTES, route};

/// Every RPC of the etcd services, by its gRPC path.
fn methods() -> BTreeMap<String, MethodDescriptor> {
    let descriptors = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
    let pool = DescriptorPool::decode(descriptors.as_slice()).expect("the build wrote it");
    let etcd = pool.services().filter(|service| service.package_name() != "grpc.health.v1");
    let methods = etcd.flat_map(|service| service.methods().collect::<Vec<_>>());
    methods
        .map(|method| (format!("/{}/{}", method.parent_service().full_name(), method.name()), method))
        .collect()
}

#[test]
fn the_surface_is_49_rpcs_of_8_services() {
    let methods = methods();
    let services: BTreeSet<_> = methods.values().map(|method| method.parent_service().full_name()).collect();
    assert_eq!((methods.len(), services.len()), (49, 8));
}

#[test]
fn every_rpc_but_range_stream_has_a_path() {
    let routed: BTreeSet<&str> = ROUTES.iter().map(|route| route.rpc).collect();
    let methods = methods();
    let missing: Vec<_> = methods.keys().filter(|rpc| !routed.contains(rpc.as_str())).collect();
    assert_eq!(missing, ["/etcdserverpb.KV/RangeStream"]);
    assert_eq!(ROUTES.len(), 48 + 3, "three lease RPCs have a second path");
}

#[test]
fn kinds_are_those_of_the_services() {
    let methods = methods();
    for route in ROUTES {
        let method = &methods[route.rpc];
        let kind = match (method.is_client_streaming(), method.is_server_streaming()) {
            (false, false) => Kind::Unary,
            (false, true) => Kind::ServerStream,
            (true, true) => Kind::Bidi,
            (true, false) => panic!("no RPC streams requests alone"),
        };
        assert_eq!(route.kind, kind, "{}", route.rpc);
    }
}

#[test]
fn paths_are_unique_and_found() {
    let paths: BTreeSet<&str> = ROUTES.iter().map(|route| route.path).collect();
    assert_eq!(paths.len(), ROUTES.len());
    let both = ["/v3/lease/revoke", "/v3/kv/lease/revoke"];
    assert!(both.iter().all(|path| route(path).is_some_and(|route| route.method == "LeaseRevoke")));
    assert!(route("/v3/kv/rangestream").is_none());
}
