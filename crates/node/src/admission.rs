//! Admission: whether there is room for a request, decided before it is evaluated.
//!
//! Two things can be full. The **quota** limits live bytes; a request that would pass it raises the NOSPACE alarm
//! and is refused. The **disk** is full when the journal cannot prepare its next segment; from then on what is left
//! of the prepared ones is kept for requests that free space. In both cases deletes, revokes and compactions go
//! on, and the alarm is lowered again without anybody's help once there is room.
//!
//! What is kept only for watchers that begin at the compacted revision does not count. Otherwise a small quota could be
//! filled by what a last delete left behind, with no way to write the revision whose compaction would free it.
//!
//! Because segments are prepared ahead, a request that is admitted finds room in the journal. The exception is a burst
//! that outruns the preparation just as the disk fills up: its append writes nothing and waits for space.

use vetch_store::request::{
    Alarm, AlarmKind, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest, WriteRequest,
};
use vetch_store::{Record, Store, StoreError};

use crate::error::NodeError;

/// What etcd charges for a version beside its bytes, and what one costs here as well, near enough.
const RECORD_COST: u64 = 256;
const LEASE_COST: u64 = 64;
/// A change of users and roles; hundreds of times what one usually takes.
const AUTH_COST: u64 = 256 << 10;
/// An entry with its headers, padded to whole sectors.
const ENTRY_COST: u64 = 1024;
/// The most a range delete writes down key by key, with every key's frame.
const KEY_BY_KEY_COST: u64 = 20 << 10;

/// Share of the quota, in percent, below which a raised alarm is lowered again.
const LOW_WATER_PERCENT: u64 = 90;

/// Shares of the quota, in percent, at which people are warned, and below which they will be warned again.
const WARNING_PERCENT: u64 = 80;
const CALM_PERCENT: u64 = 75;

pub(crate) struct Admission {
    member: u64,
    /// None: unlimited.
    quota: Option<u64>,
    /// The journal could not prepare its next segment.
    disk_full: bool,
    /// Journal bytes that are certain to be there; only of interest while the disk is full.
    room: u64,
    /// Whether this node raised the alarm itself; one set by an operator is the operator's to lower.
    raised: bool,
    /// Whether it may have been raised by a server that wrote before this one, which is then as good as its own.
    in_cluster: bool,
    /// The most bytes that one request may need in the journal.
    largest: u64,
    /// Whether the quota was last seen to be nearly reached.
    warned: bool,
    /// What is kept for watchers, by the compacted revision at which it was counted.
    kept: Option<(i64, u64)>,
}

/// The quota is nearly reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NearQuota {
    pub(crate) bytes: u64,
    pub(crate) quota: u64,
}

impl Admission {
    /// `raised`: an alarm found at start is taken for one of our own.
    pub(crate) fn new(member: u64, quota: Option<u64>, raised: bool) -> Admission {
        Admission {
            member,
            quota,
            disk_full: false,
            room: u64::MAX,
            raised,
            in_cluster: false,
            largest: u64::MAX,
            warned: false,
            kept: None,
        }
    }

    /// The same for one of several servers that write in turn, to a journal that takes `largest` bytes for one request.
    pub(crate) fn in_cluster(self, largest: u64) -> Admission {
        Admission { in_cluster: true, largest, ..self }
    }

    pub(crate) fn set_disk(&mut self, full: bool, room: u64) {
        self.disk_full = full;
        self.room = room;
    }

    /// The alarm this request makes necessary.
    pub(crate) fn alarm_to_raise(&mut self, store: &Store, request: &WriteRequest) -> Option<Alarm> {
        let alarm = self.no_space();
        if !needs_space(request) || store.alarms().any(|raised| raised.kind == AlarmKind::NoSpace) {
            return None;
        }
        let room = self.quota.map(|quota| quota.checked_sub(cost(request)));
        // A request that is larger than the quota has no room even in an empty store.
        let over_quota =
            room.is_some_and(|room| room.is_none_or(|room| self.counted(store, room + 1) > room));
        if !over_quota && !self.disk_full {
            return None;
        }
        self.raised = true;
        Some(alarm)
    }

    pub(crate) fn admit(&mut self, store: &Store, request: &WriteRequest) -> Result<(), NodeError> {
        if self.largest < u64::MAX && journal_cost(request) > self.largest {
            return Err(StoreError::RequestTooLarge.into());
        }
        let stopped_by = |kind| store.alarms().any(|raised| raised.kind == kind);
        if !is_internal(request) {
            if stopped_by(AlarmKind::Corrupt) {
                return Err(NodeError::Corrupt);
            }
            if needs_space(request) && stopped_by(AlarmKind::NoSpace) {
                return Err(NodeError::NoSpace);
            }
        }
        if self.disk_full {
            self.room = self.room.checked_sub(journal_cost(request)).ok_or(NodeError::NoSpace)?;
        }
        Ok(())
    }

    /// The alarm that may be lowered now.
    pub(crate) fn alarm_to_lower(&mut self, store: &Store) -> Option<Alarm> {
        let alarm = self.no_space();
        if !(self.raised || self.in_cluster) || self.disk_full {
            return None;
        }
        let mark = self.quota.map_or(u64::MAX, |quota| share(quota, LOW_WATER_PERCENT));
        if self.counted(store, mark) >= mark {
            return None;
        }
        self.raised = false;
        let is_ours = |raised: &Alarm| *raised == alarm || (self.in_cluster && raised.kind == alarm.kind);
        store.alarms().find(is_ours)
    }

    /// Says once that the quota is nearly reached, and again when it was not in between.
    pub(crate) fn warning(&mut self, store: &Store) -> Option<NearQuota> {
        let quota = self.quota?;
        let percent = if self.warned { CALM_PERCENT } else { WARNING_PERCENT };
        let mark = share(quota, percent);
        let bytes = self.counted(store, mark);
        let near = bytes >= mark;
        let is_new = near && !self.warned;
        self.warned = near;
        is_new.then_some(NearQuota { bytes, quota })
    }

    /// As the last [`Admission::warning`] found it.
    pub(crate) fn is_near_quota(&self) -> bool {
        self.warned
    }

    /// The bytes that count. What is kept for watchers is only looked up where it matters, from `mark` on, and once per
    /// compaction: in between it does not change.
    fn counted(&mut self, store: &Store, mark: u64) -> u64 {
        let bytes = store.stats().bytes;
        if bytes < mark || store.has_garbage() {
            return bytes;
        }
        let compacted = store.visible().compact_revision;
        let kept = match self.kept {
            Some((at, kept)) if at == compacted => kept,
            _ => store.kept_for_watchers(),
        };
        self.kept = Some((compacted, kept));
        bytes.saturating_sub(kept)
    }

    fn no_space(&self) -> Alarm {
        Alarm { member: self.member, kind: AlarmKind::NoSpace }
    }
}

fn share(quota: u64, percent: u64) -> u64 {
    quota - quota / 100 * (100 - percent)
}

/// Requests that no alarm stops; a full disk does.
fn is_internal(request: &WriteRequest) -> bool {
    matches!(
        request,
        WriteRequest::AlarmActivate(_)
            | WriteRequest::AlarmDeactivate(_)
            | WriteRequest::LeaseRemaining { .. }
            | WriteRequest::Auth(_)
            | WriteRequest::Foreign { .. }
    )
}

/// Whether a request may add to the live bytes. A transaction counts as soon as any branch puts.
pub(crate) fn needs_space(request: &WriteRequest) -> bool {
    match request {
        WriteRequest::Put(_) | WriteRequest::LeaseGrant { .. } => true,
        WriteRequest::Txn(txn) => txn_puts(txn),
        _ => false,
    }
}

fn txn_puts(txn: &TxnRequest) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match op {
        RequestOp::Put(_) => true,
        RequestOp::Txn(nested) => txn_puts(nested),
        _ => false,
    })
}

/// Bytes of data a request may add.
pub(crate) fn cost(request: &WriteRequest) -> u64 {
    match request {
        WriteRequest::Put(put) => put_cost(put),
        WriteRequest::Txn(txn) => txn_cost(txn, &put_cost, &|_| 0),
        WriteRequest::LeaseGrant { .. } => LEASE_COST,
        WriteRequest::Foreign { changes } => foreign_cost(changes),
        _ => 0,
    }
}

/// Bytes a request may need in the journal, as an entry of its own.
fn journal_cost(request: &WriteRequest) -> u64 {
    let effects = match request {
        WriteRequest::Put(put) => put_cost(put),
        WriteRequest::DeleteRange(delete) => delete_cost(delete),
        WriteRequest::Txn(txn) => txn_cost(txn, &put_cost, &delete_cost),
        WriteRequest::LeaseRemaining { leases } => LEASE_COST * leases.len() as u64,
        WriteRequest::Auth(_) => AUTH_COST,
        WriteRequest::Foreign { changes } => foreign_cost(changes),
        _ => LEASE_COST,
    };
    ENTRY_COST + effects
}

fn put_cost(put: &PutRequest) -> u64 {
    RECORD_COST + (put.key.len() + put.value.len()) as u64
}

fn foreign_cost(changes: &[Record]) -> u64 {
    changes.iter().map(|change| RECORD_COST + (change.key().len() + change.value_len()) as u64).sum()
}

/// A range is written down key by key while that is short, and as the range otherwise.
fn delete_cost(delete: &DeleteRangeRequest) -> u64 {
    let range = (delete.range.key.len() + delete.range.range_end.len()) as u64;
    if delete.range.is_single() { RECORD_COST + range } else { KEY_BY_KEY_COST + range }
}

type OpCost<'a, T> = &'a dyn Fn(&T) -> u64;

fn txn_cost(txn: &TxnRequest, put: OpCost<'_, PutRequest>, delete: OpCost<'_, DeleteRangeRequest>) -> u64 {
    let op = |op: &RequestOp| match op {
        RequestOp::Put(request) => put(request),
        RequestOp::DeleteRange(request) => delete(request),
        RequestOp::Txn(nested) => txn_cost(nested, put, delete),
        RequestOp::Range(_) | RequestOp::Empty => 0,
    };
    let branch = |ops: &[RequestOp]| ops.iter().map(op).sum::<u64>();
    branch(&txn.success).max(branch(&txn.failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: usize) -> WriteRequest {
        WriteRequest::Put(PutRequest {
            key: "k".into(),
            value: vec![0; bytes].into(),
            lease: 0,
            prev_kv: false,
            ignore_value: false,
            ignore_lease: false,
        })
    }

    #[test]
    fn what_does_not_fit_a_record_of_a_shared_journal_is_too_large() {
        let store = Store::default();
        let mut alone = Admission::new(1, None, false);
        assert_eq!(alone.admit(&store, &put(100 << 10)), Ok(()));
        let mut shared = Admission::new(1, None, false).in_cluster(100 << 10);
        assert_eq!(shared.admit(&store, &put(90 << 10)), Ok(()));
        assert_eq!(shared.admit(&store, &put(100 << 10)), Err(StoreError::RequestTooLarge.into()));
    }

    #[test]
    fn an_alarm_of_a_writer_before_this_one_is_lowered_when_there_is_space() {
        let mut store = Store::default();
        let other = Alarm { member: 9, kind: AlarmKind::NoSpace };
        store.evaluate(&WriteRequest::AlarmActivate(other), &mut Vec::new()).expect("never refused");
        let mut alone = Admission::new(1, None, false);
        assert_eq!(alone.alarm_to_lower(&store), None, "an operator's");
        let mut shared = Admission::new(1, None, false).in_cluster(u64::MAX);
        shared.set_disk(true, 0);
        assert_eq!(shared.alarm_to_lower(&store), None, "still full");
        shared.set_disk(false, 0);
        assert_eq!(shared.alarm_to_lower(&store), Some(other));
    }
}
