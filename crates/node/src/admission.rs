//! Admission: whether there is room for a request, decided before it is evaluated.
//!
//! Two things can be full. The **quota** limits live bytes; a request that would pass it raises the
//! NOSPACE alarm and is refused. The **disk** is full when the journal has no space to prepare its
//! next segment; from then on what is left of the prepared ones is kept for requests that free
//! space. In both cases deletes, revokes and compactions go on, and the alarm is lowered again
//! automatically once there is room. A disk that **fails** to prepare the next segment for another
//! reason is treated alike, but raises no alarm, because space is not what is missing.
//!
//! Users, roles and their permissions count as keys do, and what adds to them is refused as a put
//! is. What takes from them, changes a password or turns authentication off is never refused for
//! want of space by the quota.
//!
//! What is kept only for watchers that begin at the compacted revision does not count. Otherwise a
//! small quota could be filled by what a last delete left behind, with no way to write the revision
//! whose compaction would free it.
//!
//! Because segments are prepared ahead, a request that is admitted finds room in the journal. The
//! exception is a burst that outruns the preparation just as the disk fills up: its append writes
//! nothing and waits for space.

use vetch_store::lease::LEASE_BYTES;
use vetch_store::request::{
    Alarm, AlarmKind, Compare, DeleteRangeRequest, KeyRange, PutRequest, RequestOp, TxnRequest, WriteRequest,
};
use vetch_store::{Record, Store, StoreError};

use crate::error::NodeError;

/// What etcd charges for a version beside its bytes, and what one costs here as well, near enough.
const RECORD_COST: u64 = 256;
/// What any small change takes in the journal.
const SMALL_COST: u64 = 64;
/// An entry with its headers, padded to whole sectors.
const ENTRY_COST: u64 = 1024;
/// The most a range delete writes down key by key, with every key's frame.
const KEY_BY_KEY_COST: u64 = 20 << 10;

/// Share of the quota, in percent, below which a raised alarm is lowered again; and the least such
/// share, if what was refused is large for the quota.
const LOW_WATER_PERCENT: u64 = 90;
const LOW_WATER_MIN_PERCENT: u64 = 50;

/// Shares of the quota, in percent, at which people are warned, and below which they will be warned
/// again.
const WARNING_PERCENT: u64 = 80;
const CALM_PERCENT: u64 = 75;

pub(crate) struct Admission {
    member: u64,
    /// None: unlimited.
    quota: Option<u64>,
    disk: DiskState,
    /// Journal bytes that are certain to be there; only of interest while no more can be prepared.
    room: u64,
    /// Bytes below which a raised alarm is lowered again.
    low_water: u64,
    /// Whether this node raised the alarm itself; one set by an operator is the operator's to
    /// lower.
    raised: bool,
    /// Whether it may have been raised by a server that wrote before this one, which is then as
    /// good as its own.
    in_cluster: bool,
    /// The most bytes that one request may need in the journal.
    largest: u64,
    /// Whether the quota was last seen to be nearly reached.
    warned: bool,
    /// What is kept for watchers, by the compacted revision at which it was counted.
    kept: Option<(i64, u64)>,
}

/// Whether the journal can prepare its next segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskState {
    Fine,
    /// Not for lack of space.
    Full,
    /// Not for another reason.
    Failing,
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
            disk: DiskState::Fine,
            room: u64::MAX,
            low_water: quota.map_or(u64::MAX, |quota| low_water(quota, 0)),
            raised,
            in_cluster: false,
            largest: u64::MAX,
            warned: false,
            kept: None,
        }
    }

    /// The same for one of several servers that write in turn, to a journal that takes `largest`
    /// bytes for one request.
    pub(crate) fn in_cluster(self, largest: u64) -> Admission {
        Admission { in_cluster: true, largest, ..self }
    }

    pub(crate) fn set_disk(&mut self, disk: DiskState, room: u64) {
        self.disk = disk;
        self.room = room;
    }

    /// What this server raised itself may be taken back, and is its successor's to lower.
    pub(crate) fn end_lead(&mut self) {
        self.raised = false;
        self.low_water = self.quota.map_or(u64::MAX, |quota| low_water(quota, 0));
    }

    /// The alarm this request makes necessary.
    pub(crate) fn alarm_to_raise(&mut self, store: &Store, request: &WriteRequest) -> Option<Alarm> {
        let alarm = self.no_space();
        if !needs_space(request) || store.alarms().any(|raised| raised.kind == AlarmKind::NoSpace) {
            return None;
        }
        if self.disk != DiskState::Full {
            let quota = self.quota?;
            let low_water = low_water(quota, cost(request));
            // Where it would be lowered at once, only this request is refused: it is large for so
            // small a quota.
            if !self.is_over_quota(store, request) || self.counted(store, low_water) < low_water {
                return None;
            }
            self.low_water = low_water;
        }
        self.raised = true;
        Some(alarm)
    }

    /// Whether a request would pass the quota. One that is larger than the quota does so even in an
    /// empty store.
    fn is_over_quota(&mut self, store: &Store, request: &WriteRequest) -> bool {
        let Some(quota) = self.quota else { return false };
        let room = quota.checked_sub(cost(request));
        room.is_none_or(|room| self.counted(store, room + 1) > room)
    }

    pub(crate) fn admit(&mut self, store: &Store, request: &WriteRequest) -> Result<(), NodeError> {
        if self.largest < u64::MAX && journal_cost(store, request) > self.largest {
            return Err(StoreError::RequestTooLarge.into());
        }
        let stopped_by = |kind| store.alarms().any(|raised| raised.kind == kind);
        if !is_internal(request) && stopped_by(AlarmKind::Corrupt) {
            return Err(NodeError::Corrupt);
        }
        let grows = needs_space(request);
        if grows && (stopped_by(AlarmKind::NoSpace) || self.is_over_quota(store, request)) {
            return Err(NodeError::NoSpace);
        }
        let refusal = match self.disk {
            DiskState::Fine => return Ok(()),
            DiskState::Full => NodeError::NoSpace,
            DiskState::Failing if needs_space(request) => return Err(NodeError::DiskFails),
            DiskState::Failing => NodeError::DiskFails,
        };
        self.room = self.room.checked_sub(journal_cost(store, request)).ok_or(refusal)?;
        Ok(())
    }

    /// The alarm that may be lowered now.
    pub(crate) fn alarm_to_lower(&mut self, store: &Store) -> Option<Alarm> {
        let alarm = self.no_space();
        if !(self.raised || self.in_cluster) || self.disk != DiskState::Fine {
            return None;
        }
        if self.counted(store, self.low_water) >= self.low_water {
            return None;
        }
        self.raised = false;
        self.low_water = self.quota.map_or(u64::MAX, |quota| low_water(quota, 0));
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

    /// The bytes that count. What is kept for watchers is only looked up where it matters, from
    /// `mark` on, and once per compaction: in between it does not change.
    fn counted(&mut self, store: &Store, mark: u64) -> u64 {
        let bytes = store.bytes();
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

/// Where an alarm that a request of this cost raised is lowered: where there is room for that
/// request, so that the next one like it does not raise the alarm again.
fn low_water(quota: u64, cost: u64) -> u64 {
    let with_room = quota.saturating_sub(cost).max(share(quota, LOW_WATER_MIN_PERCENT));
    with_room.min(share(quota, LOW_WATER_PERCENT))
}

fn share(quota: u64, percent: u64) -> u64 {
    quota - quota / 100 * (100 - percent)
}

/// Requests that the CORRUPT alarm does not stop; a full disk does.
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
        WriteRequest::Auth(change) => change.growth() > 0,
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
        WriteRequest::LeaseGrant { .. } => LEASE_BYTES,
        WriteRequest::Auth(change) => change.growth(),
        WriteRequest::Foreign { changes } => foreign_cost(changes),
        _ => 0,
    }
}

/// Bytes that a request holds while it waits.
pub(crate) fn held(request: &WriteRequest) -> u64 {
    match request {
        WriteRequest::Put(put) => put_cost(put),
        WriteRequest::DeleteRange(delete) => RECORD_COST + range_bytes(&delete.range),
        WriteRequest::Txn(txn) => txn_held(txn),
        WriteRequest::Auth(change) => RECORD_COST + change.size() as u64,
        WriteRequest::Foreign { changes } => foreign_cost(changes),
        WriteRequest::LeaseRemaining { leases } => SMALL_COST * leases.len() as u64,
        _ => SMALL_COST,
    }
}

fn txn_held(txn: &TxnRequest) -> u64 {
    let compare = |compare: &Compare| RECORD_COST + range_bytes(&compare.range) + compare.value_len() as u64;
    let op = |op: &RequestOp| match op {
        RequestOp::Put(put) => put_cost(put),
        RequestOp::DeleteRange(delete) => RECORD_COST + range_bytes(&delete.range),
        RequestOp::Range(range) => RECORD_COST + range_bytes(&range.range),
        RequestOp::Txn(nested) => txn_held(nested),
        RequestOp::Empty => RECORD_COST,
    };
    let ops = txn.success.iter().chain(&txn.failure);
    txn.compare.iter().map(compare).sum::<u64>() + ops.map(op).sum::<u64>()
}

fn range_bytes(range: &KeyRange) -> u64 {
    (range.key.len() + range.range_end.len()) as u64
}

/// Bytes a request may need in the journal, as an entry of its own.
fn journal_cost(store: &Store, request: &WriteRequest) -> u64 {
    let effects = match request {
        WriteRequest::Put(put) => put_cost(put),
        WriteRequest::DeleteRange(delete) => delete_cost(delete),
        WriteRequest::Txn(txn) => txn_cost(txn, &put_cost, &delete_cost),
        WriteRequest::LeaseRemaining { leases } => SMALL_COST * leases.len() as u64,
        WriteRequest::Auth(change) => SMALL_COST + store.auth_cost(change) as u64,
        WriteRequest::Foreign { changes } => foreign_cost(changes),
        _ => SMALL_COST,
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
    use bytes::Bytes;
    use vetch_store::auth::{Change, Permission, PermissionKind};
    use vetch_store::request::{CompareResult, CompareTarget, RangeRequest};
    use vetch_testkit::valid::Valid;

    fn put(bytes: usize) -> WriteRequest {
        WriteRequest::Put(
            PutRequest {
                key: "k".into(),
                value: vec![0; bytes].into(),
                lease: 0,
                prev_kv: false,
                ignore_value: false,
                ignore_lease: false,
            }
            .valid(),
        )
    }

    #[test]
    fn what_does_not_fit_a_record_of_a_shared_journal_is_too_large() {
        let store = Store::default();
        let mut alone = Admission::new(1, None, false);
        assert_eq!(alone.admit(&store, &put(100 << 10)), Ok(()));
        let mut node = Admission::new(1, None, false).in_cluster(100 << 10);
        assert_eq!(node.admit(&store, &put(90 << 10)), Ok(()));
        assert_eq!(node.admit(&store, &put(100 << 10)), Err(StoreError::RequestTooLarge.into()));
    }

    fn role(name: &str) -> WriteRequest {
        WriteRequest::Auth(Change::RoleAdd { name: name.into() })
    }

    fn grant(role: &str, key: usize) -> WriteRequest {
        let permission =
            Permission { kind: PermissionKind::Read, key: vec![b'k'; key].into(), range_end: Bytes::new() };
        WriteRequest::Auth(Change::RoleGrantPermission { role: role.into(), permission: Some(permission) })
    }

    /// What a change of users leaves in the journal is the whole user or role, however little the
    /// request says.
    #[test]
    fn a_change_of_users_costs_what_it_writes() {
        let mut store = Store::default();
        let mut node = Admission::new(1, None, false).in_cluster(100 << 10);
        assert_eq!(node.admit(&store, &role("small")), Ok(()), "far less than it could be");
        store.evaluate(&role("large"), &mut Vec::new()).unwrap();
        store.evaluate(&grant("large", 90 << 10), &mut Vec::new()).unwrap();
        assert_eq!(node.admit(&store, &grant("large", 20 << 10)), Err(StoreError::RequestTooLarge.into()));
        assert_eq!(node.admit(&store, &grant("small", 20 << 10)), Ok(()), "refused for another reason");
        let mut full = Admission::new(1, None, false);
        full.set_disk(DiskState::Full, 4 << 10);
        assert_eq!(full.admit(&store, &role("small")), Ok(()), "there is room for this");
    }

    #[test]
    fn a_disk_that_fails_is_not_called_full() {
        let store = Store::default();
        let mut admission = Admission::new(1, None, false);
        admission.set_disk(DiskState::Failing, 100 << 10);
        assert_eq!(admission.alarm_to_raise(&store, &put(1)), None);
        assert_eq!(admission.admit(&store, &put(1)), Err(NodeError::DiskFails));
        let compact = WriteRequest::Compact { revision: 1 };
        assert_eq!(admission.admit(&store, &compact), Ok(()), "what frees space goes on");
        admission.set_disk(DiskState::Failing, 0);
        assert_eq!(admission.admit(&store, &compact), Err(NodeError::DiskFails));
    }

    /// Whatever a request holds while it waits is counted, also what adds nothing to the data.
    #[test]
    fn a_waiting_request_counts_with_all_it_holds() {
        const LARGE: usize = 1 << 20;
        let range = || KeyRange::new(vec![b'a'; LARGE], vec![b'b'; LARGE]);
        let delete = || DeleteRangeRequest { range: range(), prev_kv: false };
        let compare = Compare {
            range: range(),
            result: CompareResult::Equal,
            target: CompareTarget::Value(vec![0; LARGE].into()),
        };
        let nested = TxnRequest { failure: vec![RequestOp::DeleteRange(delete())], ..TxnRequest::default() };
        let success = vec![RequestOp::Range(RangeRequest::new(range())), RequestOp::Txn(nested)];
        let txn = TxnRequest { compare: vec![compare], success, ..TxnRequest::default() };
        for (request, megabytes) in [
            (put(LARGE), 1),
            (WriteRequest::DeleteRange(delete().valid()), 2),
            (WriteRequest::Txn(txn.valid()), 7),
            (role(&"r".repeat(LARGE)), 1),
            (grant("r", LARGE), 1),
        ] {
            assert_eq!(held(&request) >> 20, megabytes);
        }
    }

    /// Puts as the sequencer does; returns whether it was admitted and whether an alarm was raised
    /// for it.
    fn try_put(admission: &mut Admission, store: &mut Store, request: &WriteRequest) -> (bool, bool) {
        let alarm = admission.alarm_to_raise(store, request);
        if let Some(alarm) = alarm {
            store.evaluate(&WriteRequest::AlarmActivate(alarm), &mut Vec::new()).expect("never refused");
        }
        let admitted = admission.admit(store, request);
        assert!(matches!(admitted, Ok(()) | Err(NodeError::NoSpace)));
        if admitted.is_ok() {
            store.evaluate(request, &mut Vec::new()).expect("a put is never refused");
        }
        (admitted.is_ok(), alarm.is_some())
    }

    #[test]
    fn no_quota_is_so_small_that_the_alarm_comes_and_goes() {
        // What a request may be is nearly all of the smallest, and a tenth of 15 MB.
        for (quota, bytes) in
            [(1 << 20, 1000 << 10), (2 << 20, 1500 << 10), (10 << 20, 1500 << 10), (64 << 20, 1500 << 10)]
        {
            let mut store = Store::default();
            let mut admission = Admission::new(1, Some(quota), false);
            let mut raised = 0;
            for n in 0..100 {
                let WriteRequest::Put(put) = put(bytes) else { unreachable!("a put") };
                let put = PutRequest { key: format!("k{n}").into(), ..put.into_inner() };
                let request = WriteRequest::Put(put.valid());
                let (admitted, alarm) = try_put(&mut admission, &mut store, &request);
                assert!(!(admitted && alarm));
                raised += usize::from(alarm);
                if let Some(alarm) = admission.alarm_to_lower(&store) {
                    store
                        .evaluate(&WriteRequest::AlarmDeactivate(alarm), &mut Vec::new())
                        .expect("never refused");
                }
            }
            assert!(raised <= 1, "quota {quota}: raised {raised} times");
            assert!(store.bytes() <= quota, "quota {quota}: {} bytes", store.bytes());
        }
    }

    #[test]
    fn leases_fill_the_quota() {
        let mut store = Store::default();
        let mut admission = Admission::new(1, Some(100 << 10), false);
        let grant = |id| WriteRequest::LeaseGrant { id, ttl: 60 };
        let granted = (1..10_000).take_while(|&id| try_put(&mut admission, &mut store, &grant(id)).0).count();
        assert_eq!(granted as u64, (100 << 10) / LEASE_BYTES);
    }

    #[test]
    fn users_and_roles_fill_the_quota_and_what_does_not_add_to_them_goes_on() {
        let quota = 100 << 10;
        let mut store = Store::default();
        let mut admission = Admission::new(1, Some(quota), false);
        let user = |n: i32| {
            let name = format!("user{n}");
            WriteRequest::Auth(Change::UserAdd {
                name,
                password: Some(Bytes::from("hash")),
                no_password: false,
            })
        };
        let added = (1..10_000).take_while(|&n| try_put(&mut admission, &mut store, &user(n)).0).count();
        assert!((200..400).contains(&added), "{added} users in {quota} bytes");
        assert!(store.bytes() <= quota && store.alarms().next().is_some());
        let role = || "r".to_string();
        let name = || "user1".to_string();
        for (change, admitted) in [
            (Change::RoleAdd { name: role() }, false),
            (Change::UserGrantRole { user: name(), role: role() }, false),
            (Change::RoleGrantPermission { role: role(), permission: None }, false),
            (Change::UserChangePassword { name: name(), password: Some("other".into()) }, true),
            (Change::UserRevokeRole { user: name(), role: role() }, true),
            (Change::RoleRevokePermission { role: role(), key: "k".into(), range_end: Bytes::new() }, true),
            (Change::RoleDelete { name: role() }, true),
            (Change::UserDelete { name: name() }, true),
            (Change::Enable, true),
            (Change::Disable, true),
        ] {
            let outcome = admission.admit(&store, &WriteRequest::Auth(change.clone()));
            assert_eq!(outcome, if admitted { Ok(()) } else { Err(NodeError::NoSpace) }, "{change:?}");
        }
        assert_eq!(admission.admit(&store, &put(1)), Err(NodeError::NoSpace), "they count for keys as well");
        for n in 1..added / 2 {
            let gone = WriteRequest::Auth(Change::UserDelete { name: format!("user{n}") });
            store.evaluate(&gone, &mut Vec::new()).expect("the user is there");
        }
        assert!(admission.alarm_to_lower(&store).is_some(), "there is room again");
    }

    #[test]
    fn an_alarm_of_a_writer_before_this_one_is_lowered_when_there_is_space() {
        let mut store = Store::default();
        let other = Alarm { member: 9, kind: AlarmKind::NoSpace };
        store.evaluate(&WriteRequest::AlarmActivate(other), &mut Vec::new()).expect("never refused");
        let mut alone = Admission::new(1, None, false);
        assert_eq!(alone.alarm_to_lower(&store), None, "an operator's");
        let mut node = Admission::new(1, None, false).in_cluster(u64::MAX);
        node.set_disk(DiskState::Full, 0);
        assert_eq!(node.alarm_to_lower(&store), None, "still full");
        node.set_disk(DiskState::Fine, 0);
        assert_eq!(node.alarm_to_lower(&store), Some(other));
    }
}
