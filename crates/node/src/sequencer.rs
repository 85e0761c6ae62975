//! Sequencer: turns a queue of requests into journal entries.
//!
//! Pure: it is given the store, it is given requests, it returns a batch. Everything a batch needs
//! once it is durable travels with it: what becomes visible, what watchers see, who is answered
//! what. An answer is held back until every entry before it is durable too, because even a refusal
//! may reveal a write still in flight.

use std::sync::Arc;

use tokio::sync::oneshot;
use vetch_base::Seq;
use vetch_checkpoint::Capture;
use vetch_checkpoint::replay::PARTITION;
use vetch_cluster::ReplicaId;
use vetch_journal::{Draft, Kind, PartId};
use vetch_store::auth::Auth;
use vetch_store::request::{Alarm, Event, WriteRequest, WriteResponse};
use vetch_store::turns::{self, Exclusive};
use vetch_store::{Mark, Record, Store, StoreError, Undo};
use vetch_watch::Events;

use crate::admission::Admission;
use crate::error::NodeError;
use crate::event::NodeEvent;

/// A partition's place in an entry; there is one partition so far.
const ONLY_PARTITION: PartId = PartId { partition: PARTITION, owner_epoch: 0, pseq: 0 };

/// What an entry costs in the journal beside its bytes, at most.
const ENTRY_PADDING: u64 = 512;

/// Events of a request that are noted without letting others have the store.
const EVENTS_WITH_LOCK_MAX: usize = 1024;

pub(crate) type Outcome = Result<WriteResponse, NodeError>;

/// The work of one round, ready for the journal.
pub(crate) struct Batch<R> {
    /// The entry; its place is known where it is appended. None if nothing changed; the answers
    /// still wait for what is in flight before them.
    pub(crate) draft: Option<Draft>,
    /// A checkpoint that is to be captured right behind this batch.
    pub(crate) capture: Option<CaptureRequest>,
    /// Another server leads behind this batch, on a shared journal.
    pub(crate) transfer: Option<LeadershipTransfer>,
    /// Nothing is evaluated behind this batch, on a shared journal.
    pub(crate) end_of_lead: Option<EndOfLead>,
    /// What readers may see once the entry is durable.
    pub(crate) mark: Mark,
    pub(crate) revisions: Vec<(i64, Events<NodeEvent>)>,
    /// What has no versions, as far as it changed.
    pub(crate) unversioned: Unversioned,
    pub(crate) replies: Vec<(R, Outcome)>,
}

/// Changes of what exists at head only. They are shown together with the revisions of their batch.
#[derive(Default)]
pub(crate) struct Unversioned {
    /// All users and roles, if any changed.
    pub(crate) auth: Option<Arc<Auth>>,
    /// All alarms, if any changed.
    pub(crate) alarms: Option<Vec<Alarm>>,
    pub(crate) leases: Vec<LeaseChange>,
    /// What takes all of it back, in the order in which it was evaluated.
    pub(crate) undo: Vec<Undo>,
}

/// What the lessor must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseChange {
    Granted { id: i64, grant: u64, ttl: i64 },
    Ended { id: i64 },
}

impl Unversioned {
    /// Notes what an evaluation changed.
    fn note(&mut self, store: &Store, response: &WriteResponse, undo: Option<Undo>) {
        self.undo.extend(undo);
        match *response {
            WriteResponse::Auth { .. } => self.auth = Some(Arc::clone(store.auth())),
            WriteResponse::Alarm { .. } => self.alarms = Some(store.alarms().collect()),
            WriteResponse::LeaseGrant { id, ttl, grant, .. } => {
                self.leases.push(LeaseChange::Granted { id, grant, ttl });
            }
            WriteResponse::LeaseRevoke { id, .. } => self.leases.push(LeaseChange::Ended { id }),
            _ => {}
        }
    }
}

/// A requested capture, as far as the sequencer could make it: without its place, and none while
/// another server leads.
pub(crate) struct CaptureRequest {
    pub(crate) reply: std::sync::mpsc::SyncSender<Capture>,
    pub(crate) capture: Option<Capture>,
}

/// A leadership transfer: its target, the reply once this server follows, and the records that the
/// sequencer has left for a checkpoint.
pub(crate) struct LeadershipTransfer {
    pub(crate) to: ReplicaId,
    /// The leadership in which it was requested. Later requests may belong to a later one.
    pub(crate) leadership_count: u64,
    pub(crate) reply: oneshot::Sender<()>,
    pub(crate) dirty: Vec<Record>,
    pub(crate) fresh_bytes: u64,
}

/// This server leads no more: what the sequencer had left for a checkpoint, with what was evaluated
/// and will not be committed, and the number that it has counted batches to.
pub(crate) struct EndOfLead {
    pub(crate) dirty: Vec<Record>,
    pub(crate) number: Seq,
}

pub(crate) struct Sequencer {
    /// Of the last draft. On a local journal it is its sequence number; on a shared one, where
    /// others have entries as well, it counts.
    number: Seq,
    /// Records made since the last checkpoint was captured.
    dirty: Vec<Record>,
    /// Bytes journalled since then, padding included near enough: leases and compactions count as
    /// well.
    fresh_bytes: u64,
}

/// One round under construction.
pub(crate) struct Round<R> {
    draft: Draft,
    units: u32,
    revisions: Vec<(i64, Events<NodeEvent>)>,
    unversioned: Unversioned,
    replies: Vec<(R, Outcome)>,
}

/// Bytes of these records in a checkpoint.
pub(crate) fn saved_bytes(records: &[Record]) -> u64 {
    records.iter().map(|record| record.saved_len() as u64).sum()
}

impl Sequencer {
    pub(crate) fn new(number: Seq, dirty: Vec<Record>) -> Sequencer {
        let fresh_bytes = saved_bytes(&dirty);
        Sequencer { number, dirty, fresh_bytes }
    }

    pub(crate) fn begin<R>(&self) -> Round<R> {
        let mut draft = Draft::new(Kind::Writes);
        draft.begin_part(ONLY_PARTITION);
        Round {
            draft,
            units: 0,
            revisions: Vec::new(),
            unversioned: Unversioned::default(),
            replies: Vec::new(),
        }
    }

    /// Evaluates one request into the round. False if it was refused; a compaction that was done
    /// before is not.
    pub(crate) fn evaluate<R>(
        &mut self,
        round: &mut Round<R>,
        store: &mut impl Exclusive,
        admission: &mut Admission,
        request: &WriteRequest,
        reply: R,
    ) -> bool {
        if let Some(alarm) = admission.alarm_to_raise(store, request) {
            let bytes = store.stats().bytes;
            tracing::error!(
                bytes,
                "no space: what grows the state is refused until there is space again (NOSPACE)"
            );
            self.run(round, store, &WriteRequest::AlarmActivate(alarm))
                .expect("raising an alarm is never refused");
        }
        let outcome = match admission.admit(store, request) {
            Ok(()) => self.run(round, store, request),
            Err(refused) => Err(refused),
        };
        let success = matches!(outcome, Ok(_) | Err(NodeError::Store(StoreError::Compacted)));
        round.replies.push((reply, outcome));
        success
    }

    fn run<R>(
        &mut self,
        round: &mut Round<R>,
        store: &mut impl Exclusive,
        request: &WriteRequest,
    ) -> Outcome {
        let before = store.head().revision;
        let evaluated = turns::evaluate(store, request, round.draft.payload())?;
        assert!(
            store.head().revision == before + i64::from(!evaluated.events.is_empty()),
            "a request takes one revision if it changes keys, and none otherwise"
        );
        if !evaluated.events.is_empty() {
            round.units += 1;
            let (dirty, events) = (&mut self.dirty, evaluated.events);
            let events = match events.len() > EVENTS_WITH_LOCK_MAX {
                true => store.unlocked(|| note_events(dirty, events)),
                false => note_events(dirty, events),
            };
            round.revisions.push((store.head().revision, events));
        }
        round.unversioned.note(store, &evaluated.response, evaluated.undo);
        Ok(evaluated.response)
    }

    /// Makes a batch of the round. The store's head must be as the last evaluation left it.
    pub(crate) fn close<R>(&mut self, mut round: Round<R>, store: &Store) -> Batch<R> {
        let mark = store.head();
        let changed = round.draft.payload_len() > 0;
        let draft = changed.then(|| {
            round.draft.end_part(round.units);
            self.number = self.number.next();
            self.fresh_bytes += round.draft.size() as u64 + ENTRY_PADDING;
            round.draft
        });
        Batch {
            draft,
            capture: None,
            transfer: None,
            end_of_lead: None,
            mark,
            revisions: round.revisions,
            unversioned: round.unversioned,
            replies: round.replies,
        }
    }

    /// The number of the last draft.
    pub(crate) fn number(&self) -> Seq {
        self.number
    }

    pub(crate) fn fresh_bytes(&self) -> u64 {
        self.fresh_bytes
    }

    /// Returns all that is kept for the next checkpoint.
    pub(crate) fn end_lead(&mut self) -> EndOfLead {
        EndOfLead { dirty: self.take_dirty(), number: self.number }
    }

    /// Takes the records made since the last capture.
    pub(crate) fn take_dirty(&mut self) -> Vec<Record> {
        self.fresh_bytes = 0;
        std::mem::take(&mut self.dirty)
    }
}

/// What checkpoints and watchers need of them.
fn note_events(dirty: &mut Vec<Record>, events: Vec<Event>) -> Events<NodeEvent> {
    dirty.extend(events.iter().map(|event| event.kv.clone()));
    let events: Vec<NodeEvent> = events.into_iter().map(NodeEvent).collect();
    events.into()
}

impl<R> Round<R> {
    pub(crate) fn payload_len(&self) -> usize {
        self.draft.payload_len()
    }

    /// Answers a request that must not be evaluated.
    pub(crate) fn refuse(&mut self, reply: R, refusal: NodeError) {
        self.replies.push((reply, Err(refusal)));
    }

    /// Nothing to write and no reply to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.draft.payload_len() == 0
    }
}
