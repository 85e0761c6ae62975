//! One lie told in a right history: in a list, a status, or about who may do what.

use vetch_check::{Access, AccessChange, Alarm, Alarmed, Fact, History, Listed, Listing, Operation, Outcome};
use vetch_model::{Answer, Keys, Request};

use vetch_testkit::random::Rng;

/// Behind everything in a history.
fn end(history: &History) -> u64 {
    let operations = history.operations.iter().map(|operation| operation.returned);
    let messages = history.watches.iter().flat_map(|watch| &watch.messages).map(|message| message.at());
    let lists = history.listed.iter().map(|listed| listed.returned);
    operations.chain(messages).chain(lists).filter(|&at| at < u64::MAX).max().unwrap_or(0) + 10
}

fn newest(history: &History) -> i64 {
    let index = history.finish.expect("every record is finished").range;
    history.operations[index].revision().expect("the last range is answered")
}

/// Adds a list behind everything.
fn list(history: &mut History, listing: Listing) {
    let (called, revision) = (end(history), Some(newest(history)));
    history.listed.push(Listed { called, returned: called + 1, revision, linearizable: true, listing });
}

fn operate(history: &mut History, request: Request, answer: Answer) {
    let (called, revision) = (end(history), newest(history));
    let outcome = Outcome::Answered { revision, answer };
    history.operations.push(Operation { client: 98, called, returned: called + 1, request, outcome });
}

fn grant(history: &mut History) {
    operate(history, Request::LeaseGrant { id: 77, ttl: 60 }, Answer::LeaseGrant { id: 77, ttl: 60 });
}

pub(crate) fn unrequested_lease_listed(history: &mut History, _: &mut Rng) -> bool {
    list(history, Listing::Leases { ids: vec![77] });
    true
}

pub(crate) fn revoked_lease_listed(history: &mut History, _: &mut Rng) -> bool {
    grant(history);
    operate(history, Request::LeaseRevoke { id: 77 }, Answer::LeaseRevoke);
    list(history, Listing::Leases { ids: vec![77] });
    true
}

pub(crate) fn living_lease_not_listed(history: &mut History, _: &mut Rng) -> bool {
    grant(history);
    list(history, Listing::Leases { ids: Vec::new() });
    true
}

pub(crate) fn old_list(history: &mut History, _: &mut Rng) -> bool {
    list(history, Listing::Leases { ids: Vec::new() });
    let last = history.listed.last_mut().expect("just added");
    last.revision = last.revision.map(|revision| revision - 1);
    last.revision != Some(0)
}

const ALARM: Alarm = Alarm { member: 99, kind: 1 };

fn alarm(history: &mut History, raised: bool) {
    let called = end(history);
    history.alarmed.push(Alarmed { called, returned: called + 1, alarm: ALARM, raised });
    // A moment later, for what comes next.
    list(history, Listing::Members { ids: Vec::new() });
    history.listed.last_mut().expect("just added").linearizable = false;
}

/// The alarms that the history says are certainly raised or lowered at its end, and no others.
fn settle_alarms(history: &mut History) {
    history.alarmed.retain(|change| change.alarm.member == ALARM.member);
    history.listed.retain(|listed| !matches!(listed.listing, Listing::Alarms { .. }));
}

pub(crate) fn unrequested_alarm_listed(history: &mut History, _: &mut Rng) -> bool {
    settle_alarms(history);
    list(history, Listing::Alarms { alarms: vec![ALARM] });
    true
}

pub(crate) fn lowered_alarm_listed(history: &mut History, _: &mut Rng) -> bool {
    settle_alarms(history);
    alarm(history, true);
    alarm(history, false);
    list(history, Listing::Alarms { alarms: vec![ALARM] });
    true
}

pub(crate) fn raised_alarm_not_listed(history: &mut History, _: &mut Rng) -> bool {
    settle_alarms(history);
    alarm(history, true);
    list(history, Listing::Alarms { alarms: Vec::new() });
    true
}

pub(crate) fn member_missing(history: &mut History, _: &mut Rng) -> bool {
    list(history, Listing::Members { ids: vec![1, 2] });
    list(history, Listing::Members { ids: vec![1] });
    true
}

fn status(history: &mut History, db_size: i64, leader: u64, term: u64) {
    list(history, Listing::Status { db_size, db_size_in_use: 0, leader, term });
}

pub(crate) fn stale_status(history: &mut History, _: &mut Rng) -> bool {
    status(history, 1, 1, u64::MAX);
    let last = history.listed.last_mut().expect("just added");
    last.revision = last.revision.map(|revision| revision - 1);
    last.revision != Some(0)
}

pub(crate) fn no_data(history: &mut History, _: &mut Rng) -> bool {
    status(history, 0, 1, u64::MAX);
    true
}

pub(crate) fn term_goes_back(history: &mut History, _: &mut Rng) -> bool {
    status(history, 1, 1, 1_000_001);
    status(history, 1, 1, 1_000_000);
    true
}

pub(crate) fn two_leaders(history: &mut History, _: &mut Rng) -> bool {
    status(history, 1, 1, 1_000_000);
    status(history, 1, 2, 1_000_000);
    true
}

/// Makes facts true or false behind everything, and has them acknowledged.
fn change(history: &mut History, facts: Vec<(Fact, bool)>) {
    let called = end(history);
    history.access_changes.push(AccessChange { called, returned: called + 1, facts });
    list(history, Listing::Members { ids: Vec::new() });
    history.listed.last_mut().expect("just added").linearizable = false;
}

fn facts() -> [Fact; 4] {
    let keys = (b"x".to_vec(), b"y".to_vec());
    [
        Fact::Enabled,
        Fact::User("eve".to_owned()),
        Fact::Role("eve".to_owned(), "role".to_owned()),
        Fact::Permission { role: "role".to_owned(), keys, write: false },
    ]
}

/// Everything that a user needs is granted, and nothing that came before counts.
fn permit(history: &mut History) {
    history.access_changes.clear();
    history.accesses.clear();
    change(history, facts().map(|fact| (fact, true)).into());
}

fn read(history: &mut History, granted: bool) {
    let called = end(history);
    let (user, keys) = ("eve".to_owned(), Keys::single("x1"));
    history.accesses.push(Access { called, returned: called + 1, user, keys, write: false, granted });
}

fn read_after_loss_of(history: &mut History, fact: usize) -> bool {
    permit(history);
    change(history, vec![(facts()[fact].clone(), false)]);
    read(history, true);
    true
}

pub(crate) fn read_by_deleted_user(history: &mut History, _: &mut Rng) -> bool {
    read_after_loss_of(history, 1)
}

pub(crate) fn read_without_role(history: &mut History, _: &mut Rng) -> bool {
    read_after_loss_of(history, 2)
}

pub(crate) fn read_without_permission(history: &mut History, _: &mut Rng) -> bool {
    read_after_loss_of(history, 3)
}

/// A permission to read is no permission to write.
pub(crate) fn write_by_reader(history: &mut History, _: &mut Rng) -> bool {
    permit(history);
    read(history, true);
    history.accesses.last_mut().expect("just added").write = true;
    true
}

/// Authentication is off, and a request is refused all the same.
pub(crate) fn refused_without_need(history: &mut History, _: &mut Rng) -> bool {
    permit(history);
    change(history, vec![(Fact::Enabled, false)]);
    read(history, false);
    true
}

pub(crate) fn permitted_read_refused(history: &mut History, _: &mut Rng) -> bool {
    permit(history);
    read(history, false);
    true
}
