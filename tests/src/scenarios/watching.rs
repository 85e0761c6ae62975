//! Watches: fragments, progress, compaction, and requests that make little sense.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use vetch_api::pb;
use vetch_api::pb::watch_request::RequestUnion;

use super::{Script, put, revision, text};
use crate::client::Client;

/// A watch stream, its requests and its responses.
pub(super) struct Watch {
    requests: mpsc::Sender<pb::WatchRequest>,
    responses: tonic::Streaming<pb::WatchResponse>,
}

impl Watch {
    pub(super) fn everything() -> pb::WatchCreateRequest {
        pb::WatchCreateRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() }
    }

    /// Opens a stream with one watcher and waits until that exists.
    pub(super) async fn open(client: &Client, create: pb::WatchCreateRequest) -> Result<Watch> {
        let mut watch = Watch::with(client, Some(RequestUnion::CreateRequest(create))).await?;
        let created = watch.next().await?.context("the stream ended")?;
        if !created.created || created.canceled {
            bail!("the watcher was not created: {created:?}");
        }
        Ok(watch)
    }

    async fn with(client: &Client, first: Option<RequestUnion>) -> Result<Watch> {
        let (requests, outgoing) = mpsc::channel(8);
        requests.send(pb::WatchRequest { request_union: first }).await?;
        let responses = client.watch.clone().watch(ReceiverStream::new(outgoing)).await?.into_inner();
        Ok(Watch { requests, responses })
    }

    async fn send(&self, union: RequestUnion) -> Result<()> {
        self.requests.send(pb::WatchRequest { request_union: Some(union) }).await?;
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<pb::WatchResponse>> {
        let message = tokio::time::timeout(Duration::from_secs(8), self.responses.message());
        Ok(message.await.context("nothing came for eight seconds")??)
    }

    /// Nothing for a while?
    async fn silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(500), self.responses.message()).await.is_err()
    }

    /// The next response, its events as lines.
    pub(super) async fn next_events(&mut self) -> Result<Vec<String>> {
        let response = self.next().await?.context("the stream ended")?;
        Ok(response.events.iter().map(show).collect())
    }
}

fn show(event: &vetch_api::mvccpb::Event) -> String {
    let kv = event.kv.clone().unwrap_or_default();
    let before = event.prev_kv.as_ref().map(|kv| text(&kv.value));
    let kind = if event.r#type == 0 { "put" } else { "delete" };
    format!("{kind} {} at {}, {} bytes, before {before:?}", text(&kv.key), kv.mod_revision, kv.value.len())
}

fn describe(response: &pb::WatchResponse) -> String {
    format!(
        "id {} created {} canceled {} reason {:?} compacted {} events {} {}",
        response.watch_id,
        response.created,
        response.canceled,
        response.cancel_reason,
        response.compact_revision,
        response.events.len(),
        revision(&response.header)
    )
}

/// How events are cut into messages is the server's choice; that a message stays small when asked
/// to, is not.
pub(super) fn fragments(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        let value = "x".repeat(900_000);
        for key in ["a", "b", "c", "d"] {
            put(&client, key, &value, 0).await?;
        }
        // One revision that is larger than a message may be: with previous values it is twice what
        // was sent.
        let op = |key: &str| pb::RequestOp {
            request: Some(pb::request_op::Request::RequestPut(pb::PutRequest {
                key: key.to_owned().into(),
                value: "y".repeat(300_000).into(),
                ..Default::default()
            })),
        };
        let success = ["a", "b", "c", "d"].map(op).to_vec();
        client.kv.clone().txn(pb::TxnRequest { success, ..Default::default() }).await?;
        for fragment in [true, false] {
            let create =
                pb::WatchCreateRequest { start_revision: 2, prev_kv: true, fragment, ..Watch::everything() };
            let mut watch = Watch::open(&client, create).await?;
            let (mut events, mut unfinished) = (0, false);
            while events < 8 || unfinished {
                let response = watch.next().await?.context("the stream ended")?;
                let size = response.encoded_len();
                if fragment && size > (3 << 19) + (1 << 19) && response.events.len() > 1 {
                    script.note(format!("a message of {size} bytes with {} events", response.events.len()));
                }
                if !fragment && response.fragment {
                    script.note("an unrequested fragment");
                }
                unfinished = response.fragment;
                events += response.events.len();
                for event in &response.events {
                    let kv = event.kv.clone().unwrap_or_default();
                    let before = event.prev_kv.as_ref().map(|kv| kv.value.len());
                    script.note(format!("{} at {} before {before:?}", text(&kv.key), kv.mod_revision));
                }
            }
        }
        Ok(())
    }
    .boxed()
}

pub(super) fn progress_notify(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        put(&client, "a", "1", 0).await?;
        let create = pb::WatchCreateRequest { key: "b".into(), progress_notify: true, ..Default::default() };
        let mut watch = Watch::open(&client, create).await?;
        let first = watch.next().await?.context("the stream ended")?;
        script.note(describe(&first));
        put(&client, "a", "2", 0).await?;
        // One notice may already have been on its way.
        watch.next().await?;
        let later = watch.next().await?.context("the stream ended")?;
        script.note(describe(&later));
        let create = pb::WatchCreateRequest { key: "b".into(), ..Default::default() };
        let mut without = Watch::open(&client, create).await?;
        script.note(format!("silent without the option: {}", without.silent().await));
        Ok(())
    }
    .boxed()
}

pub(super) fn progress_request(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        put(&client, "a", "1", 0).await?;
        let ask = || RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
        let mut watch = Watch::open(&client, Watch::everything()).await?;
        watch.send(ask()).await?;
        script.note(describe(&watch.next().await?.context("the stream ended")?));
        put(&client, "a", "2", 0).await?;
        watch.next().await?;
        watch.send(ask()).await?;
        script.note(describe(&watch.next().await?.context("the stream ended")?));

        let future = pb::WatchCreateRequest { start_revision: 10, ..Watch::everything() };
        let mut waiting = Watch::open(&client, future).await?;
        waiting.send(ask()).await?;
        script.note(format!("silent about the future: {}", waiting.silent().await));
        watch.send(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 0 })).await?;
        script.note(describe(&watch.next().await?.context("the stream ended")?));
        put(&client, "a", "3", 0).await?;
        watch.send(ask()).await?;
        let after = tokio::time::timeout(Duration::from_millis(500), watch.responses.message()).await;
        let after =
            after.ok().map(|message| message.map(|message| message.map(|response| describe(&response))));
        script.note(format!("without watchers: {after:?}"));
        Ok(())
    }
    .boxed()
}

pub(super) fn odd_requests(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        put(&client, "a", "1", 0).await?;
        let create = |create| RequestUnion::CreateRequest(create);
        let mut watch = Watch::with(&client, Some(create(Watch::everything()))).await?;
        script.note(describe(&watch.next().await?.context("the stream ended")?));
        // A request that asks for nothing.
        watch.requests.send(pb::WatchRequest { request_union: None }).await?;
        let key = |key: &str, end: &str| pb::WatchCreateRequest {
            key: key.to_owned().into(),
            range_end: end.to_owned().into(),
            ..Default::default()
        };
        for request in [
            key("", ""),
            key("", "b"),
            key("b", "a"),
            key("a", "a"),
            pb::WatchCreateRequest { watch_id: 7, ..key("a", "") },
            pb::WatchCreateRequest { watch_id: 7, ..key("a", "") },
            pb::WatchCreateRequest { watch_id: -5, ..key("a", "") },
            pb::WatchCreateRequest { start_revision: -3, ..key("a", "") },
            pb::WatchCreateRequest { filters: vec![9], ..key("a", "") },
            key("a", ""),
        ] {
            watch.send(create(request)).await?;
            script.note(describe(&watch.next().await?.context("the stream ended")?));
        }
        watch.send(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 1234 })).await?;
        watch.send(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 7 })).await?;
        script.note(describe(&watch.next().await?.context("the stream ended")?));
        drop(watch.requests);
        let end = tokio::time::timeout(Duration::from_secs(2), watch.responses.message()).await;
        let end = end.map(|end| end.map(|message| message.map(|response| describe(&response))));
        script.note(format!("after hanging up: {end:?}"));
        Ok(())
    }
    .boxed()
}

pub(super) fn overtaken(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        for value in 0..10 {
            put(&client, "a", &value.to_string(), 0).await?;
        }
        client
            .kv
            .clone()
            .delete_range(pb::DeleteRangeRequest { key: "a".into(), ..Default::default() })
            .await?;
        client.kv.clone().compact(pb::CompactionRequest { revision: 12, physical: true }).await?;
        for start_revision in [2, 11] {
            let create = pb::WatchCreateRequest { start_revision, prev_kv: true, ..Watch::everything() };
            let mut watch = Watch::with(&client, Some(RequestUnion::CreateRequest(create))).await?;
            script.note(describe(&watch.next().await?.context("the stream ended")?));
            script.note(describe(&watch.next().await?.context("the stream ended")?));
        }
        // The delete is exactly at the compacted revision and can still be watched, but what it
        // deleted is gone.
        let create = pb::WatchCreateRequest { start_revision: 12, prev_kv: true, ..Watch::everything() };
        let mut watch = Watch::open(&client, create).await?;
        put(&client, "a", "new", 0).await?;
        let mut events = 0;
        while events < 2 {
            let lines = watch.next_events().await?;
            events += lines.len();
            script.lines.extend(lines);
        }
        Ok(())
    }
    .boxed()
}
