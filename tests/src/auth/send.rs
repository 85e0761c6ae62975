//! Sends a request to one server and puts its answer into words that can be compared.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::Result;
use tokio_stream::StreamExt;
use tonic::Status;
use tonic::transport::Channel;
use vetch_api::pb;
use vetch_api::pb::auth_client::AuthClient;
use vetch_api::pb::watch_request::RequestUnion;
use vetch_api::v3electionpb::LeaderRequest;
use vetch_api::v3lockpb::LockRequest;

use super::{Ask, Request};
use crate::client::Client;

/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Side {
    client: Client,
    auth: AuthClient<Channel>,
    tokens: HashMap<&'static str, String>,
}

type Outcome = Result<String, Status>;

impl Side {
    pub(crate) async fn connect(endpoint: &str) -> Result<Side> {
        let client = Client::connect(endpoint).await?;
        let auth = AuthClient::new(client.channel.clone());
        Ok(Side { client, auth, tokens: HashMap::new() })
    }

    pub(crate) async fn send(&mut self, request: &Request) -> String {
        let sent = tokio::time::timeout(TIMEOUT, self.outcome(request)).await;
        match sent.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer"))) {
            Ok(answer) => answer,
            Err(status) => format!("refused: {:?} {}", status.code(), status.message()),
        }
    }

    /// A request with the token of the user who sends it. Users without one send none.
    fn by<T>(&self, who: &str, request: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(request);
        let token = match who {
            "?" => Some("abcdefghijklmnop.1"),
            who => self.tokens.get(who).map(String::as_str),
        };
        if let Some(token) = token {
            request.metadata_mut().insert("token", token.parse().expect("tokens are letters and digits"));
        }
        request
    }

    async fn outcome(&mut self, request: &Request) -> Outcome {
        let who = request.by;
        match &request.ask {
            Ask::LogIn { user, password } => {
                let login = pb::AuthenticateRequest { name: (*user).into(), password: (*password).into() };
                let answer = self.auth.authenticate(self.by(who, login)).await?.into_inner();
                self.tokens.insert(user, answer.token);
                Ok("logged in".to_owned())
            }
            ask if is_about_auth(ask) => self.about_auth(who, ask).await,
            ask if is_about_leases(ask) => self.about_leases(who, ask).await,
            ask if is_about_keys(ask) => self.about_keys(who, ask).await,
            ask => self.administration(who, ask).await,
        }
    }

    async fn about_auth(&mut self, who: &str, ask: &Ask) -> Outcome {
        let mut auth = self.auth.clone();
        let name = |name: &str| name.to_owned();
        match ask {
            Ask::Enable => shown(auth.auth_enable(self.by(who, pb::AuthEnableRequest {})).await),
            Ask::Disable => shown(auth.auth_disable(self.by(who, pb::AuthDisableRequest {})).await),
            Ask::Status => shown(auth.auth_status(self.by(who, pb::AuthStatusRequest {})).await),
            Ask::UserAdd(add) => shown(auth.user_add(self.by(who, add.clone())).await),
            Ask::UserGet(user) => {
                shown(auth.user_get(self.by(who, pb::AuthUserGetRequest { name: name(user) })).await)
            }
            Ask::UserList => shown(auth.user_list(self.by(who, pb::AuthUserListRequest {})).await),
            Ask::UserDelete(user) => {
                shown(auth.user_delete(self.by(who, pb::AuthUserDeleteRequest { name: name(user) })).await)
            }
            Ask::Password(change) => shown(auth.user_change_password(self.by(who, change.clone())).await),
            Ask::GrantRole { user, role } => {
                let grant = pb::AuthUserGrantRoleRequest { user: name(user), role: name(role) };
                shown(auth.user_grant_role(self.by(who, grant)).await)
            }
            Ask::RevokeRole { user, role } => {
                let revoke = pb::AuthUserRevokeRoleRequest { name: name(user), role: name(role) };
                shown(auth.user_revoke_role(self.by(who, revoke)).await)
            }
            Ask::RoleAdd(role) => {
                shown(auth.role_add(self.by(who, pb::AuthRoleAddRequest { name: name(role) })).await)
            }
            Ask::RoleGet(role) => {
                shown(auth.role_get(self.by(who, pb::AuthRoleGetRequest { role: name(role) })).await)
            }
            Ask::RoleList => shown(auth.role_list(self.by(who, pb::AuthRoleListRequest {})).await),
            Ask::RoleDelete(role) => {
                shown(auth.role_delete(self.by(who, pb::AuthRoleDeleteRequest { role: name(role) })).await)
            }
            Ask::Permit { role, permission } => {
                let perm = permission.clone();
                let permit = pb::AuthRoleGrantPermissionRequest { name: name(role), perm };
                shown(auth.role_grant_permission(self.by(who, permit)).await)
            }
            Ask::Forbid { role, key, end } => {
                let (key, range_end) = ((*key).into(), (*end).into());
                let forbid = pb::AuthRoleRevokePermissionRequest { role: name(role), key, range_end };
                shown(auth.role_revoke_permission(self.by(who, forbid)).await)
            }
            other => unreachable!("{other:?} is not about users"),
        }
    }

    async fn about_keys(&mut self, who: &str, ask: &Ask) -> Outcome {
        let mut kv = self.client.kv.clone();
        match ask {
            Ask::Range(range) => shown(kv.range(self.by(who, range.clone())).await),
            Ask::RangeStream(range) => {
                let mut parts = kv.range_stream(self.by(who, range.clone())).await?.into_inner();
                let mut kvs = Vec::new();
                while let Some(part) = parts.next().await {
                    kvs.extend(part?.range_response.unwrap_or_default().kvs);
                }
                Ok(format!("{kvs:?}"))
            }
            Ask::Put(put) => shown(kv.put(self.by(who, put.clone())).await),
            Ask::Delete(delete) => shown(kv.delete_range(self.by(who, delete.clone())).await),
            Ask::Txn(txn) => shown(kv.txn(self.by(who, txn.clone())).await),
            Ask::Compact(revision) => {
                let request = pb::CompactionRequest { revision: *revision, physical: false };
                shown(kv.compact(self.by(who, request)).await)
            }
            Ask::Watch { key, end } => self.watch(who, key, end).await,
            Ask::Lock(name) => {
                let request = LockRequest { name: (*name).into(), lease: 0 };
                // Which lease was made, and so the key, is left to the server.
                let mut locks = self.client.lock.clone();
                let key = locks.lock(self.by(who, request)).await?.into_inner().key;
                shown(locks.unlock(self.by(who, vetch_api::v3lockpb::UnlockRequest { key })).await)
            }
            Ask::Leader(name) => {
                let request = LeaderRequest { name: (*name).into() };
                let leader = self.client.election.clone().leader(self.by(who, request)).await;
                leader.map(|_| "a leader".to_owned())
            }
            other => unreachable!("{other:?} is not about keys"),
        }
    }

    /// The answer to a create.
    async fn watch(&self, who: &str, key: &str, end: &str) -> Outcome {
        let create = pb::WatchCreateRequest {
            key: key.to_owned().into(),
            range_end: end.to_owned().into(),
            ..Default::default()
        };
        let create = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let requests = tokio_stream::iter([create]).chain(tokio_stream::pending());
        let mut answers = self.client.watch.clone().watch(self.by(who, requests)).await?.into_inner();
        let answer = answers.next().await.ok_or(Status::aborted("the stream ended"))??;
        Ok(format!("{:?}", (answer.created, answer.canceled, answer.watch_id, answer.cancel_reason)))
    }

    async fn about_leases(&mut self, who: &str, ask: &Ask) -> Outcome {
        let mut lease = self.client.lease.clone();
        match ask {
            Ask::Grant(id) => {
                shown(lease.lease_grant(self.by(who, pb::LeaseGrantRequest { id: *id, ttl: 9000 })).await)
            }
            Ask::Revoke(id) => {
                shown(lease.lease_revoke(self.by(who, pb::LeaseRevokeRequest { id: *id })).await)
            }
            Ask::TimeToLive { id, keys } => {
                let request = pb::LeaseTimeToLiveRequest { id: *id, keys: *keys };
                let mut answer = lease.lease_time_to_live(self.by(who, request)).await?.into_inner();
                answer.keys.sort();
                Ok(format!("{:?}", (answer.id, answer.granted_ttl, answer.ttl < 0, answer.keys)))
            }
            Ask::Leases => {
                let answer = lease.lease_leases(self.by(who, pb::LeaseLeasesRequest {})).await?.into_inner();
                let few = answer.leases.iter().filter(|lease| lease.id < 1 << 32);
                let mut ids: Vec<i64> = few.map(|lease| lease.id).collect();
                ids.sort_unstable();
                Ok(format!("{ids:?}"))
            }
            Ask::Renew(id) => {
                let renewals = tokio_stream::iter([pb::LeaseKeepAliveRequest { id: *id }]);
                let mut answers = lease.lease_keep_alive(self.by(who, renewals)).await?.into_inner();
                let answer = answers.next().await.ok_or(Status::aborted("the stream ended"))??;
                Ok(format!("{:?}", (answer.id, answer.ttl)))
            }
            other => unreachable!("{other:?} is not about leases"),
        }
    }

    /// Whether it is answered is what counts; the answers differ from machine to machine.
    async fn administration(&mut self, who: &str, ask: &Ask) -> Outcome {
        let mut maintenance = self.client.maintenance.clone();
        let mut cluster = self.client.cluster.clone();
        match ask {
            Ask::MemberList => {
                let request = pb::MemberListRequest { linearizable: true };
                done(cluster.member_list(self.by(who, request)).await)
            }
            Ask::MemberAdd => {
                let request = pb::MemberAddRequest { peer_ur_ls: vec!["nonsense".into()], is_learner: false };
                done(cluster.member_add(self.by(who, request)).await)
            }
            Ask::MemberRemove => {
                done(cluster.member_remove(self.by(who, pb::MemberRemoveRequest { id: 1 })).await)
            }
            Ask::Alarm { action } => {
                // Raising and lowering "none" is allowed and does nothing.
                let request = pb::AlarmRequest { action: *action, member_id: 0, alarm: 0 };
                done(maintenance.alarm(self.by(who, request)).await)
            }
            Ask::ServerStatus => done(maintenance.status(self.by(who, pb::StatusRequest {})).await),
            Ask::HashKv => done(maintenance.hash_kv(self.by(who, pb::HashKvRequest { revision: 0 })).await),
            Ask::Hash => done(maintenance.hash(self.by(who, pb::HashRequest {})).await),
            Ask::Defragment => done(maintenance.defragment(self.by(who, pb::DefragmentRequest {})).await),
            Ask::MoveLeader => {
                done(maintenance.move_leader(self.by(who, pb::MoveLeaderRequest { target_id: 1 })).await)
            }
            Ask::Downgrade => {
                let request = pb::DowngradeRequest { action: 0, version: "1.0".into() };
                done(maintenance.downgrade(self.by(who, request)).await)
            }
            Ask::Snapshot => {
                let mut parts =
                    maintenance.snapshot(self.by(who, pb::SnapshotRequest {})).await?.into_inner();
                while let Some(part) = parts.next().await {
                    part?;
                }
                Ok("done".to_owned())
            }
            other => unreachable!("{other:?} is no administration"),
        }
    }
}

fn is_about_auth(ask: &Ask) -> bool {
    matches!(
        ask,
        Ask::Enable
            | Ask::Disable
            | Ask::Status
            | Ask::UserAdd(_)
            | Ask::UserGet(_)
            | Ask::UserList
            | Ask::UserDelete(_)
            | Ask::Password(_)
            | Ask::GrantRole { .. }
            | Ask::RevokeRole { .. }
            | Ask::RoleAdd(_)
            | Ask::RoleGet(_)
            | Ask::RoleList
            | Ask::RoleDelete(_)
            | Ask::Permit { .. }
            | Ask::Forbid { .. }
    )
}

fn is_about_keys(ask: &Ask) -> bool {
    matches!(
        ask,
        Ask::Range(_)
            | Ask::RangeStream(_)
            | Ask::Put(_)
            | Ask::Delete(_)
            | Ask::Txn(_)
            | Ask::Compact(_)
            | Ask::Watch { .. }
            | Ask::Lock(_)
            | Ask::Leader(_)
    )
}

fn is_about_leases(ask: &Ask) -> bool {
    matches!(ask, Ask::Grant(_) | Ask::Revoke(_) | Ask::TimeToLive { .. } | Ask::Leases | Ask::Renew(_))
}

/// An answer without what differs from server to server.
fn shown<T: Debug>(answer: Result<tonic::Response<T>, Status>) -> Outcome {
    let text = format!("{:?}", answer?.into_inner());
    Ok(["cluster_id: ", "member_id: ", "raft_term: "].into_iter().fold(text, without_number))
}

/// Takes the number behind every `label` out of a text.
fn without_number(text: String, label: &str) -> String {
    let mut parts = text.split(label);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(label);
        out.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    }
    out
}

fn done<T>(answer: Result<tonic::Response<T>, Status>) -> Outcome {
    answer.map(|_| "done".to_owned())
}
