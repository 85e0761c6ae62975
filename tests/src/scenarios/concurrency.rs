//! Locks and elections: who holds what, and who is next.

use anyhow::{Context, Result};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use vetch_api::v3electionpb as election;
use vetch_api::v3lockpb as lock;

use super::{Script, grant, keys, revision, soon, text};
use crate::client::Client;

fn lock_request(name: &str, lease: i64) -> lock::LockRequest {
    lock::LockRequest { name: name.to_owned().into(), lease }
}

pub(super) fn lock_handed_on(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        for id in [1, 2, 3] {
            grant(&client, 600, id).await?;
        }
        let first = client.lock.clone().lock(lock_request("l", 1)).await?.into_inner();
        script.note(format!("first has {} at {}", text(&first.key), revision(&first.header)));
        let again = client.lock.clone().lock(lock_request("l", 1)).await?.into_inner();
        script.note(format!("again {} at {}", text(&again.key), revision(&again.header)));
        let (mut second, mut third) = (client.lock.clone(), client.lock.clone());
        let second = tokio::spawn(async move { second.lock(lock_request("l", 2)).await });
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let mut third = tokio::spawn(async move { third.lock(lock_request("l", 3)).await });
        script.note(format!("third waits: {}", soon(&mut third).await.is_none()));
        script.note(keys(&client).await?);
        let unlocked = client.lock.clone().unlock(lock::UnlockRequest { key: first.key }).await;
        script.answer("unlock", unlocked, |response| revision(&response.header));
        let second = second.await??.into_inner();
        script.note(format!("second has {} at {}", text(&second.key), revision(&second.header)));
        script.note(format!("third waits: {}", soon(&mut third).await.is_none()));
        let revoke = vetch_api::pb::LeaseRevokeRequest { id: 2 };
        client.lease.clone().lease_revoke(revoke).await?;
        let third = third.await??.into_inner();
        script.note(format!("third has {} at {}", text(&third.key), revision(&third.header)));
        script.note(keys(&client).await?);
        let unlocked = client.lock.clone().unlock(lock::UnlockRequest { key: "nothing".into() }).await;
        script.answer("unlock of nothing", unlocked, |response| revision(&response.header));
        Ok(())
    }
    .boxed()
}

pub(super) fn lock_abandoned(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        for id in [1, 2, 3] {
            grant(&client, 600, id).await?;
        }
        let first = client.lock.clone().lock(lock_request("l", 1)).await?.into_inner();
        let waiting = soon(client.lock.clone().lock(lock_request("l", 2))).await;
        script.note(format!("second waits: {}", waiting.is_none()));
        // A client that disconnects while it waits leaves the queue.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        script.note(keys(&client).await?);
        // A waiter whose lease expires gets an error.
        let mut other = client.lock.clone();
        let third = tokio::spawn(async move { other.lock(lock_request("l", 3)).await });
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        client.lease.clone().lease_revoke(vetch_api::pb::LeaseRevokeRequest { id: 3 }).await?;
        client.lock.clone().unlock(lock::UnlockRequest { key: first.key }).await?;
        script.answer("third", third.await?, |response| text(&response.key));
        script.note(keys(&client).await?);
        Ok(())
    }
    .boxed()
}

pub(super) fn lock_leases(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        let unknown = client.lock.clone().lock(lock_request("l", 77)).await;
        script.answer("unknown lease", unknown, |response| text(&response.key));
        let made = client.lock.clone().lock(lock_request("l", 0)).await?.into_inner();
        let (name, id) =
            text(&made.key).split_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).context("no /")?;
        script.note(format!("a lease was made: {name}, {}", i64::from_str_radix(&id, 16).is_ok()));
        let leases =
            client.lease.clone().lease_leases(vetch_api::pb::LeaseLeasesRequest {}).await?.into_inner();
        script.note(format!("{} leases", leases.leases.len()));
        let id = leases.leases.first().map_or(0, |lease| lease.id);
        let request = vetch_api::pb::LeaseTimeToLiveRequest { id, keys: false };
        let left = client.lease.clone().lease_time_to_live(request).await?.into_inner();
        script.note(format!("granted {}", left.granted_ttl));
        grant(&client, 600, 1).await?;
        let nameless = client.lock.clone().lock(lock_request("", 1)).await;
        script.answer("no name", nameless, |response| text(&response.key));
        Ok(())
    }
    .boxed()
}

fn campaign_request(lease: i64, value: &str) -> election::CampaignRequest {
    election::CampaignRequest { name: "e".into(), lease, value: value.to_owned().into() }
}

fn show(leader: &Option<election::LeaderKey>) -> String {
    leader.as_ref().map_or("none".into(), |leader| {
        format!("{} {} rev {} lease {}", text(&leader.name), text(&leader.key), leader.rev, leader.lease)
    })
}

fn show_kv(kv: &Option<vetch_api::mvccpb::KeyValue>) -> String {
    kv.as_ref().map_or("none".into(), |kv| {
        format!(
            "{}={} created {} modified {}",
            text(&kv.key),
            text(&kv.value),
            kv.create_revision,
            kv.mod_revision
        )
    })
}

pub(super) fn election(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        grant(&client, 600, 1).await?;
        grant(&client, 600, 2).await?;
        let mut calls = client.election.clone();
        let leader_request = election::LeaderRequest { name: "e".into() };
        script.answer("leader", calls.leader(leader_request.clone()).await, |response| show_kv(&response.kv));
        let mut observing = client.election.clone();
        let observed = leader_request.clone();
        let observer = tokio::spawn(async move {
            let mut lines = Vec::new();
            let mut stream = observing.observe(observed).await?.into_inner();
            while lines.len() < 3 {
                let Some(message) = stream.message().await? else { break };
                lines.push(format!("observed {} at {}", show_kv(&message.kv), revision(&message.header)));
            }
            Ok::<_, tonic::Status>(lines)
        });
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let first = calls.campaign(campaign_request(1, "one")).await?.into_inner();
        script.note(format!("first: {}, {}", show(&first.leader), revision(&first.header)));
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let mut other = client.election.clone();
        let mut second = tokio::spawn(async move { other.campaign(campaign_request(2, "two")).await });
        script.note(format!("second waits: {}", soon(&mut second).await.is_none()));
        let proclaim = election::ProclaimRequest { leader: first.leader.clone(), value: "uno".into() };
        script.answer("proclaim", calls.proclaim(proclaim.clone()).await, |response| {
            revision(&response.header)
        });
        script.answer("leader", calls.leader(leader_request.clone()).await, |response| show_kv(&response.kv));
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let resigned = calls.resign(election::ResignRequest { leader: first.leader.clone() }).await;
        script.answer("resign", resigned, |response| revision(&response.header));
        let second = second.await??.into_inner();
        script.note(format!("second: {}, {}", show(&second.leader), revision(&second.header)));
        script.answer("late proclaim", calls.proclaim(proclaim).await, |response| revision(&response.header));
        let resigned = calls.resign(election::ResignRequest { leader: first.leader }).await;
        script.answer("late resign", resigned, |response| revision(&response.header));
        script.answer("leader", calls.leader(leader_request).await, |response| show_kv(&response.kv));
        script.lines.extend(observer.await??);
        Ok(())
    }
    .boxed()
}

pub(super) fn election_errors(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        let mut calls = client.election.clone();
        let header = |header: &Option<vetch_api::pb::ResponseHeader>| revision(header);
        let unknown = calls.campaign(campaign_request(77, "x")).await;
        script.answer("campaign with an unknown lease", unknown, |response| show(&response.leader));
        let proclaim = election::ProclaimRequest { leader: None, value: "x".into() };
        script.answer("proclaim without a leader", calls.proclaim(proclaim).await, |response| {
            header(&response.header)
        });
        let resign = election::ResignRequest { leader: None };
        script.answer("resign without a leader", calls.resign(resign).await, |response| {
            header(&response.header)
        });
        let leader = Some(election::LeaderKey { name: "e".into(), key: "e/1".into(), rev: 5, lease: 1 });
        let proclaim = election::ProclaimRequest { leader: leader.clone(), value: "x".into() };
        script.answer("proclaim by a stranger", calls.proclaim(proclaim).await, |response| {
            header(&response.header)
        });
        let resign = election::ResignRequest { leader };
        script
            .answer("resign by a stranger", calls.resign(resign).await, |response| header(&response.header));
        grant(&client, 600, 1).await?;
        let first = calls.campaign(campaign_request(1, "one")).await?.into_inner();
        let again = calls.campaign(campaign_request(1, "other")).await?.into_inner();
        script.note(format!(
            "{} then {}, {}",
            show(&first.leader),
            show(&again.leader),
            revision(&again.header)
        ));
        script.note(keys(&client).await?);
        Ok(())
    }
    .boxed()
}
