//! What the end of a lease must not do: end another one, or never come. And what else has no
//! revision of its own.

use std::task::Poll;
use std::time::Duration;

use vetch_node::store::request::{AlarmKind, PutRequest};
use vetch_node::types::{AlarmAction, AlarmSelector};
use vetch_testkit::valid::Valid;

use crate::stepped_node::{SteppedNode, put};

/// The end of a lease was on its way when the client revoked it and granted the same id again.
#[test]
fn a_lease_is_not_ended_by_the_time_of_an_earlier_one_with_its_id() {
    let mut fixture = SteppedNode::new();
    let node = fixture.node.clone();
    fixture.wait(async move { node.lease_grant(7, 2).await }).unwrap();
    fixture.advance(Duration::from_secs(3));
    let (revoking, granting) = (fixture.node.clone(), fixture.node.clone());
    let mut revoke = Box::pin(async move { revoking.lease_revoke(7).await });
    let mut grant = Box::pin(async move { granting.lease_grant(7, 600).await });
    assert!(fixture.poll(&mut revoke).is_pending() && fixture.poll(&mut grant).is_pending());
    fixture.tick();
    fixture.settle();
    assert!(matches!(fixture.poll(&mut grant), Poll::Ready(Ok(_))));
    let node = fixture.node.clone();
    let left = fixture.wait(async move { node.lease_time_to_live(7, false).await }).unwrap();
    assert_eq!(left.map(|lease| lease.granted_ttl), Some(600));
}

/// So was a record of the time left, which a restart would have given the new lease.
#[test]
fn a_lease_is_not_cut_short_by_the_record_of_an_earlier_one_with_its_id() {
    let mut fixture =
        SteppedNode::with(|config| config.tuning.leases.record_interval = Duration::from_secs(100));
    let node = fixture.node.clone();
    fixture.wait(async move { node.lease_grant(7, 400).await }).unwrap();
    fixture.advance(Duration::from_secs(390));
    let (revoking, granting) = (fixture.node.clone(), fixture.node.clone());
    let mut revoke = Box::pin(async move { revoking.lease_revoke(7).await });
    let mut grant = Box::pin(async move { granting.lease_grant(7, 400).await });
    assert!(fixture.poll(&mut revoke).is_pending() && fixture.poll(&mut grant).is_pending());
    fixture.tick();
    fixture.settle();
    assert!(matches!(fixture.poll(&mut grant), Poll::Ready(Ok(_))));
    let mut fixture = fixture.power_cut();
    let node = fixture.node.clone();
    let left = fixture.wait(async move { node.lease_time_to_live(7, false).await }).unwrap();
    assert_eq!(left.map(|lease| lease.ttl), Some(400));
}

/// The revoke of an expired lease was refused by an alarm, and was not tried again.
#[test]
fn a_lease_whose_end_was_refused_ends_later() {
    let mut fixture = SteppedNode::new();
    let node = fixture.node.clone();
    fixture.wait(async move { node.lease_grant(7, 2).await }).unwrap();
    alarm(&mut fixture, AlarmAction::Activate);
    fixture.advance(Duration::from_secs(3));
    fixture.settle();
    let node = fixture.node.clone();
    assert_eq!(
        fixture.wait(async move { node.leases().await }),
        Ok(vec![7]),
        "the alarm refuses every change"
    );
    alarm(&mut fixture, AlarmAction::Deactivate);
    fixture.advance(Duration::from_secs(6));
    fixture.settle();
    let node = fixture.node.clone();
    assert_eq!(fixture.wait(async move { node.leases().await }), Ok(vec![]));
}

/// Alarms are state like any other, also where it comes from a checkpoint.
#[test]
fn an_alarm_survives_a_restart_from_a_checkpoint() {
    let mut fixture = SteppedNode::new();
    for n in 0..100 {
        fixture.put(&format!("k{n}"), &"x".repeat(300));
    }
    alarm(&mut fixture, AlarmAction::Activate);
    fixture.advance(Duration::from_secs(3600));
    fixture.settle();
    let fixture = fixture.power_cut().kill();
    assert_eq!(fixture.node.alarms().len(), 1);
}

/// Which keys hang on a lease is known to the sequencer first; a client is shown them when they are
/// durable.
#[test]
fn the_keys_of_a_lease_are_shown_once_they_are_durable() {
    let mut fixture = SteppedNode::new();
    let node = fixture.node.clone();
    fixture.wait(async move { node.lease_grant(7, 600).await }).unwrap();
    let (writing, asking) = (fixture.node.clone(), fixture.node.clone());
    let leased = PutRequest { lease: 7, ..put("k", "v") };
    let mut write = Box::pin(async move { writing.put(leased.valid()).await });
    assert!(fixture.poll(&mut write).is_pending());
    fixture.sequence();
    fixture.sequence();
    let mut ask = Box::pin(async move { asking.lease_time_to_live(7, true).await });
    let Poll::Ready(Ok(Some(lease))) = fixture.poll(&mut ask) else { panic!("nothing is waited for") };
    assert_eq!((lease.revision, lease.keys.len()), (1, 0), "the key is not durable yet");
    fixture.sync();
    let node = fixture.node.clone();
    let lease = fixture.wait(async move { node.lease_time_to_live(7, true).await }).unwrap().unwrap();
    assert_eq!((lease.revision, lease.keys.len()), (2, 1));
}

/// LeaseTimeToLive collected, sorted and copied all keys of a lease with the store locked: sixty
/// calls on a lease with 307,000 keys delayed a put by 6.5 s. They are collected in steps, and
/// still those of one revision whatever happens in between.
#[test]
fn the_keys_of_a_lease_are_collected_in_steps_and_of_one_revision() {
    let mut fixture = SteppedNode::with(|config| config.tuning.scan.keys = 3);
    for id in [7, 8] {
        let node = fixture.node.clone();
        fixture.wait(async move { node.lease_grant(id, 600).await }).unwrap();
    }
    let leased = |fixture: &mut SteppedNode, key: &str, lease| {
        let (node, put) = (fixture.node.clone(), PutRequest { lease, ..put(key, "v") });
        fixture.wait(async move { node.put(put.valid()).await }).unwrap().revision
    };
    let keys: Vec<String> = (0..30).map(|n| format!("k{n:02}")).collect();
    // In another order than that of the keys.
    let last = keys.iter().rev().map(|key| leased(&mut fixture, key, 7)).last();
    assert_eq!(fixture.node.lease_keys_estimate(7), 30 * (3 + 4));
    assert_eq!((fixture.node.lease_keys_estimate(8), fixture.node.lease_keys_estimate(9)), (0, 0));
    let node = fixture.node.clone();
    let mut ask = Box::pin(async move { node.lease_time_to_live(7, true).await });
    let mut turns = 0;
    let lease = loop {
        match fixture.poll(&mut ask) {
            Poll::Ready(lease) => break lease.unwrap().unwrap(),
            Poll::Pending => turns += 1,
        }
        match turns {
            1 => drop(fixture.delete("k00")),
            2 => drop(leased(&mut fixture, "k29", 8)),
            3 => drop(leased(&mut fixture, "new", 7)),
            4 => drop(leased(&mut fixture, "k15", 0)),
            5 => drop(leased(&mut fixture, "k15", 7)),
            6 => {
                let node = fixture.node.clone();
                fixture.wait(async move { node.lease_revoke(7).await }).unwrap();
            }
            _ => {}
        }
    };
    assert!(turns >= 30 / 3, "{turns} turns for others");
    let found: Vec<&[u8]> = lease.keys.iter().map(|version| version.key()).collect();
    assert_eq!((Some(lease.revision), lease.ttl), (last, 600));
    assert_eq!(found, keys.iter().map(String::as_bytes).collect::<Vec<_>>());
    let node = fixture.node.clone();
    assert_eq!(fixture.wait(async move { node.lease_time_to_live(7, true).await }), Ok(None));
}

/// The time left of a lease is journalled while a renewal waits for the disk. Once the renewal is
/// answered, a restart gives the full time.
#[test]
fn a_renewal_that_meets_a_recording_is_kept() {
    let mut fixture =
        SteppedNode::with(|config| config.tuning.leases.record_interval = Duration::from_secs(10));
    let node = fixture.node.clone();
    fixture.wait(async move { node.lease_grant(7, 600).await }).unwrap();
    fixture.advance(Duration::from_secs(100));
    fixture.tick();
    let node = fixture.node.clone();
    let mut renewal = Box::pin(async move { node.lease_keep_alive(7).await });
    assert!(fixture.poll(&mut renewal).is_pending(), "500 seconds are about to be on record");
    fixture.sequence();
    fixture.sequence();
    fixture.advance(Duration::from_secs(10));
    fixture.tick();
    fixture.sync();
    if fixture.poll(&mut renewal).is_pending() {
        assert_eq!(fixture.wait(renewal), Ok(600));
    }
    fixture.settle();
    let mut fixture = fixture.power_cut();
    let node = fixture.node.clone();
    let left = fixture.wait(async move { node.lease_time_to_live(7, false).await }).unwrap().unwrap();
    assert_eq!(left.ttl, 600);
}

fn alarm(fixture: &mut SteppedNode, action: AlarmAction) {
    let node = fixture.node.clone();
    let which = AlarmSelector { member: 2, kind: Some(AlarmKind::Corrupt) };
    fixture.wait(async move { node.alarm(action, which).await }).unwrap();
}
