//! An image: everything clients can learn about a store, for comparison.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio_stream::StreamExt;
use vetch_api::pb::auth_client::AuthClient;
use vetch_api::{authpb, mvccpb, pb};

use crate::client::Client;

/// How long a watch of the past may take to deliver all events.
const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Image {
    pub(crate) revision: i64,
    pub(crate) compact_revision: i64,
    /// All keys, and HashKV, at each revision from the compaction on.
    pub(crate) states: BTreeMap<i64, State>,
    /// Every event from the compaction on.
    pub(crate) events: Vec<mvccpb::Event>,
    pub(crate) leases: BTreeMap<i64, Lease>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// None where etcd answers with what it remembers of its compaction, which it hashed as of the
    /// compaction before.
    hash: Option<u32>,
    kvs: Vec<mvccpb::KeyValue>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lease {
    granted: i64,
    keys: Vec<Vec<u8>>,
}

impl Image {
    pub(crate) async fn of(client: &Client) -> Result<Image> {
        let newest = hash_kv(client, 0).await?;
        // Before 3.6 an answer does not say what was hashed, which without compactions in between
        // is the newest revision.
        let now = newest.header.as_ref().map_or(0, |header| header.revision);
        let revision = if newest.hash_revision == 0 { now } else { newest.hash_revision };
        let compact_revision = newest.compact_revision;
        let mut states = BTreeMap::new();
        for at in compact_revision.max(1)..=revision {
            let answer = hash_kv(client, at).await?;
            let hash = (answer.compact_revision == compact_revision).then_some(answer.hash);
            states.insert(at, State { hash, kvs: list(client, at).await? });
        }
        let events = events(client, compact_revision.max(1), revision).await?;
        Ok(Image { revision, compact_revision, states, events, leases: leases(client).await? })
    }

    /// Fails with the first difference.
    pub(crate) fn must_equal(&self, other: &Image, what: &str) -> Result<()> {
        let marks = |image: &Image| (image.revision, image.compact_revision);
        ensure!(marks(self) == marks(other), "{what}: revisions {:?} and {:?}", marks(self), marks(other));
        for (at, state) in &self.states {
            let theirs = other.states.get(at).context("a revision is missing")?;
            if let Some((a, b)) = state.kvs.iter().zip(&theirs.kvs).find(|(a, b)| a != b) {
                anyhow::bail!("{what}: at revision {at}: {} and {}", shown(a), shown(b));
            }
            let counts = (state.kvs.len(), theirs.kvs.len());
            ensure!(counts.0 == counts.1, "{what}: {counts:?} keys at revision {at}");
            let hashes = state.hash.zip(theirs.hash);
            ensure!(hashes.is_none_or(|(a, b)| a == b), "{what}: HashKV differs at revision {at}");
        }
        for (a, b) in self.events.iter().zip(&other.events) {
            ensure!(a == b, "{what}: events {} and {}", describe(a), describe(b));
        }
        let counts = (self.events.len(), other.events.len());
        ensure!(counts.0 == counts.1, "{what}: {counts:?} events");
        ensure!(self.leases == other.leases, "{what}: leases {:?} and {:?}", self.leases, other.leases);
        Ok(())
    }

    /// A line about what was compared.
    pub(crate) fn size(&self) -> String {
        let keys = self.states.values().next_back().map_or(0, |state| state.kvs.len());
        format!(
            "{keys} keys at revision {}, compacted at {}; {} events, {} leases, HashKV at {} revisions",
            self.revision,
            self.compact_revision,
            self.events.len(),
            self.leases.len(),
            self.states.len()
        )
    }
}

/// Users with their roles, and roles with their permissions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Users {
    users: BTreeMap<String, Vec<String>>,
    roles: BTreeMap<String, Vec<authpb::Permission>>,
}

impl Users {
    pub(crate) async fn of(client: &Client) -> Result<Users> {
        let mut auth = AuthClient::new(client.channel.clone());
        let mut users = BTreeMap::new();
        for name in auth.user_list(pb::AuthUserListRequest {}).await?.into_inner().users {
            let user = auth.user_get(pb::AuthUserGetRequest { name: name.clone() }).await?.into_inner();
            users.insert(name, user.roles);
        }
        let mut roles = BTreeMap::new();
        for role in auth.role_list(pb::AuthRoleListRequest {}).await?.into_inner().roles {
            let found = auth.role_get(pb::AuthRoleGetRequest { role: role.clone() }).await?.into_inner();
            roles.insert(role, found.perm);
        }
        Ok(Users { users, roles })
    }

    pub(crate) fn count(&self) -> (usize, usize) {
        (self.users.len(), self.roles.len())
    }
}

pub(crate) async fn hash_kv(client: &Client, revision: i64) -> Result<pb::HashKvResponse> {
    let answer = client.maintenance.clone().hash_kv(pb::HashKvRequest { revision }).await;
    Ok(answer.with_context(|| format!("HashKV at {revision}"))?.into_inner())
}

pub(crate) async fn list(client: &Client, revision: i64) -> Result<Vec<mvccpb::KeyValue>> {
    let everything = "\0".to_owned();
    let request = pb::RangeRequest {
        key: everything.clone().into(),
        range_end: everything.into(),
        revision,
        ..Default::default()
    };
    let answer = client.kv.clone().range(request).await.with_context(|| format!("listing at {revision}"))?;
    Ok(answer.into_inner().kvs)
}

async fn events(client: &Client, from: i64, upto: i64) -> Result<Vec<mvccpb::Event>> {
    let create = pb::WatchCreateRequest {
        key: "\0".to_owned().into(),
        range_end: "\0".to_owned().into(),
        start_revision: from,
        prev_kv: true,
        ..Default::default()
    };
    let request =
        pb::WatchRequest { request_union: Some(pb::watch_request::RequestUnion::CreateRequest(create)) };
    // The request side stays open as long as the stream is read.
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut stream = client.watch.clone().watch(requests).await?.into_inner();
    let mut events: Vec<mvccpb::Event> = Vec::new();
    let collect = async {
        while events.last().and_then(|event| event.kv.as_ref()).is_none_or(|kv| kv.mod_revision < upto) {
            let answer = stream.message().await?.context("the watch ended")?;
            ensure!(!answer.canceled, "the watch was cancelled: {}", answer.cancel_reason);
            events.extend(answer.events);
        }
        Ok(())
    };
    tokio::time::timeout(TIMEOUT, collect).await.context("the watch did not deliver the past")??;
    Ok(events)
}

async fn leases(client: &Client) -> Result<BTreeMap<i64, Lease>> {
    let mut lease = client.lease.clone();
    let mut leases = BTreeMap::new();
    for status in lease.lease_leases(pb::LeaseLeasesRequest {}).await?.into_inner().leases {
        let request = pb::LeaseTimeToLiveRequest { id: status.id, keys: true };
        let info = lease.lease_time_to_live(request).await?.into_inner();
        let mut keys: Vec<Vec<u8>> = info.keys.iter().map(|key| key.to_vec()).collect();
        keys.sort_unstable();
        leases.insert(status.id, Lease { granted: info.granted_ttl, keys });
    }
    Ok(leases)
}

fn shown(kv: &mvccpb::KeyValue) -> String {
    let key = String::from_utf8_lossy(&kv.key);
    format!(
        "{key:?} created {} changed {} version {} lease {} with {} bytes",
        kv.create_revision,
        kv.mod_revision,
        kv.version,
        kv.lease,
        kv.value.len()
    )
}

fn describe(event: &mvccpb::Event) -> String {
    let kv = |kv: &Option<mvccpb::KeyValue>| kv.as_ref().map_or("nothing".to_owned(), shown);
    format!("{} {} before: {}", event.r#type, kv(&event.kv), kv(&event.prev_kv))
}

impl State {
    /// Whether these are the same keys with the same values.
    pub(crate) fn has(&self, kvs: &[mvccpb::KeyValue]) -> bool {
        self.kvs == kvs
    }
}
