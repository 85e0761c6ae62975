//! What the end of a lease must not do: end another one.

use std::task::Poll;
use std::time::Duration;

use crate::lab::Lab;

/// The end of a lease was on its way when the client revoked it and granted the same id again.
#[test]
fn a_lease_is_not_ended_by_the_time_of_an_earlier_one_with_its_id() {
    let mut lab = Lab::new();
    let node = lab.node.clone();
    lab.wait(async move { node.lease_grant(7, 2).await }).unwrap();
    lab.advance(Duration::from_secs(3));
    let (revoking, granting) = (lab.node.clone(), lab.node.clone());
    let mut revoke = Box::pin(async move { revoking.lease_revoke(7).await });
    let mut grant = Box::pin(async move { granting.lease_grant(7, 600).await });
    assert!(lab.poll(&mut revoke).is_pending() && lab.poll(&mut grant).is_pending());
    lab.tick();
    lab.settle();
    assert!(matches!(lab.poll(&mut grant), Poll::Ready(Ok(_))));
    let node = lab.node.clone();
    let left = lab.wait(async move { node.lease_time_to_live(7, false).await }).unwrap();
    assert_eq!(left.map(|lease| lease.granted_ttl), Some(600));
}

/// So was a record of the time left, which a restart would have given the new lease.
#[test]
fn a_lease_is_not_cut_short_by_the_record_of_an_earlier_one_with_its_id() {
    let mut lab = Lab::with(|config| config.tuning.record_every = Duration::from_secs(100));
    let node = lab.node.clone();
    lab.wait(async move { node.lease_grant(7, 400).await }).unwrap();
    lab.advance(Duration::from_secs(390));
    let (revoking, granting) = (lab.node.clone(), lab.node.clone());
    let mut revoke = Box::pin(async move { revoking.lease_revoke(7).await });
    let mut grant = Box::pin(async move { granting.lease_grant(7, 400).await });
    assert!(lab.poll(&mut revoke).is_pending() && lab.poll(&mut grant).is_pending());
    lab.tick();
    lab.settle();
    assert!(matches!(lab.poll(&mut grant), Poll::Ready(Ok(_))));
    let mut lab = lab.power_cut();
    let node = lab.node.clone();
    let left = lab.wait(async move { node.lease_time_to_live(7, false).await }).unwrap();
    assert_eq!(left.map(|lease| lease.ttl), Some(400));
}
