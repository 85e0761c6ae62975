//! Leases against the clock.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use vetch_api::pb;

use super::{Script, grant, keys, put};
use crate::client::Client;
use crate::scenarios::watching::Watch;

pub(super) fn expiry(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        let mut watch =
            Watch::open(&client, pb::WatchCreateRequest { prev_kv: true, ..Watch::everything() }).await?;
        let lease =
            client.lease.clone().lease_grant(pb::LeaseGrantRequest { ttl: 1, id: 5 }).await?.into_inner();
        script.note(format!("granted {} for {}", lease.id, lease.ttl));
        for key in ["c", "a", "b", "kept"] {
            put(&client, key, "x", 5).await?;
        }
        put(&client, "kept", "y", 0).await?;
        let begun = Instant::now();
        for _ in 0..6 {
            script.lines.extend(watch.next_events().await?);
        }
        let early = begun.elapsed() < Duration::from_millis(1_800);
        script.note(format!("expired before its time: {early}"));
        script.note(keys(&client).await?);
        let request = pb::LeaseTimeToLiveRequest { id: 5, keys: true };
        let left = client.lease.clone().lease_time_to_live(request).await;
        script.answer("time to live", left, |left| {
            format!("{} of {}, keys {:?}", left.ttl, left.granted_ttl, left.keys)
        });
        script.answer("put", put(&client, "d", "x", 5).await, |_| "passed".into());
        Ok(())
    }
    .boxed()
}

pub(super) fn kept_alive(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        grant(&client, 2, 6).await?;
        put(&client, "k", "x", 6).await?;
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let requests = tokio_stream::once(pb::LeaseKeepAliveRequest { id: 6 });
            let mut responses = client.lease.clone().lease_keep_alive(requests).await?.into_inner();
            let response = responses.message().await?.context("no answer")?;
            script.note(format!("kept {} for {}", response.id, response.ttl));
        }
        script.note(keys(&client).await?);
        let revoked = client.lease.clone().lease_revoke(pb::LeaseRevokeRequest { id: 6 }).await;
        script.answer("revoke", revoked, |response| super::revision(&response.header));
        script.note(keys(&client).await?);
        Ok(())
    }
    .boxed()
}

pub(super) fn one_stream(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        grant(&client, 100, 1).await?;
        grant(&client, 200, 2).await?;
        let (requests, outgoing) = tokio::sync::mpsc::channel(8);
        requests.send(pb::LeaseKeepAliveRequest { id: 1 }).await?;
        let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
        let mut responses = client.lease.clone().lease_keep_alive(outgoing).await?.into_inner();
        for id in [2, 99, 1, 0] {
            let response = responses.message().await?.context("the stream ended")?;
            script.note(format!(
                "{} for {}, {}",
                response.id,
                response.ttl,
                super::revision(&response.header)
            ));
            requests.send(pb::LeaseKeepAliveRequest { id }).await?;
        }
        let response = responses.message().await?.context("the stream ended")?;
        script.note(format!("{} for {}", response.id, response.ttl));
        drop(requests);
        script.note(format!("after hanging up: {:?}", responses.message().await));
        Ok(())
    }
    .boxed()
}
