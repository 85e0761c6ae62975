//! The resources of a cluster: where their keys lie, how large their objects are, how many a
//! cluster of N nodes has.
//!
//! Sizes were measured on objects of Kubernetes 1.37 in their stored form; the numbers per node are
//! those of its load tests (30 pods, half a deployment and two replica sets of it, an eighth of a
//! service).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lease,
    Node,
    Pod,
    Deployment,
    ReplicaSet,
    Service,
    Slice,
    Endpoints,
    Event,
    ConfigMap,
    Secret,
    ServiceAccount,
    Role,
}

pub(super) const KINDS: [Kind; 13] = [
    Kind::Lease,
    Kind::Node,
    Kind::Pod,
    Kind::Deployment,
    Kind::ReplicaSet,
    Kind::Service,
    Kind::Slice,
    Kind::Endpoints,
    Kind::Event,
    Kind::ConfigMap,
    Kind::Secret,
    Kind::ServiceAccount,
    Kind::Role,
];

/// Custom resources, and built-in ones that hardly anybody uses: they are watched all the same.
pub(super) const CUSTOM: usize = 50;
const QUIET: usize = 8;
const CUSTOM_OBJECTS: usize = 100;
const CUSTOM_SIZE: usize = 3000;

/// Connections of one API server: one for each resource.
pub(super) const RESOURCES: usize = KINDS.len() + CUSTOM + QUIET;

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Kind::Lease => "leases/kube-node-lease/",
            Kind::Node => "minions/",
            Kind::Pod => "pods/namespace-0001/",
            Kind::Deployment => "deployments/namespace-0001/",
            Kind::ReplicaSet => "replicasets/namespace-0001/",
            Kind::Service => "services/specs/namespace-0001/",
            Kind::Slice => "endpointslices/namespace-0001/",
            Kind::Endpoints => "services/endpoints/namespace-0001/",
            Kind::Event => "events/namespace-0001/",
            Kind::ConfigMap => "configmaps/namespace-0001/",
            Kind::Secret => "secrets/namespace-0001/",
            Kind::ServiceAccount => "serviceaccounts/namespace-0001/",
            Kind::Role => "clusterroles/",
        }
    }

    /// Bytes of an object, which for pods depends on which it is.
    pub(super) fn size(self, index: usize) -> usize {
        match self {
            Kind::Lease => 425,
            Kind::Node => 6000,
            Kind::Pod if index % 10 < 3 => 8160,
            Kind::Pod => 4100,
            Kind::Deployment => 5000,
            Kind::ReplicaSet => 4000,
            Kind::Service => 845,
            Kind::Slice => 3600,
            Kind::Endpoints => 3200,
            Kind::Event => 655,
            Kind::ConfigMap => 2000,
            Kind::Secret => 610,
            Kind::ServiceAccount => 112,
            Kind::Role => 1500,
        }
    }

    /// How many there are at the beginning.
    pub(super) fn count(self, nodes: usize, pods_per_node: usize) -> usize {
        match self {
            Kind::Lease | Kind::Node | Kind::ReplicaSet | Kind::ConfigMap | Kind::Secret => nodes,
            Kind::Pod => nodes * pods_per_node,
            Kind::Deployment => nodes.div_ceil(2),
            Kind::Service | Kind::Slice | Kind::Endpoints => nodes.div_ceil(8),
            Kind::Event => 5 * nodes,
            Kind::ServiceAccount => nodes.div_ceil(100) + 30,
            Kind::Role => 300,
        }
    }
}

/// The prefix of a resource by its number: first the kinds, then the custom ones, then the quiet
/// ones.
pub(super) fn prefix(root: &str, resource: usize) -> String {
    match KINDS.get(resource) {
        Some(kind) => format!("{root}{}", kind.path()),
        None => format!("{root}custom-{resource:02}.example.com/things/"),
    }
}

pub(super) fn key(root: &str, resource: usize, index: usize) -> String {
    format!("{}object-{index:08}", prefix(root, resource))
}

pub(super) fn size(resource: usize, index: usize) -> usize {
    KINDS.get(resource).map_or(CUSTOM_SIZE, |kind| kind.size(index))
}

pub(super) fn count(resource: usize, nodes: usize, pods_per_node: usize) -> usize {
    match KINDS.get(resource) {
        Some(kind) => kind.count(nodes, pods_per_node),
        None if resource < KINDS.len() + CUSTOM => CUSTOM_OBJECTS,
        None => 0,
    }
}
