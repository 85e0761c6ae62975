//! What a crash must not do: lose, change, or count anew.

use std::io::ErrorKind;
use std::task::Poll;

use vetch_journal::{Fault, Op};
use vetch_node::error::NodeError;
use vetch_node::store::request::{DeleteRangeRequest, KeyRange};

use crate::lab::{Lab, everything, put, told};

/// Under load, a crash left one member with state that its index did not account for: revisions
/// then differed.
#[test]
fn etcd_13766_revision_and_contents_agree_after_a_crash_under_load() {
    for crash_at in (0..400).step_by(3) {
        let mut lab = Lab::new();
        lab.disk().inject(Fault::CrashAt(crash_at));
        let mut acknowledged = 0;
        let mut in_flight = Vec::new();
        for n in 0..60 {
            let node = lab.node.clone();
            let request = put(&format!("k{}", n % 5), &format!("{n}"));
            in_flight.push(Box::pin(async move { node.put(request).await }));
            // Several requests are evaluated ahead of the disk, and housekeeping runs in between.
            lab.sequence();
            if n % 3 == 0 {
                lab.sync();
                lab.housekeep();
            }
            in_flight.retain_mut(|request| match lab.poll(request) {
                Poll::Ready(Ok(response)) => {
                    acknowledged = response.revision.max(acknowledged);
                    false
                }
                Poll::Ready(Err(_)) => false,
                Poll::Pending => true,
            });
        }
        let mut lab = lab.power_cut();
        let revision = lab.node.revision();
        assert!(revision >= acknowledged.max(1), "crash at {crash_at}: {acknowledged} was acknowledged");
        // Revision n + 2 wrote the value n: contents and revision tell the same story.
        let newest =
            (0..5).filter_map(|key| lab.get(&format!("k{key}"))).map(|value| value.parse::<i64>().unwrap());
        assert_eq!(newest.max().map_or(1, |value| value + 2), revision, "crash at {crash_at}");
        let hash = lab.hash();
        assert_eq!(lab.kill().hash(), hash, "crash at {crash_at}");
    }
}

/// A lone member acknowledged a write before it was on disk.
#[test]
fn etcd_14370_the_last_acknowledged_write_survives_a_power_cut() {
    for writes in 1..40 {
        let mut lab = Lab::new();
        let revisions: Vec<i64> = (0..writes).map(|n| lab.put("k", &format!("{n}"))).collect();
        let mut lab = lab.power_cut();
        assert_eq!(lab.get("k"), Some(format!("{}", writes - 1)));
        assert_eq!(lab.node.revision(), *revisions.last().unwrap());
        assert_eq!(lab.put("k", "next"), revisions.last().unwrap() + 1);
    }
}

/// A crash while the file was being rewritten to give space back left the server unable to start.
#[test]
fn etcd_14685_a_crash_while_space_is_given_back_loses_nothing() {
    let build = || {
        let mut lab = Lab::new();
        for n in 0..40 {
            lab.put(&format!("k{n}"), &"x".repeat(200));
        }
        let delete = DeleteRangeRequest { range: KeyRange::new("k1", "k2"), prev_kv: false };
        let node = lab.node.clone();
        let revision = lab.wait(async move { node.delete_range(delete).await }).unwrap().revision;
        lab.compact(revision);
        lab.settle();
        lab
    };
    // How many disk operations giving space back takes, and what must be there whatever happens to
    // them.
    let mut lab = build();
    let before = lab.disk().ops();
    let give_back = |lab: &mut Lab| {
        for n in 0..30 {
            let node = lab.node.clone();
            let request = put("filler", &format!("{n}{}", "y".repeat(300)));
            let mut write = Box::pin(async move { node.put(request).await });
            let _ = lab.poll(&mut write);
            lab.sequence();
            lab.sync();
            lab.housekeep();
        }
    };
    give_back(&mut lab);
    let operations = lab.disk().ops() - before;
    assert!(operations > 100, "checkpoints were taken: {operations}");
    for crash_at in 0..operations {
        let mut lab = build();
        lab.disk().inject(Fault::CrashAt(crash_at));
        give_back(&mut lab);
        let mut lab = lab.power_cut();
        assert_eq!(lab.get("k5"), Some("x".repeat(200)), "crash at {crash_at}");
        assert_eq!(lab.get("k10"), None, "crash at {crash_at}");
    }
}

/// Compaction at the newest revision, with a crash: the revision went back, because only a
/// tombstone carried it.
#[test]
fn etcd_17780_the_revision_does_not_go_back_after_a_crash_in_a_compaction() {
    for steps in 0..12 {
        let mut lab = Lab::with(|config| config.compaction_batch = 1);
        for n in 0..30 {
            lab.put(&format!("k{n}"), &"x".repeat(300));
        }
        for n in 0..30 {
            lab.delete(&format!("k{n}"));
        }
        let revision = lab.node.revision();
        let node = lab.node.clone();
        let mut compaction = Box::pin(async move { node.compact(revision, true).await });
        let _ = lab.poll(&mut compaction);
        lab.sequence();
        lab.sync();
        for _ in 0..steps {
            lab.housekeep();
            lab.sequence();
            lab.sync();
        }
        let lab = lab.power_cut();
        assert_eq!(lab.node.revision(), revision, "after {steps} steps");
        let mut lab = lab.kill();
        assert_eq!(lab.put("next", "v"), revision + 1);
    }
}

/// After a member had caught up by a snapshot, a watch told events of a time before the one it had
/// asked for.
#[test]
fn etcd_15271_a_watch_never_goes_back_in_time_over_a_restart_from_a_checkpoint() {
    let mut lab = Lab::new();
    for n in 0..60 {
        lab.put(&format!("k{}", n % 7), &format!("{n}{}", "x".repeat(200)));
    }
    lab.settle();
    let mut session = lab.watch(&everything(40));
    let mut events = told(&lab.drain_settled(&mut session));
    assert_eq!(events.last().unwrap().1, 61);
    drop(session);
    let mut lab = lab.power_cut();
    let next = events.last().unwrap().1 + 1;
    let mut session = lab.watch(&everything(next));
    for n in 0..5 {
        lab.put("k0", &format!("after{n}"));
    }
    events.extend(told(&lab.drain_settled(&mut session)));
    let revisions: Vec<i64> = events.iter().map(|(_, revision, _)| *revision).collect();
    assert_eq!(revisions, (40..=66).collect::<Vec<i64>>());
}

/// A segment cannot be prepared, though there is space: that is not NOSPACE, and passes when the
/// disk is well again.
#[test]
fn a_disk_that_fails_is_not_called_full() {
    let mut lab = Lab::new();
    let mut fails = false;
    for n in 0..200 {
        lab.disk().inject(Fault::FailNext(Op::Allocate, ErrorKind::Other));
        let node = lab.node.clone();
        let value = "x".repeat(300);
        match lab.wait(async move { node.put(put(&format!("k{n}"), &value)).await }) {
            Ok(_) => {}
            Err(NodeError::DiskFails) => fails = true,
            Err(other) => panic!("{other}"),
        }
        assert_eq!(lab.node.alarms(), [], "space is not what is missing");
        if fails {
            break;
        }
    }
    assert!(fails && lab.node.files().disk_fails && !lab.node.files().disk_full);
    lab.settle();
    lab.settle();
    lab.put("again", "v");
}
