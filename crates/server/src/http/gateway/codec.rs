//! JSON to protobuf and back, for each RPC by its types.

use bytes::Bytes;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::Status;
use vetch_api::gateway::Route;
use vetch_api::{json, pb, v3electionpb, v3lockpb};

/// The translations of one RPC. Plain functions, made once per pair of types.
#[derive(Clone, Copy)]
pub(super) struct Codec {
    read: fn(&[u8]) -> Result<Vec<u8>, serde_json::Error>,
    take: fn(&mut json::Stream) -> Result<Option<Vec<u8>>, serde_json::Error>,
    write: fn(Bytes) -> Result<Vec<u8>, Status>,
    write_line: fn(Bytes) -> Result<Vec<u8>, Status>,
}

impl Codec {
    /// The request in a body, as protobuf.
    pub(super) fn read(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        (self.read)(body).map_err(|e| Status::invalid_argument(reworded(&e, body)))
    }

    /// The next request from the front of a streamed body; None if more bytes are needed.
    pub(super) fn take(&self, body: &mut json::Stream) -> Result<Option<Vec<u8>>, serde_json::Error> {
        (self.take)(body)
    }

    /// A response as JSON.
    pub(super) fn write(&self, message: Bytes) -> Result<Vec<u8>, Status> {
        (self.write)(message)
    }

    /// A response as one line of a stream.
    pub(super) fn write_line(&self, message: Bytes) -> Result<Vec<u8>, Status> {
        (self.write_line)(message)
    }

    fn typed<Q, A>() -> Codec
    where
        Q: Message + Default + DeserializeOwned,
        A: Message + Default + Serialize,
    {
        Codec {
            read: |body| Ok(json::from_slice::<Q>(body)?.encode_to_vec()),
            take: |body| Ok(body.take::<Q>()?.map(|message| message.encode_to_vec())),
            write: |message| json::to_vec(&decoded::<A>(message)?).map_err(unwritable),
            write_line: |message| json::to_stream_line(&decoded::<A>(message)?).map_err(unwritable),
        }
    }
}

fn decoded<A: Message + Default>(message: Bytes) -> Result<A, Status> {
    A::decode(message).map_err(|e| Status::internal(format!("cannot read our own answer: {e}")))
}

fn unwritable(error: serde_json::Error) -> Status {
    Status::internal(format!("cannot write the answer as JSON: {error}"))
}

/// The two most common mistakes, in Go's words; the rest in the parser's.
fn reworded(error: &serde_json::Error, body: &[u8]) -> String {
    if error.is_eof() {
        return "unexpected EOF".to_string();
    }
    let first = String::from_utf8_lossy(body).chars().find(|c| !c.is_ascii_whitespace());
    match first {
        Some(c) if error.is_syntax() && !"{[\"-0123456789tfn".contains(c) => {
            format!("invalid character '{c}' looking for beginning of value")
        }
        _ => format!("proto: {error}"),
    }
}

macro_rules! codecs {
    ($($rpc:literal: $request:ty => $response:ty;)*) => {
        impl Codec {
            pub(super) fn for_route(route: &Route) -> Codec {
                match route.rpc {
                    $($rpc => Codec::typed::<$request, $response>(),)*
                    rpc => unreachable!("no types for {rpc}"),
                }
            }
        }
    };
}

codecs! {
    "/etcdserverpb.KV/Range": pb::RangeRequest => pb::RangeResponse;
    "/etcdserverpb.KV/Put": pb::PutRequest => pb::PutResponse;
    "/etcdserverpb.KV/DeleteRange": pb::DeleteRangeRequest => pb::DeleteRangeResponse;
    "/etcdserverpb.KV/Txn": pb::TxnRequest => pb::TxnResponse;
    "/etcdserverpb.KV/Compact": pb::CompactionRequest => pb::CompactionResponse;
    "/etcdserverpb.Watch/Watch": pb::WatchRequest => pb::WatchResponse;
    "/etcdserverpb.Lease/LeaseGrant": pb::LeaseGrantRequest => pb::LeaseGrantResponse;
    "/etcdserverpb.Lease/LeaseRevoke": pb::LeaseRevokeRequest => pb::LeaseRevokeResponse;
    "/etcdserverpb.Lease/LeaseKeepAlive": pb::LeaseKeepAliveRequest => pb::LeaseKeepAliveResponse;
    "/etcdserverpb.Lease/LeaseTimeToLive": pb::LeaseTimeToLiveRequest => pb::LeaseTimeToLiveResponse;
    "/etcdserverpb.Lease/LeaseLeases": pb::LeaseLeasesRequest => pb::LeaseLeasesResponse;
    "/etcdserverpb.Cluster/MemberAdd": pb::MemberAddRequest => pb::MemberAddResponse;
    "/etcdserverpb.Cluster/MemberRemove": pb::MemberRemoveRequest => pb::MemberRemoveResponse;
    "/etcdserverpb.Cluster/MemberUpdate": pb::MemberUpdateRequest => pb::MemberUpdateResponse;
    "/etcdserverpb.Cluster/MemberList": pb::MemberListRequest => pb::MemberListResponse;
    "/etcdserverpb.Cluster/MemberPromote": pb::MemberPromoteRequest => pb::MemberPromoteResponse;
    "/etcdserverpb.Maintenance/Alarm": pb::AlarmRequest => pb::AlarmResponse;
    "/etcdserverpb.Maintenance/Status": pb::StatusRequest => pb::StatusResponse;
    "/etcdserverpb.Maintenance/Defragment": pb::DefragmentRequest => pb::DefragmentResponse;
    "/etcdserverpb.Maintenance/Hash": pb::HashRequest => pb::HashResponse;
    "/etcdserverpb.Maintenance/HashKV": pb::HashKvRequest => pb::HashKvResponse;
    "/etcdserverpb.Maintenance/Snapshot": pb::SnapshotRequest => pb::SnapshotResponse;
    "/etcdserverpb.Maintenance/MoveLeader": pb::MoveLeaderRequest => pb::MoveLeaderResponse;
    "/etcdserverpb.Maintenance/Downgrade": pb::DowngradeRequest => pb::DowngradeResponse;
    "/etcdserverpb.Auth/AuthEnable": pb::AuthEnableRequest => pb::AuthEnableResponse;
    "/etcdserverpb.Auth/AuthDisable": pb::AuthDisableRequest => pb::AuthDisableResponse;
    "/etcdserverpb.Auth/AuthStatus": pb::AuthStatusRequest => pb::AuthStatusResponse;
    "/etcdserverpb.Auth/Authenticate": pb::AuthenticateRequest => pb::AuthenticateResponse;
    "/etcdserverpb.Auth/UserAdd": pb::AuthUserAddRequest => pb::AuthUserAddResponse;
    "/etcdserverpb.Auth/UserGet": pb::AuthUserGetRequest => pb::AuthUserGetResponse;
    "/etcdserverpb.Auth/UserList": pb::AuthUserListRequest => pb::AuthUserListResponse;
    "/etcdserverpb.Auth/UserDelete": pb::AuthUserDeleteRequest => pb::AuthUserDeleteResponse;
    "/etcdserverpb.Auth/UserChangePassword":
        pb::AuthUserChangePasswordRequest => pb::AuthUserChangePasswordResponse;
    "/etcdserverpb.Auth/UserGrantRole": pb::AuthUserGrantRoleRequest => pb::AuthUserGrantRoleResponse;
    "/etcdserverpb.Auth/UserRevokeRole": pb::AuthUserRevokeRoleRequest => pb::AuthUserRevokeRoleResponse;
    "/etcdserverpb.Auth/RoleAdd": pb::AuthRoleAddRequest => pb::AuthRoleAddResponse;
    "/etcdserverpb.Auth/RoleGet": pb::AuthRoleGetRequest => pb::AuthRoleGetResponse;
    "/etcdserverpb.Auth/RoleList": pb::AuthRoleListRequest => pb::AuthRoleListResponse;
    "/etcdserverpb.Auth/RoleDelete": pb::AuthRoleDeleteRequest => pb::AuthRoleDeleteResponse;
    "/etcdserverpb.Auth/RoleGrantPermission":
        pb::AuthRoleGrantPermissionRequest => pb::AuthRoleGrantPermissionResponse;
    "/etcdserverpb.Auth/RoleRevokePermission":
        pb::AuthRoleRevokePermissionRequest => pb::AuthRoleRevokePermissionResponse;
    "/v3lockpb.Lock/Lock": v3lockpb::LockRequest => v3lockpb::LockResponse;
    "/v3lockpb.Lock/Unlock": v3lockpb::UnlockRequest => v3lockpb::UnlockResponse;
    "/v3electionpb.Election/Campaign": v3electionpb::CampaignRequest => v3electionpb::CampaignResponse;
    "/v3electionpb.Election/Proclaim": v3electionpb::ProclaimRequest => v3electionpb::ProclaimResponse;
    "/v3electionpb.Election/Leader": v3electionpb::LeaderRequest => v3electionpb::LeaderResponse;
    "/v3electionpb.Election/Observe": v3electionpb::LeaderRequest => v3electionpb::LeaderResponse;
    "/v3electionpb.Election/Resign": v3electionpb::ResignRequest => v3electionpb::ResignResponse;
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_api::gateway::ROUTES;

    #[test]
    fn every_route_has_types() {
        for route in ROUTES {
            let codec = Codec::for_route(route);
            assert_eq!(codec.read(b"{}").unwrap(), b"", "{}", route.rpc);
            assert_eq!(codec.write(Bytes::new()).unwrap(), b"{}", "{}", route.rpc);
            assert_eq!(codec.write_line(Bytes::new()).unwrap(), b"{\"result\":{}}\n", "{}", route.rpc);
        }
    }

    #[test]
    fn broken_bodies_are_refused_in_known_words() {
        let range = Codec::for_route(&ROUTES[3]);
        let refusal = |body: &str| range.read(body.as_bytes()).unwrap_err().message().to_string();
        assert_eq!(refusal("{"), "unexpected EOF");
        assert_eq!(refusal("xyz"), "invalid character 'x' looking for beginning of value");
        assert!(refusal("[]").starts_with("proto: "));
        assert!(refusal(r#"{"key":5}"#).starts_with("proto: "));
    }
}
