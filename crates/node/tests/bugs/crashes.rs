//! What a crash must not do: lose, change, or count anew.

use std::io::ErrorKind;
use std::task::Poll;

use vetch_journal::{Fault, Op};
use vetch_node::error::NodeError;
use vetch_node::store::request::{DeleteRangeRequest, KeyRange};
use vetch_testkit::valid::Valid;

use crate::stepped_node::{SteppedNode, events_of, everything, put};

/// Under load, a crash left one member with state that its index did not account for: revisions
/// then differed.
#[test]
fn etcd_13766_revision_and_contents_agree_after_a_crash_under_load() {
    for crash_at in (0..400).step_by(3) {
        let mut fixture = SteppedNode::new();
        fixture.disk().inject(Fault::CrashAt(crash_at));
        let mut acknowledged = 0;
        let mut in_flight = Vec::new();
        for n in 0..60 {
            let node = fixture.node.clone();
            let request = put(&format!("k{}", n % 5), &format!("{n}"));
            in_flight.push(Box::pin(async move { node.put(request.valid()).await }));
            // Several requests are evaluated ahead of the disk, and housekeeping runs in between.
            fixture.sequence();
            if n % 3 == 0 {
                fixture.sync();
                fixture.housekeep();
            }
            in_flight.retain_mut(|request| match fixture.poll(request) {
                Poll::Ready(Ok(response)) => {
                    acknowledged = response.revision.max(acknowledged);
                    false
                }
                Poll::Ready(Err(_)) => false,
                Poll::Pending => true,
            });
        }
        let mut fixture = fixture.power_cut();
        let revision = fixture.node.revision();
        assert!(revision >= acknowledged.max(1), "crash at {crash_at}: {acknowledged} was acknowledged");
        // Revision n + 2 wrote the value n: contents and revision tell the same story.
        let newest = (0..5)
            .filter_map(|key| fixture.get(&format!("k{key}")))
            .map(|value| value.parse::<i64>().unwrap());
        assert_eq!(newest.max().map_or(1, |value| value + 2), revision, "crash at {crash_at}");
        let hash = fixture.hash();
        assert_eq!(fixture.kill().hash(), hash, "crash at {crash_at}");
    }
}

/// A lone member acknowledged a write before it was on disk.
#[test]
fn etcd_14370_the_last_acknowledged_write_survives_a_power_cut() {
    for writes in 1..40 {
        let mut fixture = SteppedNode::new();
        let revisions: Vec<i64> = (0..writes).map(|n| fixture.put("k", &format!("{n}"))).collect();
        let mut fixture = fixture.power_cut();
        assert_eq!(fixture.get("k"), Some(format!("{}", writes - 1)));
        assert_eq!(fixture.node.revision(), *revisions.last().unwrap());
        assert_eq!(fixture.put("k", "next"), revisions.last().unwrap() + 1);
    }
}

/// A crash while the file was being rewritten to give space back left the server unable to start.
#[test]
fn etcd_14685_a_crash_while_space_is_given_back_loses_nothing() {
    let build = || {
        let mut fixture = SteppedNode::new();
        for n in 0..40 {
            fixture.put(&format!("k{n}"), &"x".repeat(200));
        }
        let delete = DeleteRangeRequest { range: KeyRange::new("k1", "k2"), prev_kv: false };
        let node = fixture.node.clone();
        let revision = fixture.wait(async move { node.delete_range(delete.valid()).await }).unwrap().revision;
        fixture.compact(revision);
        fixture.settle();
        fixture
    };
    // How many disk operations giving space back takes, and what must be there whatever happens to
    // them.
    let mut fixture = build();
    let before = fixture.disk().ops();
    let give_back = |fixture: &mut SteppedNode| {
        for n in 0..30 {
            let node = fixture.node.clone();
            let request = put("filler", &format!("{n}{}", "y".repeat(300)));
            let mut write = Box::pin(async move { node.put(request.valid()).await });
            let _ = fixture.poll(&mut write);
            fixture.sequence();
            fixture.sync();
            fixture.housekeep();
        }
    };
    give_back(&mut fixture);
    let operations = fixture.disk().ops() - before;
    assert!(operations > 100, "checkpoints were taken: {operations}");
    for crash_at in 0..operations {
        let mut fixture = build();
        fixture.disk().inject(Fault::CrashAt(crash_at));
        give_back(&mut fixture);
        let mut fixture = fixture.power_cut();
        assert_eq!(fixture.get("k5"), Some("x".repeat(200)), "crash at {crash_at}");
        assert_eq!(fixture.get("k10"), None, "crash at {crash_at}");
    }
}

/// Compaction at the newest revision, with a crash: the revision went back, because only a
/// tombstone carried it.
#[test]
fn etcd_17780_the_revision_does_not_go_back_after_a_crash_in_a_compaction() {
    for steps in 0..12 {
        let mut fixture = SteppedNode::with(|config| config.compaction_batch = 1);
        for n in 0..30 {
            fixture.put(&format!("k{n}"), &"x".repeat(300));
        }
        for n in 0..30 {
            fixture.delete(&format!("k{n}"));
        }
        let revision = fixture.node.revision();
        let node = fixture.node.clone();
        let mut compaction = Box::pin(async move { node.compact(revision, true).await });
        let _ = fixture.poll(&mut compaction);
        fixture.sequence();
        fixture.sync();
        for _ in 0..steps {
            fixture.housekeep();
            fixture.sequence();
            fixture.sync();
        }
        let fixture = fixture.power_cut();
        assert_eq!(fixture.node.revision(), revision, "after {steps} steps");
        let mut fixture = fixture.kill();
        assert_eq!(fixture.put("next", "v"), revision + 1);
    }
}

/// After a member had caught up by a snapshot, a watch delivered events from before its start
/// revision.
#[test]
fn etcd_15271_a_watch_never_goes_back_in_time_over_a_restart_from_a_checkpoint() {
    let mut fixture = SteppedNode::new();
    for n in 0..60 {
        fixture.put(&format!("k{}", n % 7), &format!("{n}{}", "x".repeat(200)));
    }
    fixture.settle();
    let mut session = fixture.watch(&everything(40));
    let mut events = events_of(&fixture.drain_settled(&mut session));
    assert_eq!(events.last().unwrap().1, 61);
    drop(session);
    let mut fixture = fixture.power_cut();
    let next = events.last().unwrap().1 + 1;
    let mut session = fixture.watch(&everything(next));
    for n in 0..5 {
        fixture.put("k0", &format!("after{n}"));
    }
    events.extend(events_of(&fixture.drain_settled(&mut session)));
    let revisions: Vec<i64> = events.iter().map(|(_, revision, _)| *revision).collect();
    assert_eq!(revisions, (40..=66).collect::<Vec<i64>>());
}

/// A segment cannot be prepared, though there is space: that is not NOSPACE, and passes when the
/// disk is well again.
#[test]
fn a_disk_that_fails_is_not_called_full() {
    let mut fixture = SteppedNode::new();
    let mut fails = false;
    for n in 0..200 {
        fixture.disk().inject(Fault::FailNext(Op::Allocate, ErrorKind::Other));
        let node = fixture.node.clone();
        let value = "x".repeat(300);
        match fixture.wait(async move { node.put(put(&format!("k{n}"), &value).valid()).await }) {
            Ok(_) => {}
            Err(NodeError::DiskFails) => fails = true,
            Err(other) => panic!("{other}"),
        }
        assert_eq!(fixture.node.alarms(), [], "space is not what is missing");
        if fails {
            break;
        }
    }
    assert!(fails && fixture.node.files().disk_fails && !fixture.node.files().disk_full);
    fixture.settle();
    fixture.settle();
    fixture.put("again", "v");
}
