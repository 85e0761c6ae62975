//! The third side: the specification is asked what a server was asked, and must give its answer.
//!
//! So each run proves the specification against etcd, and each server against the specification. It
//! answers for everything about keys and leases, for what watchers are shown, and for hashes. It
//! has no part in the rest: sizes that are too large, numbers that the API does not define,
//! administration.

mod answer;
mod ask;

use std::collections::{BTreeMap, VecDeque};

use prost::Message;
use vetch_api::pb;
use vetch_model::{self as model, Answer, Model, Watch};

use super::deviations::{hash_is_of_nothing, only_last_changes};
use super::mask;
use super::request::Request;

/// Operations that one list of a transaction may have.
const MAX_OPS: usize = 128;
/// Of how many compactions servers remember the hashes.
const REMEMBERED: usize = 10;
/// Below this no server may refuse a request for its size.
const SURELY_SMALL: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Specification {
    model: Model,
    /// The last compactions, whose hashes servers remember: where, and where the one before was.
    compactions: VecDeque<(i64, i64)>,
    /// Per stream, each watcher that is alive and the first revision whose events have not been
    /// judged.
    watchers: [BTreeMap<i64, (Watch, i64)>; 2],
}

/// From a server's lease ids to what stands for them in its masked answers.
pub(super) type Leases<'a> = &'a dyn Fn(i64) -> i64;

/// What a server said and the specification does not.
pub(super) struct Contradiction {
    pub(super) said: String,
    pub(super) specified: String,
}

impl Specification {
    /// Whether a revision puts a key again that it has deleted.
    pub(super) fn puts_again(&self, revision: i64) -> bool {
        let changes = self.model.changes(revision, revision);
        let is_put_later = |at: usize| {
            changes[at..].iter().any(|later| !later.deleted && later.kv.key == changes[at].kv.key)
        };
        (0..changes.len()).any(|at| changes[at].deleted && is_put_later(at))
    }

    /// Judges what a server answered. `request` names leases as the server does, one whose id it
    /// has chosen as well. True if it was a question for the specification at all.
    pub(super) fn judge(
        &mut self,
        request: &Request,
        said: &super::Answer,
        leases: Leases<'_>,
    ) -> Result<bool, Contradiction> {
        let contradiction = |specified: String| Err(Contradiction { said: said.text.clone(), specified });
        let too_large = ["request is too large", "message larger than max"];
        if size(request) > SURELY_SMALL && too_large.iter().any(|reason| said.text.contains(reason)) {
            return Ok(false);
        }
        if let Request::HashKv(request) = request {
            return match (said.hash, self.hash(request)) {
                (Some(hash), Some(specified)) if hash != specified => {
                    contradiction(format!("hash {specified} instead of {hash}"))
                }
                (hash, specified) => Ok(hash.is_some() && specified.is_some()),
            };
        }
        let before = self.model.revision();
        match self.answer(request, leases) {
            Some(specified) if said.text == specified => Ok(true),
            Some(specified) => contradiction(specified),
            // What is not asked here must not have changed anything.
            None if said.revision > before => contradiction(format!("revision {before} as before")),
            None => Ok(false),
        }
    }

    fn answer(&mut self, request: &Request, leases: Leases<'_>) -> Option<String> {
        Some(match request {
            Request::Range(request) => self.range(request, leases)?,
            Request::RangeStream(request) if is_plain(request) => self.range(request, leases)?,
            Request::Put(request) => {
                self.evaluate(&model::Request::Put(ask::put(request)), |answer, header, _| {
                    let Answer::Put { prev_kv } = answer else { return mismatch(&answer) };
                    let mut response = answer::put(prev_kv.as_ref(), header);
                    mask::put(&mut response, leases);
                    text(&response)
                })
            }
            Request::DeleteRange(request) => {
                self.evaluate(&model::Request::Delete(ask::delete(request)), |answer, header, _| {
                    let Answer::Delete(deleted) = answer else { return mismatch(&answer) };
                    let mut response = answer::delete(&deleted, header);
                    mask::delete(&mut response, leases);
                    text(&response)
                })
            }
            Request::Txn(request) => {
                self.evaluate(&model::Request::Txn(ask::txn(request)?), |answer, header, before| {
                    let Answer::Txn(answer) = answer else { return mismatch(&answer) };
                    let mut response = answer::txn(&answer, header, before, &mut false);
                    mask::txn(request, &mut response, leases);
                    text(&response)
                })
            }
            Request::Compact(request) => {
                let compact = model::Request::Compact { revision: request.revision };
                let before = self.model.compact_revision();
                let said = self.evaluate(&compact, |_, header, _| text(&pb::CompactionResponse { header }));
                self.note_compaction(before);
                said
            }
            _ => return self.lease_answer(request, leases),
        })
    }

    fn range(&mut self, request: &pb::RangeRequest, leases: Leases<'_>) -> Option<String> {
        let asked = model::Request::Range(ask::range(request)?);
        Some(self.evaluate(&asked, |answer, header, _| {
            let Answer::Range(ranged) = answer else { return mismatch(&answer) };
            let mut response = answer::range(&ranged, header);
            mask::range(request, &mut response, leases);
            text(&response)
        }))
    }

    fn lease_answer(&mut self, request: &Request, leases: Leases<'_>) -> Option<String> {
        let header = answer::header(self.model.revision());
        Some(match request {
            Request::Grant(request) => {
                let grant = model::Request::LeaseGrant { id: request.id, ttl: request.ttl };
                self.evaluate(&grant, |answer, header, _| {
                    let Answer::LeaseGrant { id, ttl } = answer else { return mismatch(&answer) };
                    text(&pb::LeaseGrantResponse { header, id: leases(id), ttl, error: String::new() })
                })
            }
            Request::Revoke(request) => {
                let revoke = model::Request::LeaseRevoke { id: request.id };
                self.evaluate(&revoke, |_, header, _| text(&pb::LeaseRevokeResponse { header }))
            }
            Request::KeepAlive(request) => {
                let keep_alive = model::Request::LeaseKeepAlive { id: request.id };
                self.evaluate(&keep_alive, |answer, header, _| {
                    let Answer::LeaseKeepAlive { ttl } = answer else { return mismatch(&answer) };
                    text(&pb::LeaseKeepAliveResponse { header, id: leases(request.id), ttl })
                })
            }
            Request::TimeToLive(request) => {
                let granted = self.model.leases().get(&request.id).copied();
                let keys = self.model.lease_keys(request.id).into_iter().map(|key| key.to_vec().into());
                text(&pb::LeaseTimeToLiveResponse {
                    header,
                    id: leases(request.id),
                    ttl: granted.unwrap_or(-1),
                    granted_ttl: granted.unwrap_or(0),
                    keys: keys.filter(|_| request.keys && granted.is_some()).collect(),
                })
            }
            Request::Leases => {
                let all = self.model.leases().keys().map(|&id| pb::LeaseStatus { id }).collect();
                let mut response = pb::LeaseLeasesResponse { header, leases: all };
                mask::leases(&mut response, leases);
                text(&response)
            }
            _ => return None,
        })
    }

    /// `render` is given the answer, its header, and the revision before.
    fn evaluate(
        &mut self,
        request: &model::Request,
        render: impl FnOnce(Answer, Option<pb::ResponseHeader>, i64) -> String,
    ) -> String {
        if let Err(malformed) = request.shape(MAX_OPS) {
            return answer::malformed(malformed);
        }
        let before = self.model.revision();
        match self.model.evaluate(request) {
            Ok((revision, answer)) => render(answer, answer::header(revision), before),
            Err(refusal) => answer::refusal(refusal),
        }
    }

    fn note_compaction(&mut self, before: i64) {
        let now = self.model.compact_revision();
        if now > before {
            self.compactions.push_back((now, before));
            let forgotten = self.compactions.len().saturating_sub(REMEMBERED);
            self.compactions.drain(..forgotten);
        }
    }

    /// The hash that a server which answers HashKV with one must give, if it is one of the present
    /// state.
    fn hash(&self, request: &pb::HashKvRequest) -> Option<u32> {
        let compacted = self.model.compact_revision();
        if hash_is_of_nothing(request.revision) {
            return None;
        }
        let found = self.compactions.iter().find(|(revision, _)| *revision == request.revision);
        if let Some(&(revision, before)) = found {
            return Some(self.model.hash_in_compaction(revision, before));
        }
        let at = if request.revision == 0 { self.model.revision() } else { request.revision };
        Some(self.model.hash_kv(at, compacted))
    }

    pub(super) fn watcher_created(&mut self, stream: usize, id: i64, create: &pb::WatchCreateRequest) {
        let from = if create.start_revision == 0 { self.model.revision() + 1 } else { create.start_revision };
        self.watchers[stream].insert(id, (ask::watch(create), from));
    }

    pub(super) fn watcher_ended(&mut self, stream: usize, id: i64) {
        self.watchers[stream].remove(&id);
    }

    /// Judges all lines that each watcher of a stream has been sent and that were not judged
    /// before. Returns how many events those were.
    pub(super) fn judge_watchers(
        &self,
        stream: usize,
        lines: &BTreeMap<i64, Vec<String>>,
        leases: Leases<'_>,
    ) -> Result<usize, Contradiction> {
        let (now, mut judged) = (self.model.now(), 0);
        for (id, (watch, from)) in &self.watchers[stream] {
            let said = lines.get(id).map_or(&[][..], Vec::as_slice);
            if said.iter().any(|line| line.starts_with("canceled")) {
                continue;
            }
            // A watcher that was there before the compaction may know more of it; see
            // `forget_the_overtaken`.
            let events = self.model.recalled(watch, *from, now.revision);
            let mut events: Vec<_> = events.iter().map(answer::event).collect();
            only_last_changes(&mut events, now.compacted);
            for kv in events.iter_mut().flat_map(|event| event.kv.iter_mut().chain(&mut event.prev_kv)) {
                mask::key_value(kv, leases);
            }
            let specified: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
            if said != specified {
                let show = |lines: &[String]| format!("watcher {id} of {watch:?} from {from}: {lines:#?}");
                return Err(Contradiction { said: show(said), specified: show(&specified) });
            }
            judged += specified.len();
        }
        Ok(judged)
    }

    /// What a stream's watchers were sent so far has been judged and will not be shown again.
    pub(super) fn watchers_judged(&mut self, stream: usize) {
        let next = self.model.revision() + 1;
        self.watchers[stream].values_mut().for_each(|(_, from)| *from = next.max(*from));
    }
}

fn text(response: &impl std::fmt::Debug) -> String {
    format!("{response:#?}")
}

fn mismatch(answer: &Answer) -> String {
    format!("the specification answers with {answer:?}")
}

/// Streams refuse to sort and to filter.
fn is_plain(request: &pb::RangeRequest) -> bool {
    let bounds = [
        request.min_mod_revision,
        request.max_mod_revision,
        request.min_create_revision,
        request.max_create_revision,
    ];
    request.sort_order == 0 && request.sort_target == 0 && bounds == [0; 4]
}

fn size(request: &Request) -> usize {
    match request {
        Request::Put(request) => request.encoded_len(),
        Request::Txn(request) => request.encoded_len(),
        _ => 0,
    }
}
