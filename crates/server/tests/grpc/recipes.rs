use std::time::Duration;

use tonic::Code;
use vetch_api::v3electionpb::election_client::ElectionClient;
use vetch_api::v3electionpb::{CampaignRequest, LeaderKey, LeaderRequest, ProclaimRequest, ResignRequest};
use vetch_api::v3lockpb::lock_client::LockClient;
use vetch_api::v3lockpb::{LockRequest, UnlockRequest};
use vetch_server::grpc::Rpc;

use crate::{World, refused};

fn lock(name: &'static str, lease: i64) -> LockRequest {
    LockRequest { name: name.into(), lease }
}

fn locks(world: &World) -> LockClient<Rpc> {
    LockClient::new(world.rpc.clone())
}

fn elections(world: &World) -> ElectionClient<Rpc> {
    ElectionClient::new(world.rpc.clone())
}

fn campaign(lease: i64, value: &'static str) -> CampaignRequest {
    CampaignRequest { name: "el".into(), lease, value: value.into() }
}

/// Waits until there are this many keys under the prefix.
async fn until(world: &World, prefix: &str, keys: usize) {
    for _ in 0..500 {
        if world.under(prefix).await.len() == keys {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("there never were {keys} keys under {prefix}");
}

#[tokio::test]
async fn a_free_lock_is_taken_at_once_and_again_by_the_same_lease() {
    let world = World::new().await;
    world.grant(77).await;
    let mut client = locks(&world);
    for _ in 0..2 {
        let taken = client.lock(lock("lk", 77)).await.unwrap().into_inner();
        assert_eq!((taken.header, taken.key.as_ref()), (world.header(2), &b"lk/4d"[..]));
    }
    let key = world.under("lk/").await.remove(0);
    assert_eq!((key.lease, key.value.as_ref()), (77, &b""[..]));
    for _ in 0..2 {
        let unlocked = client.unlock(UnlockRequest { key: "lk/4d".into() }).await.unwrap().into_inner();
        assert_eq!(unlocked.header, world.header(3));
    }
}

/// The codes are lost because etcd's lock service is a client of the others.
#[tokio::test]
async fn refusals_of_locks_have_no_code() {
    let world = World::new().await;
    let mut client = locks(&world);
    let leaseless = refused(client.lock(lock("lk", 123)).await);
    assert_eq!(leaseless, (Code::Unknown, "etcdserver: requested lease not found".into()));
    let unnamed = refused(client.unlock(UnlockRequest::default()).await);
    assert_eq!(unnamed, (Code::Unknown, "etcdserver: key is not provided".into()));
}

#[tokio::test]
async fn waiters_get_the_lock_in_the_order_they_came() {
    let world = World::new().await;
    for lease in [1, 2, 3] {
        world.grant(lease).await;
    }
    let mut client = locks(&world);
    client.lock(lock("lk", 1)).await.unwrap();
    let mut waiting = Vec::new();
    for lease in [2, 3] {
        let mut client = locks(&world);
        waiting.push(tokio::spawn(async move { client.lock(lock("lk", lease)).await.unwrap().into_inner() }));
        until(&world, "lk/", lease as usize).await;
    }
    client.unlock(UnlockRequest { key: "lk/1".into() }).await.unwrap();
    let second = waiting.remove(0).await.unwrap();
    assert_eq!(second.key, "lk/2");
    assert!(!waiting[0].is_finished());
    client.unlock(UnlockRequest { key: "lk/2".into() }).await.unwrap();
    assert_eq!(waiting.remove(0).await.unwrap().key, "lk/3");
}

#[tokio::test]
async fn a_waiter_who_goes_away_leaves_no_key_behind() {
    let world = World::new().await;
    world.grant(1).await;
    locks(&world).lock(lock("lk", 1)).await.unwrap();
    // The second brings no lease and is given one.
    let mut client = locks(&world);
    let waiting = tokio::spawn(async move { client.lock(lock("lk", 0)).await });
    until(&world, "lk/", 2).await;
    waiting.abort();
    until(&world, "lk/", 1).await;
}

#[tokio::test]
async fn a_waiter_whose_lease_ends_gets_an_error_when_its_turn_comes() {
    let world = World::new().await;
    world.grant(1).await;
    world.grant(2).await;
    locks(&world).lock(lock("lk", 1)).await.unwrap();
    let mut client = locks(&world);
    let waiting = tokio::spawn(async move { client.lock(lock("lk", 2)).await });
    until(&world, "lk/", 2).await;
    world.node.lease_revoke(2).await.unwrap();
    locks(&world).unlock(UnlockRequest { key: "lk/1".into() }).await.unwrap();
    assert_eq!(refused(waiting.await.unwrap()), (Code::Unknown, "mutex: session is expired".into()));
}

#[tokio::test]
async fn a_candidate_leads_until_it_resigns() {
    let world = World::new().await;
    world.grant(77).await;
    let mut client = elections(&world);
    let no_leader = refused(client.leader(LeaderRequest { name: "el".into() }).await);
    assert_eq!(no_leader, (Code::Unknown, "election: no leader".into()));

    let won = client.campaign(campaign(77, "v1")).await.unwrap().into_inner();
    let key = LeaderKey { name: "el".into(), key: "el/4d".into(), rev: 2, lease: 77 };
    assert_eq!((won.header, won.leader), (world.header(2), Some(key.clone())));
    // Another value is proclaimed, but the answer is about the candidacy.
    let again = client.campaign(campaign(77, "v2")).await.unwrap().into_inner();
    assert_eq!((again.header, again.leader), (world.header(2), Some(key.clone())));
    let leader = client.leader(LeaderRequest { name: "el".into() }).await.unwrap().into_inner();
    let kv = leader.kv.unwrap();
    assert_eq!((leader.header, kv.value.as_ref(), kv.lease), (world.header(3), &b"v2"[..], 77));

    let proclaim = |leader| ProclaimRequest { leader, value: "v3".into() };
    let proclaimed = client.proclaim(proclaim(Some(key.clone()))).await.unwrap().into_inner();
    assert_eq!(proclaimed.header, world.header(4));
    let stale = LeaderKey { rev: 1, ..key.clone() };
    let stranger = refused(client.proclaim(proclaim(Some(stale))).await);
    assert_eq!(stranger, (Code::Unknown, "election: not leader".into()));
    let unnamed = (Code::Unknown, "\"leader\" field must be provided".to_owned());
    assert_eq!(refused(client.proclaim(proclaim(None)).await), unnamed);
    assert_eq!(refused(client.resign(ResignRequest { leader: None }).await), unnamed);

    for _ in 0..2 {
        let resigned = client.resign(ResignRequest { leader: Some(key.clone()) }).await.unwrap();
        assert_eq!(resigned.into_inner().header, world.header(5));
    }
}

#[tokio::test]
async fn observers_see_every_leader() {
    let world = World::new().await;
    world.grant(1).await;
    world.grant(2).await;
    let mut client = elections(&world);
    let mut seen = client.observe(LeaderRequest { name: "el".into() }).await.unwrap().into_inner();
    let mut next = async || {
        let next = tokio::time::timeout(Duration::from_secs(10), seen.message()).await;
        let leader = next.expect("a leader was due").unwrap().unwrap();
        (leader.header, leader.kv.unwrap().value)
    };
    // Without a leader the observer waits; the first candidate ends that.
    let (first, value) = tokio::join!(client.campaign(campaign(1, "one")), next());
    let first = first.unwrap().into_inner().leader.unwrap();
    assert_eq!(value, (world.header(2), "one".into()));

    let mut other = elections(&world);
    let second = tokio::spawn(async move { other.campaign(campaign(2, "two")).await.unwrap() });
    until(&world, "el/", 2).await;
    let proclaim = ProclaimRequest { leader: Some(first.clone()), value: "uno".into() };
    client.proclaim(proclaim).await.unwrap();
    assert_eq!(next().await, (world.header(4), "uno".into()));

    client.resign(ResignRequest { leader: Some(first) }).await.unwrap();
    second.await.unwrap();
    assert_eq!(next().await, (world.header(5), "two".into()));
}

#[tokio::test]
async fn a_candidate_who_goes_away_leaves_no_key_behind() {
    let world = World::new().await;
    world.grant(1).await;
    world.grant(2).await;
    elections(&world).campaign(campaign(1, "one")).await.unwrap();
    let mut other = elections(&world);
    let waiting = tokio::spawn(async move { other.campaign(campaign(2, "two")).await });
    until(&world, "el/", 2).await;
    waiting.abort();
    until(&world, "el/", 1).await;
}
