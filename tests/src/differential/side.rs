//! One of the two servers in a differential run: sends a request and gives the answer back as
//! masked text.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use prost::Message;
use tonic::{Response, Status};
use vetch_api::pb;

use super::deviations::hash_is_of_nothing;
use super::mask;
use super::request::{CHOSEN, FUTURE, Request, SETTLED};
use super::spec::{Contradiction, Specification};
use super::watches::Stream;
use crate::client::Client;
use crate::server::{Kind, Server};

pub(super) struct Side {
    _server: Server,
    pub(super) client: Client,
    pub(super) streams: [Stream; 2],
    /// Ids this server chose for leases, in the order of the grants.
    chosen: Vec<i64>,
    spec: Specification,
}

/// An answer ready for comparison, and what the run learns from it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) ok: bool,
    pub(super) revision: i64,
    /// Set for HashKV; two servers may give different ones, but each the one that is specified.
    pub(super) hash: Option<u32>,
    /// The watcher that this answer created.
    pub(super) watcher: Option<i64>,
}

impl Side {
    pub(super) async fn start(kind: Kind) -> Result<Side> {
        let server = Server::start(kind)?;
        let client = Client::connect(&server.endpoint()).await?;
        let streams = [Stream::open(&client), Stream::open(&client)];
        Ok(Side { _server: server, client, streams, chosen: Vec::new(), spec: Specification::default() })
    }

    /// etcd loses the value of a key that one revision deletes and puts again if it is compacted
    /// there, and dies of it when the key is read next.
    pub(super) fn kills_etcd(&self, request: &Request) -> bool {
        matches!(request, Request::Compact(compaction) if self.spec.puts_again(compaction.revision))
    }

    /// From this server's ids to ordinals.
    fn mask_lease(&self, id: i64) -> i64 {
        ordinal(&self.chosen, id)
    }

    /// From ordinals to this server's ids.
    fn own_lease(&self, id: i64) -> i64 {
        usize::try_from(id - CHOSEN).ok().and_then(|ordinal| self.chosen.get(ordinal)).copied().unwrap_or(id)
    }

    pub(super) async fn perform(
        &mut self,
        request: &Request,
        world: &super::generate::World,
    ) -> Result<Answer> {
        let request = request.with_leases(&|id| self.own_lease(id));
        match request {
            Request::Range(_)
            | Request::RangeStream(_)
            | Request::Put(_)
            | Request::DeleteRange(_)
            | Request::Txn(_)
            | Request::Compact(_) => self.key_value(request).await,
            Request::Grant(_)
            | Request::Revoke(_)
            | Request::KeepAlive(_)
            | Request::TimeToLive(_)
            | Request::Leases => self.lease(request).await,
            Request::WatchCreate(stream, create) => self.watch_create(stream, create, world.compacted).await,
            Request::WatchCancel(stream, id) => {
                self.streams[stream].cancel(id, world.watchers[stream].contains(&id)).await?;
                Ok(Answer::default())
            }
            Request::WatchSettle => {
                self.streams[SETTLED].settle(world.revision).await?;
                Ok(Answer::default())
            }
            Request::HashKv(request) => Ok(self.hash_kv(request).await),
            _ => self.administer(request).await,
        }
    }

    /// Whether the specification says the same as this server did. True if it says anything about
    /// such a request.
    pub(super) fn judge(&mut self, request: &Request, said: &Answer) -> Result<bool, Contradiction> {
        let mut request = request.with_leases(&|id| self.own_lease(id));
        match &mut request {
            Request::Grant(grant) if grant.id == 0 && said.ok => {
                grant.id = self.chosen.last().copied().unwrap_or(0);
            }
            Request::WatchCreate(stream, create) => {
                said.watcher.inspect(|&id| self.spec.watcher_created(*stream, id, create));
            }
            Request::WatchCancel(stream, id) => self.spec.watcher_ended(*stream, *id),
            _ => {}
        }
        self.spec.judge(&request, said, &|id| ordinal(&self.chosen, id))
    }

    async fn hash_kv(&mut self, request: pb::HashKvRequest) -> Answer {
        let mut hash = None;
        let result = self.client.maintenance.clone().hash_kv(request).await;
        let answer = answer(
            result,
            |r| &mut r.header,
            |r| {
                mask::header(&mut r.header);
                hash = Some(std::mem::take(&mut r.hash));
                if hash_is_of_nothing(request.revision) {
                    r.compact_revision = 0;
                    r.hash_revision = 0;
                }
            },
        );
        Answer { hash, ..answer }
    }

    async fn key_value(&mut self, request: Request) -> Result<Answer> {
        let mut kv = self.client.kv.clone();
        let map = |id| self.mask_lease(id);
        Ok(match request {
            Request::Range(request) => {
                let result = kv.range(request.clone()).await;
                answer(result, |r| &mut r.header, |r| mask::range(&request, r, &map))
            }
            Request::RangeStream(request) => {
                let result = self.range_stream(request.clone()).await.map(Response::new);
                answer(result, |r| &mut r.header, |r| mask::range(&request, r, &map))
            }
            Request::Put(request) => answer(kv.put(request).await, |r| &mut r.header, |r| mask::put(r, &map)),
            Request::DeleteRange(request) => {
                answer(kv.delete_range(request).await, |r| &mut r.header, |r| mask::delete(r, &map))
            }
            Request::Txn(request) => {
                let result = kv.txn(request.clone()).await;
                answer(result, |r| &mut r.header, |r| mask::txn(&request, r, &map))
            }
            Request::Compact(request) => {
                let result = kv.compact(request).await;
                // Until it is through, etcd answers for its hash without it. Asking for the same
                // again is refused, but, if it is to be physical, only then.
                if result.is_ok() && !request.physical {
                    let _ = kv.compact(pb::CompactionRequest { physical: true, ..request }).await;
                }
                answer(result, |r| &mut r.header, |r| mask::header(&mut r.header))
            }
            _ => unreachable!("not a key-value request"),
        })
    }

    /// The chunks of a stream merged as protobuf merges them, which is what a client does with
    /// them.
    async fn range_stream(&self, request: pb::RangeRequest) -> Result<pb::RangeResponse, Status> {
        let mut stream = self.client.kv.clone().range_stream(request).await?.into_inner();
        let mut merged = pb::RangeResponse::default();
        while let Some(chunk) = stream.message().await? {
            let part = chunk.range_response.unwrap_or_default().encode_to_vec();
            merged.merge(&part[..]).expect("what was just encoded decodes");
        }
        Ok(merged)
    }

    async fn lease(&mut self, request: Request) -> Result<Answer> {
        let mut lease = self.client.lease.clone();
        Ok(match request {
            Request::Grant(request) => {
                let result = lease.lease_grant(request).await;
                if let Ok(response) = &result
                    && request.id == 0
                {
                    self.chosen.push(response.get_ref().id);
                }
                let map = |id| self.mask_lease(id);
                answer(
                    result,
                    |r| &mut r.header,
                    |r| {
                        mask::header(&mut r.header);
                        r.id = map(r.id);
                    },
                )
            }
            Request::Revoke(request) => {
                answer(lease.lease_revoke(request).await, |r| &mut r.header, |r| mask::header(&mut r.header))
            }
            Request::KeepAlive(request) => {
                let result = self.keep_alive(request).await;
                let map = |id| self.mask_lease(id);
                answer(
                    result,
                    |r| &mut r.header,
                    |r| {
                        mask::header(&mut r.header);
                        r.id = map(r.id);
                    },
                )
            }
            Request::TimeToLive(request) => {
                let map = |id| self.mask_lease(id);
                let result = lease.lease_time_to_live(request).await;
                answer(result, |r| &mut r.header, |r| mask::time_to_live(r, &map))
            }
            Request::Leases => {
                let map = |id| self.mask_lease(id);
                let result = lease.lease_leases(pb::LeaseLeasesRequest {}).await;
                answer(result, |r| &mut r.header, |r| mask::leases(r, &map))
            }
            _ => unreachable!("not a lease request"),
        })
    }

    async fn keep_alive(
        &self,
        request: pb::LeaseKeepAliveRequest,
    ) -> Result<Response<pb::LeaseKeepAliveResponse>, Status> {
        let requests = tokio_stream::once(request);
        let mut responses = self.client.lease.clone().lease_keep_alive(requests).await?.into_inner();
        let first = responses.message().await?;
        first
            .map(Response::new)
            .ok_or_else(|| Status::unknown("the keep-alive stream ended without an answer"))
    }

    async fn watch_create(
        &mut self,
        stream: usize,
        create: pb::WatchCreateRequest,
        compacted: i64,
    ) -> Result<Answer> {
        let mut response = self.streams[stream].create(create, compacted).await?;
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        mask::header(&mut response.header);
        let watcher = (!response.canceled).then_some(response.watch_id);
        Ok(Answer { text: format!("{response:#?}"), ok: watcher.is_some(), revision, hash: None, watcher })
    }

    async fn administer(&mut self, request: Request) -> Result<Answer> {
        let mut maintenance = self.client.maintenance.clone();
        Ok(match request {
            Request::Status => {
                answer(maintenance.status(pb::StatusRequest {}).await, |r| &mut r.header, mask::status)
            }
            Request::Alarm(request) => answer(
                maintenance.alarm(request).await,
                |r| &mut r.header,
                |r| {
                    mask::header(&mut r.header);
                    for alarm in &mut r.alarms {
                        alarm.member_id = u64::from(alarm.member_id != 0);
                    }
                },
            ),
            Request::MoveLeader(target_id) => {
                let result = maintenance.move_leader(pb::MoveLeaderRequest { target_id }).await;
                answer(result, |r| &mut r.header, |r| mask::header(&mut r.header))
            }
            Request::Downgrade(request) => answer(
                maintenance.downgrade(request).await,
                |r| &mut r.header,
                |r| mask::header(&mut r.header),
            ),
            Request::Defragment => {
                let result = maintenance.defragment(pb::DefragmentRequest {}).await;
                answer(result, |r| &mut r.header, |r| mask::header(&mut r.header))
            }
            other => self.membership(other).await,
        })
    }

    async fn membership(&mut self, request: Request) -> Answer {
        let mut cluster = self.client.cluster.clone();
        macro_rules! members {
            ($result:expr) => {
                answer(
                    $result,
                    |r| &mut r.header,
                    |r| {
                        mask::header(&mut r.header);
                        mask::members(&mut r.members);
                    },
                )
            };
        }
        match request {
            Request::MemberList(linearizable) => {
                members!(cluster.member_list(pb::MemberListRequest { linearizable }).await)
            }
            Request::MemberPromote(id) => {
                members!(cluster.member_promote(pb::MemberPromoteRequest { id }).await)
            }
            Request::MemberRemove(id) => {
                members!(cluster.member_remove(pb::MemberRemoveRequest { id }).await)
            }
            Request::MemberUpdate(request) => members!(cluster.member_update(request).await),
            Request::MemberAdd(request) => members!(cluster.member_add(request).await),
            other => unreachable!("{other:?} is not about members"),
        }
    }

    /// The watcher that keeps progress answered on the stream where everything is expected to
    /// settle.
    pub(super) async fn anchor(&mut self) -> Result<i64> {
        let all = pb::WatchCreateRequest {
            key: "\0".into(),
            range_end: "\0".into(),
            prev_kv: true,
            ..Default::default()
        };
        let created = self.watch_create(SETTLED, all.clone(), 0).await?;
        let id = created.watcher.context("the first watcher was refused")?;
        self.spec.watcher_created(SETTLED, id, &all);
        Ok(id)
    }

    /// Takes what the settled watchers were sent since the last time.
    pub(super) fn settled_lines(&self, compacted: i64) -> Lines {
        self.streams[SETTLED].take(&|id| self.mask_lease(id), compacted)
    }

    pub(super) fn future_lines(&self, compacted: i64) -> Lines {
        self.streams[FUTURE].look(&|id| self.mask_lease(id), compacted)
    }

    /// Whether the specification says the same as what the settled watchers were sent, and how many
    /// events it was.
    pub(super) fn judge_settled(&mut self, lines: &Lines) -> Result<usize, Contradiction> {
        let judged = self.spec.judge_watchers(SETTLED, lines, &|id| self.mask_lease(id));
        self.spec.watchers_judged(SETTLED);
        for (id, lines) in lines {
            if lines.iter().any(|line| line.starts_with("canceled")) {
                self.spec.watcher_ended(SETTLED, *id);
            }
        }
        judged
    }

    /// The same for everything that watchers of the future were ever sent.
    pub(super) fn judge_future(&self, lines: &Lines) -> Result<usize, Contradiction> {
        self.spec.judge_watchers(FUTURE, lines, &|id| self.mask_lease(id))
    }
}

/// Per watcher, what it was sent.
pub(super) type Lines = BTreeMap<i64, Vec<String>>;

fn ordinal(chosen: &[i64], id: i64) -> i64 {
    chosen.iter().position(|chosen| *chosen == id).map_or(id, |ordinal| CHOSEN + ordinal as i64)
}

/// Masks a response and renders it; an error is its code and text.
fn answer<R: std::fmt::Debug>(
    result: Result<Response<R>, Status>,
    header: impl Fn(&mut R) -> &mut Option<pb::ResponseHeader>,
    mask: impl FnOnce(&mut R),
) -> Answer {
    match result {
        Ok(response) => {
            let mut response = response.into_inner();
            let revision = header(&mut response).as_ref().map_or(0, |header| header.revision);
            mask(&mut response);
            Answer { text: format!("{response:#?}"), ok: true, revision, ..Default::default() }
        }
        Err(status) => {
            let text = format!("error {:?}: {:?}", status.code(), without_size(status.message()));
            Answer { text, ..Default::default() }
        }
    }
}

/// The size of a message that is too large depends on the ids that each server gave its leases,
/// which take a byte more or less.
fn without_size(message: &str) -> &str {
    message
        .split_once(" (")
        .filter(|(start, _)| start.ends_with("larger than max"))
        .map_or(message, |(start, _)| start)
}

/// How long to wait for watchers of the future to get the same on both sides.
pub(super) const FUTURE_TIMEOUT: Duration = Duration::from_secs(10);
