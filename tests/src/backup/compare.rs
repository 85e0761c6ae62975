//! A restored server against the specification: everything a client can see.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio_stream::StreamExt;
use vetch_api::pb;
use vetch_api::pb::auth_client::AuthClient;
use vetch_model::{Event, KeyValue, Keys, Model, Watch};

use super::history::Expected;
use crate::client::Client;
use crate::record::translate;
use crate::server::{Kind, Options, Server};

/// Past revisions listed and hashed besides the newest.
const PAST: i64 = 12;

/// Serves a restored directory and compares it; answers a line about what was compared.
pub(super) async fn equal(data_dir: &Path, revision: i64, expected: &Expected) -> Result<String> {
    let options = Options { data_dir: Some(data_dir.to_path_buf()), ..Options::default() };
    let server = Server::start_with(Kind::Vetch, options)?;
    let client = Client::connect(&server.endpoint()).await?;
    let model = &expected.model;
    let newest = hash(&client, 0).await?;
    ensure!(newest.hash_revision == revision, "revision {} instead of {revision}", newest.hash_revision);
    // HashKV says 0 or less where nothing was ever compacted.
    let compacted = newest.compact_revision;
    ensure!(
        compacted.max(-1) == model.compact_revision() || compacted <= 0 && model.compact_revision() <= 0,
        "compacted at {compacted} instead of {}",
        model.compact_revision()
    );
    let from = model.compact_revision().max(1);
    let step = ((revision - from) / PAST).max(1);
    let mut looked_at = 0;
    for at in (from..=revision).rev().step_by(step as usize) {
        same_keys(&client, model, at).await?;
        looked_at += 1;
    }
    same_events(&client, model, from, revision).await?;
    same_leases(&client, model).await?;
    same_users(&client, &expected.users).await?;
    let keys = model.dump(revision).len();
    Ok(format!(
        "{keys} keys, {} leases, {} users, lists and HashKV at {looked_at} revisions from {from} on, all events",
        model.leases().len(),
        expected.users.len()
    ))
}

async fn hash(client: &Client, revision: i64) -> Result<pb::HashKvResponse> {
    let answer = client.maintenance.clone().hash_kv(pb::HashKvRequest { revision }).await;
    Ok(answer.with_context(|| format!("HashKV at {revision}"))?.into_inner())
}

async fn same_keys(client: &Client, model: &Model, at: i64) -> Result<()> {
    let (key, range_end) = (vec![0].into(), vec![0].into());
    let request = pb::RangeRequest { key, range_end, revision: at, ..Default::default() };
    let found =
        client.kv.clone().range(request).await.with_context(|| format!("listing at {at}"))?.into_inner();
    let found: Vec<KeyValue> = found.kvs.iter().map(translate::key_value).collect();
    let wanted = model.dump(at);
    if let Some((found, wanted)) = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted) {
        anyhow::bail!("at revision {at}: {} instead of {}", shown(found), shown(wanted));
    }
    ensure!(found.len() == wanted.len(), "{} keys instead of {} at {at}", found.len(), wanted.len());
    let (hash, wanted) = (hash(client, at).await?.hash, model.hash_kv(at, model.compact_revision()));
    ensure!(hash == wanted, "HashKV at {at} is {hash} instead of {wanted}");
    Ok(())
}

async fn same_events(client: &Client, model: &Model, from: i64, upto: i64) -> Result<()> {
    let watch = Watch {
        keys: Keys::all(),
        start_revision: from,
        progress_notify: false,
        no_put: false,
        no_delete: false,
        prev_kv: true,
        fragment: false,
    };
    let wanted = model.recalled(&watch, from, upto);
    let create = translate::watch(&watch, 0);
    let union = pb::watch_request::RequestUnion::CreateRequest(create);
    let requests = tokio_stream::once(pb::WatchRequest { request_union: Some(union) });
    let mut stream = client.watch.clone().watch(requests.chain(tokio_stream::pending())).await?.into_inner();
    let mut found: Vec<Event> = Vec::new();
    let collect = async {
        while found.len() < wanted.len() {
            let answer = stream.message().await?.context("the watch ended")?;
            ensure!(!answer.canceled, "the watch was cancelled: {}", answer.cancel_reason);
            for event in &answer.events {
                found.push(translate::event(event)?);
            }
        }
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(30), collect).await.context("the past was not told")??;
    for (found, wanted) in found.iter().zip(&wanted) {
        ensure!(found == wanted, "event {found:?} instead of {wanted:?}");
    }
    ensure!(found.len() == wanted.len(), "{} events instead of {}", found.len(), wanted.len());
    Ok(())
}

async fn same_leases(client: &Client, model: &Model) -> Result<()> {
    let mut lease = client.lease.clone();
    let mut found: BTreeMap<i64, (i64, Vec<Vec<u8>>)> = BTreeMap::new();
    for status in lease.lease_leases(pb::LeaseLeasesRequest {}).await?.into_inner().leases {
        let request = pb::LeaseTimeToLiveRequest { id: status.id, keys: true };
        let info = lease.lease_time_to_live(request).await?.into_inner();
        let mut keys: Vec<Vec<u8>> = info.keys.iter().map(|key| key.to_vec()).collect();
        keys.sort_unstable();
        found.insert(status.id, (info.granted_ttl, keys));
    }
    let keys_of = |id: i64| model.lease_keys(id).into_iter().map(<[u8]>::to_vec).collect();
    let wanted: BTreeMap<i64, (i64, Vec<Vec<u8>>)> =
        model.leases().iter().map(|(&id, &ttl)| (id, (ttl, keys_of(id)))).collect();
    ensure!(found == wanted, "leases {found:?} instead of {wanted:?}");
    Ok(())
}

async fn same_users(client: &Client, wanted: &BTreeSet<String>) -> Result<()> {
    let answer = AuthClient::new(client.channel.clone()).user_list(pb::AuthUserListRequest {}).await?;
    let found: BTreeSet<String> = answer.into_inner().users.into_iter().collect();
    ensure!(found == *wanted, "users {found:?} instead of {wanted:?}");
    Ok(())
}

fn shown(kv: &KeyValue) -> String {
    let (key, value) = (String::from_utf8_lossy(&kv.key), String::from_utf8_lossy(&kv.value));
    let value: String = value.chars().take(20).collect();
    format!(
        "{key:?} = {value:?} created {} changed {} version {}",
        kv.create_revision, kv.mod_revision, kv.version
    )
}
