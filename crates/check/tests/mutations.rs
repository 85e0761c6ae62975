//! Every check can fail: a right history with one lie in it is refused, and for the right reason.

mod support;

use support::mutate::{self as operations, Mutation};
use support::mutate_lists as lists;
use support::mutate_watch as watches;
use vetch_check::{Kind, check};
use vetch_testkit::random::Rng;

/// How many histories each lie is told in.
const ROUNDS: usize = 25;

/// A lie, the promise that it breaks, and whether it can show as another one first.
const LIES: &[(&str, Mutation, Kind, &[Kind])] = &[
    ("stale read", operations::stale_read, Kind::StaleRead, &[]),
    ("wrong value", operations::wrong_value, Kind::WrongAnswer, EVIDENCE),
    ("wrong count", operations::wrong_count, Kind::WrongAnswer, &[]),
    ("wrong branch", operations::wrong_branch, Kind::WrongAnswer, EVIDENCE),
    ("swapped revisions", operations::swapped_revisions, Kind::WriteOrder, &[]),
    ("same revision", operations::same_revision, Kind::DuplicateRevision, &[]),
    ("not done but visible", operations::not_done_visible, Kind::NotDoneVisible, EVIDENCE),
    ("an unrequested write", operations::unrequested_write, Kind::UnexplainedRevision, EVIDENCE),
    ("a lost write", operations::lost_write, Kind::WrongAnswer, EVIDENCE),
    ("a resurrected key", operations::resurrected_key, Kind::WrongAnswer, EVIDENCE),
    ("unknown lease renewed", operations::unknown_lease_renewed, Kind::Lease, &[]),
    ("granted twice", operations::granted_twice, Kind::EarlyExpiry, &[]),
    ("lease denied", operations::lease_denied, Kind::EarlyExpiry, &[]),
    ("lease invented", operations::lease_invented, Kind::Lease, &[]),
    ("short lease refused", operations::ttl_refused, Kind::WrongRefusal, &[]),
    ("present called future", operations::future_refused, Kind::WrongRefusal, &[]),
    ("future called compacted", operations::compacted_refused, Kind::WrongRefusal, &[]),
    ("key denied", operations::key_refused, Kind::WrongRefusal, &[]),
    ("compacted twice", operations::compacted_twice, Kind::Compaction, &[]),
    ("compacted the future", operations::compacted_future, Kind::Compaction, &[]),
    ("read what was compacted", operations::compacted_read, Kind::Compaction, &[]),
    ("wrong hash", operations::wrong_hash, Kind::Hash, &[]),
    ("changing hash", operations::changing_hash, Kind::Hash, &[]),
    ("wrong keys of a lease", operations::wrong_lease_keys, Kind::Lease, &[]),
    ("stale keys of a lease", operations::stale_lease_keys, Kind::StaleRead, &[]),
    ("final watch cut short", operations::final_watch_short, Kind::FinalState, &[]),
    ("final range of little", operations::final_range_narrow, Kind::FinalState, &[]),
    ("returned before called", operations::returned_before_called, Kind::Malformed, &[]),
    ("unrequested lease listed", lists::unrequested_lease_listed, Kind::Lease, &[]),
    ("revoked lease listed", lists::revoked_lease_listed, Kind::Lease, &[]),
    ("living lease not listed", lists::living_lease_not_listed, Kind::EarlyExpiry, &[]),
    ("old list of leases", lists::old_list, Kind::StaleRead, &[]),
    ("unrequested alarm listed", lists::unrequested_alarm_listed, Kind::Alarm, &[]),
    ("lowered alarm listed", lists::lowered_alarm_listed, Kind::Alarm, &[]),
    ("raised alarm not listed", lists::raised_alarm_not_listed, Kind::Alarm, &[]),
    ("member missing", lists::member_missing, Kind::Members, &[]),
    ("stale status", lists::stale_status, Kind::StaleRead, &[]),
    ("status without data", lists::no_data, Kind::Status, &[]),
    ("term goes back", lists::term_goes_back, Kind::Status, &[]),
    ("two leaders of a term", lists::two_leaders, Kind::Status, &[]),
    ("read by a deleted user", lists::read_by_deleted_user, Kind::AccessLeaked, &[]),
    ("read without the role", lists::read_without_role, Kind::AccessLeaked, &[]),
    ("read without the permission", lists::read_without_permission, Kind::AccessLeaked, &[]),
    ("write by a reader", lists::write_by_reader, Kind::AccessLeaked, &[]),
    ("refused without authentication", lists::refused_without_need, Kind::AccessDenied, &[]),
    ("permitted read refused", lists::permitted_read_refused, Kind::AccessDenied, &[]),
    ("dropped event", watches::dropped_event, Kind::WatchReliable, &[]),
    ("dropped first event", watches::dropped_first_event, Kind::WatchResumable, &[]),
    ("repeated message", watches::repeated_message, Kind::WatchUnique, &[]),
    ("reordered messages", watches::reordered_messages, Kind::WatchOrdered, &[]),
    ("split revision", watches::split_revision, Kind::WatchAtomic, &[]),
    ("early progress", watches::early_progress, Kind::WatchProgressAhead, &[]),
    ("event behind progress", watches::early_progress, Kind::WatchBookmarkable, &[]),
    ("progress goes back", watches::progress_goes_back, Kind::WatchBookmarkable, &[]),
    ("progress before the start", watches::progress_before_start, Kind::WatchFutureStart, &[]),
    ("event before the start", watches::event_before_start, Kind::WatchFutureStart, &[]),
    ("wrong previous value", watches::wrong_prev_kv, Kind::WatchPrevKv, EVIDENCE),
    ("missing previous value", watches::missing_prev_kv, Kind::WatchPrevKv, &[]),
    ("previous value of a create", watches::prev_kv_of_a_create, Kind::WatchPrevKv, EVIDENCE),
    ("event of another key", watches::other_key, Kind::WatchFilter, &[]),
    ("event of another type", watches::other_type, Kind::WatchFilter, &[]),
    ("update told as create", watches::update_as_create, Kind::WatchCreateFlag, &[]),
    ("consistent create", watches::consistent_create, Kind::WatchCreateFlag, &[]),
    ("wrong value in an event", watches::wrong_event_value, Kind::WatchReliable, &[]),
    ("wrong lease in an event", watches::wrong_event_lease, Kind::WatchReliable, &[]),
    ("wrong version in an event", watches::wrong_event_version, Kind::WatchReliable, &[]),
    ("created twice", watches::created_twice, Kind::WatchCreated, &[]),
    ("not created", watches::not_created, Kind::WatchCreated, &[]),
    ("needless cancel", watches::needless_cancel, Kind::WatchCompacted, &[]),
    ("invented compaction", watches::invented_compaction, Kind::WatchCompacted, &[]),
    ("header behind its events", watches::header_behind, Kind::WatchHeader, &[]),
];

/// What the history says of a revision for which no client got an answer is the evidence by which
/// it is explained: a lie about it may leave it without an explanation.
const EVIDENCE: &[Kind] = &[Kind::UnexplainedRevision, Kind::WrongAnswer];

#[test]
fn every_lie_is_found_out() {
    for (number, (name, mutation, kind, instead)) in LIES.iter().enumerate() {
        let (mut told, mut as_expected) = (0, 0);
        for seed in 0..400 {
            let mut history = support::record(seed, 90);
            let mut rng = Rng::new(seed * 1000 + number as u64);
            if !mutation(&mut history, &mut rng) {
                continue;
            }
            told += 1;
            let violations = match check(&history) {
                Ok(report) => panic!("{name}, seed {seed}: believed\n{report}"),
                Err(violations) => violations,
            };
            let found = |kind: &Kind| violations.iter().any(|violation| violation.kind == *kind);
            as_expected += usize::from(found(kind));
            assert!(
                found(kind) || instead.iter().any(found),
                "{name}, seed {seed}: found only {violations:#?}"
            );
            if told == ROUNDS {
                break;
            }
        }
        assert!(told >= ROUNDS / 2, "{name}: told in {told} histories only");
        assert!(as_expected * 2 > told, "{name}: only {as_expected} of {told} times for the right reason");
    }
}

/// Not every history has a lease that ended by itself, so this lie is only told where it is one.
#[test]
fn early_expiries_are_found_out() {
    let mut found = 0;
    for seed in 0..60 {
        let mut history = support::record(seed, 120);
        let expiries = check(&history).expect("it is right").expiries;
        operations::early_expiry(&mut history, &mut Rng::new(seed));
        let early = |violations: &Vec<vetch_check::Violation>| {
            violations.iter().any(|violation| violation.kind == Kind::EarlyExpiry)
        };
        let refused = check(&history).is_err_and(|violations| early(&violations));
        found += usize::from(refused);
        assert!(refused || expiries < 3, "seed {seed}: {expiries} leases ended early, and nothing was found");
    }
    assert!(found > 10, "found in {found} histories only");
}
