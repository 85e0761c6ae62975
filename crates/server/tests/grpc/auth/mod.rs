//! Users, roles and tokens over the services: permitted requests, and the errors of others.

mod access;
mod advisories;
mod login;
mod management;

use tonic::{Code, Request};
use vetch_api::pb::auth_client::AuthClient;
use vetch_api::{authpb, pb};
use vetch_server::grpc::Rpc;

use super::World;

pub(crate) const DENIED: (Code, &str) = (Code::PermissionDenied, "etcdserver: permission denied");
pub(crate) const NO_USER: (Code, &str) = (Code::InvalidArgument, "etcdserver: user name is empty");
pub(crate) const BAD_TOKEN: (Code, &str) = (Code::Unauthenticated, "etcdserver: invalid auth token");

/// Code and text of a refusal, to be compared with one of the above.
macro_rules! refused {
    ($answer:expr) => {{
        let (code, text) = crate::refused($answer.await);
        (code, text.leak() as &str)
    }};
}
pub(crate) use refused;

/// A request with a token.
pub(crate) fn by<T>(token: &str, request: T) -> Request<T> {
    let mut request = Request::new(request);
    request.metadata_mut().insert("token", token.parse().unwrap());
    request
}

impl World {
    pub(crate) fn auth(&self) -> AuthClient<Rpc> {
        AuthClient::new(self.rpc.clone())
    }

    pub(crate) async fn add_user(&self, name: &str, password: &str) {
        let request =
            pb::AuthUserAddRequest { name: name.into(), password: password.into(), ..Default::default() };
        self.auth().user_add(request).await.unwrap();
    }

    /// A role of its own for the user, with one permission.
    pub(crate) async fn permit(&self, user: &str, kind: i32, key: &'static str, end: &'static str) {
        let name = user.to_owned();
        self.auth().role_add(pb::AuthRoleAddRequest { name: name.clone() }).await.unwrap();
        let perm = Some(authpb::Permission { perm_type: kind, key: key.into(), range_end: end.into() });
        let grant = pb::AuthRoleGrantPermissionRequest { name: name.clone(), perm };
        self.auth().role_grant_permission(grant).await.unwrap();
        let grant = pb::AuthUserGrantRoleRequest { user: name.clone(), role: name };
        self.auth().user_grant_role(grant).await.unwrap();
    }

    pub(crate) async fn log_in(&self, name: &str, password: &str) -> String {
        let request = pb::AuthenticateRequest { name: name.into(), password: password.into() };
        self.auth().authenticate(request).await.unwrap().into_inner().token
    }

    pub(crate) async fn enable(&self) {
        self.add_user("root", "rootpw").await;
        let grant = pb::AuthUserGrantRoleRequest { user: "root".into(), role: "root".into() };
        self.auth().user_grant_role(grant).await.unwrap();
        self.auth().auth_enable(pb::AuthEnableRequest {}).await.unwrap();
    }
}

/// A server with keys, `reader` who may read `r/...`, `writer` who may write `w/...`, and
/// authentication on.
pub(crate) struct Guarded {
    pub(crate) world: World,
    pub(crate) root: String,
    pub(crate) reader: String,
    pub(crate) writer: String,
}

pub(crate) async fn guarded() -> Guarded {
    let world = World::new().await;
    for key in ["r/1", "w/1", "secret"] {
        world.put(key, "value").await;
    }
    for user in ["reader", "writer"] {
        world.add_user(user, "pw").await;
    }
    world.permit("reader", 0, "r/", "r0").await;
    world.permit("writer", 1, "w/", "w0").await;
    world.enable().await;
    let root = world.log_in("root", "rootpw").await;
    let (reader, writer) = (world.log_in("reader", "pw").await, world.log_in("writer", "pw").await);
    Guarded { world, root, reader, writer }
}

pub(crate) fn get(key: &'static str, end: &'static str) -> pb::RangeRequest {
    pb::RangeRequest { key: key.into(), range_end: end.into(), ..Default::default() }
}

pub(crate) fn put(key: &'static str) -> pb::PutRequest {
    pb::PutRequest { key: key.into(), value: "new".into(), ..Default::default() }
}

pub(crate) fn delete(key: &'static str, end: &'static str) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest { key: key.into(), range_end: end.into(), ..Default::default() }
}
