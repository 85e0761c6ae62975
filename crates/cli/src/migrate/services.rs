//! Services: what runs while the etcd is followed.

use vetch_node::Follower;
use vetch_server::grpc::RequestRouter;
use vetch_server::http::Server;

/// The parts that run while the etcd is followed.
pub(super) struct FollowerServices {
    pub(super) follower: Follower,
    pub(super) router: RequestRouter,
    pub(super) server: Server,
}
