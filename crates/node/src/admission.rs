//! Admission: whether there is room for a request, decided before it is evaluated.
//!
//! Two things can be full. The **quota** limits live bytes; a request that would pass it raises the NOSPACE alarm
//! and is refused. The **disk** is full when the journal cannot prepare its next segment; from then on what is left
//! of the prepared ones is kept for requests that free space. In both cases deletes, revokes and compactions go
//! on, and the alarm is lowered again without anybody's help once there is room.
//!
//! Because segments are prepared ahead, a request that is admitted finds room in the journal. The exception is a burst
//! that outruns the preparation just as the disk fills up: its append writes nothing and waits for space.

use vetch_store::Store;
use vetch_store::request::{
    Alarm, AlarmKind, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest, WriteRequest,
};

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
}

impl Admission {
    /// `raised`: an alarm found at start is taken for one of our own.
    pub(crate) fn new(member: u64, quota: Option<u64>, raised: bool) -> Admission {
        Admission { member, quota, disk_full: false, room: u64::MAX, raised }
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
        let over_quota = self.quota.is_some_and(|quota| store.stats().bytes + cost(request) > quota);
        if !over_quota && !self.disk_full {
            return None;
        }
        self.raised = true;
        Some(alarm)
    }

    pub(crate) fn admit(&mut self, store: &Store, request: &WriteRequest) -> Result<(), NodeError> {
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
        let below = |quota: u64| store.stats().bytes < quota / 100 * LOW_WATER_PERCENT;
        if !self.raised || self.disk_full || !self.quota.is_none_or(below) {
            return None;
        }
        self.raised = false;
        store.alarms().any(|raised| raised == alarm).then_some(alarm)
    }

    fn no_space(&self) -> Alarm {
        Alarm { member: self.member, kind: AlarmKind::NoSpace }
    }
}

/// Requests that no alarm stops; a full disk does.
fn is_internal(request: &WriteRequest) -> bool {
    matches!(
        request,
        WriteRequest::AlarmActivate(_)
            | WriteRequest::AlarmDeactivate(_)
            | WriteRequest::LeaseRemaining { .. }
            | WriteRequest::Auth(_)
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
        _ => LEASE_COST,
    };
    ENTRY_COST + effects
}

fn put_cost(put: &PutRequest) -> u64 {
    RECORD_COST + (put.key.len() + put.value.len()) as u64
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
