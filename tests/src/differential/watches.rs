//! One side's watch streams: what was sent on them, in a form that does not depend on timing.
//!
//! How events are grouped into responses differs from run to run, so a watcher's output is its
//! sequence of events. Two rules of grouping are checked here on each side by itself: a revision is
//! never split over responses unless they are marked as fragments, and a response never claims a
//! revision below its own events'.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use vetch_api::pb;
use vetch_api::pb::watch_request::RequestUnion;

use super::deviations::{forget_the_overtaken, only_last_changes};
use super::mask;
use crate::client::Client;

pub(super) struct Stream {
    requests: mpsc::Sender<pb::WatchRequest>,
    received: Arc<Received>,
}

#[derive(Default)]
struct Received {
    inbox: Mutex<Inbox>,
    news: Notify,
}

#[derive(Default)]
struct Inbox {
    created: Vec<pb::WatchResponse>,
    /// What had been compacted when the watcher being created was asked for, and when each of the
    /// others was.
    compacted: i64,
    born: BTreeMap<i64, i64>,
    /// Everything but creations and progress, in order of arrival.
    rest: Vec<Sent>,
    /// The newest revision a progress answer vouched for.
    progress: i64,
    /// Watchers that were told they are canceled.
    ended: BTreeSet<i64>,
    /// Those of them that compaction overtook and whose cancellation has not been acknowledged by
    /// us yet.
    overtaken: Vec<i64>,
    end: Option<String>,
}

/// A response, and what had been compacted when its watcher was created.
#[derive(Clone)]
struct Sent {
    response: pb::WatchResponse,
    born: i64,
}

impl Stream {
    /// The stream begins in the background, because a server need not answer before the first
    /// request on it.
    pub(super) fn open(client: &Client) -> Stream {
        let (requests, outgoing) = mpsc::channel(16);
        let received = Arc::new(Received::default());
        let mut watch = client.watch.clone();
        let sink = received.clone();
        tokio::spawn(async move {
            let mut responses = match watch.watch(ReceiverStream::new(outgoing)).await {
                Ok(responses) => responses.into_inner(),
                Err(status) => return sink.with(|inbox| inbox.take(Err(status))),
            };
            loop {
                let message = responses.message().await;
                let over = !matches!(message, Ok(Some(_)));
                sink.with(|inbox| inbox.take(message));
                sink.news.notify_one();
                if over {
                    return;
                }
            }
        });
        Stream { requests, received }
    }

    async fn send(&self, union: RequestUnion) -> Result<()> {
        let request = pb::WatchRequest { request_union: Some(union) };
        self.requests.send(request).await.context("the watch stream is closed")
    }

    /// Sends the creation and waits for its answer. `compacted` is the last compaction before.
    pub(super) async fn create(
        &self,
        request: pb::WatchCreateRequest,
        compacted: i64,
    ) -> Result<pb::WatchResponse> {
        let before = self.received.with(|inbox| {
            inbox.compacted = compacted;
            inbox.created.len()
        });
        self.send(RequestUnion::CreateRequest(request)).await?;
        self.received.wait("a watcher's creation", |inbox| inbox.created.get(before).cloned()).await
    }

    /// Sends the cancellation; a watcher that exists is waited for, one that does not gets no
    /// answer.
    pub(super) async fn cancel(&self, watch_id: i64, exists: bool) -> Result<()> {
        self.send(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id })).await?;
        if exists {
            let canceled = |inbox: &mut Inbox| {
                let sent = || inbox.rest.iter().map(|sent| &sent.response).rev();
                sent().find(|r| r.canceled && r.watch_id == watch_id).cloned()
            };
            self.received.wait("a watcher's cancellation", canceled).await?;
        }
        Ok(())
    }

    /// Returns when the server vouches for everything up to `revision`. It answers only once all
    /// watchers have caught up, and drops the question otherwise, so it is asked again and again.
    pub(super) async fn settle(&self, revision: i64) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            // etcd answers for progress again only after the client has let go of a watcher that
            // compaction ended, which etcd's own client does at once.
            for watch_id in self.received.with(|inbox| std::mem::take(&mut inbox.overtaken)) {
                self.send(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id })).await?;
            }
            self.send(RequestUnion::ProgressRequest(pb::WatchProgressRequest {})).await?;
            let soon = Instant::now() + Duration::from_millis(10);
            while timeout_at(soon, self.received.news.notified()).await.is_ok() {
                if self.received.with(|inbox| inbox.progress) >= revision {
                    return Ok(());
                }
            }
            if let Some(end) = self.received.with(|inbox| inbox.end.clone()) {
                bail!("the watch stream ended: {end}");
            }
            if Instant::now() > deadline {
                let progress = self.received.with(|inbox| inbox.progress);
                bail!("no progress up to revision {revision} in 20 seconds, only to {progress}");
            }
        }
    }

    /// Takes what has come so far: per watcher its events and its end.
    pub(super) fn take(&self, leases: &dyn Fn(i64) -> i64, compacted: i64) -> BTreeMap<i64, Vec<String>> {
        let sent = self.received.with(|inbox| std::mem::take(&mut inbox.rest));
        lines(&sent, leases, compacted)
    }

    /// The same without taking it away.
    pub(super) fn look(&self, leases: &dyn Fn(i64) -> i64, compacted: i64) -> BTreeMap<i64, Vec<String>> {
        let sent = self.received.with(|inbox| inbox.rest.clone());
        lines(&sent, leases, compacted)
    }
}

impl Received {
    fn with<T>(&self, work: impl FnOnce(&mut Inbox) -> T) -> T {
        work(&mut self.inbox.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn wait<T>(&self, what: &str, mut look: impl FnMut(&mut Inbox) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(found) = self.with(&mut look) {
                return Ok(found);
            }
            if let Some(end) = self.with(|inbox| inbox.end.clone()) {
                bail!("the watch stream ended while waiting for {what}: {end}");
            }
            if timeout_at(deadline, self.news.notified()).await.is_err() {
                bail!("waited 10 seconds for {what}");
            }
        }
    }
}

impl Inbox {
    fn take(&mut self, message: Result<Option<pb::WatchResponse>, tonic::Status>) {
        match message {
            Ok(Some(response)) if response.created => {
                self.ended.remove(&response.watch_id);
                self.born.insert(response.watch_id, self.compacted);
                self.created.push(response);
            }
            // Whether cancelling an ended watcher is answered once more is not compared.
            Ok(Some(response)) if response.canceled && self.ended.contains(&response.watch_id) => {}
            Ok(Some(response)) if response.events.is_empty() && !response.canceled => {
                // Progress for one watcher (progress_notify) says nothing about the others on the
                // stream.
                if response.watch_id == -1 {
                    self.progress = response.header.map_or(0, |header| header.revision);
                }
            }
            Ok(Some(response)) => {
                if response.canceled {
                    self.ended.insert(response.watch_id);
                }
                if response.compact_revision != 0 {
                    self.overtaken.push(response.watch_id);
                }
                let born = self.born.get(&response.watch_id).copied().unwrap_or(0);
                self.rest.push(Sent { response, born });
            }
            Ok(None) => self.end = Some("end of stream".into()),
            Err(status) => self.end = Some(format!("{:?} {:?}", status.code(), status.message())),
        }
    }
}

fn lines(sent: &[Sent], leases: &dyn Fn(i64) -> i64, compacted: i64) -> BTreeMap<i64, Vec<String>> {
    let mut watchers: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    let mut last: BTreeMap<i64, (i64, bool)> = BTreeMap::new();
    for Sent { response, born } in sent {
        let lines = watchers.entry(response.watch_id).or_default();
        if response.canceled {
            lines.push(format!(
                "canceled, reason {:?}, compact_revision {}, header revision {:?}",
                response.cancel_reason,
                response.compact_revision,
                response.header.as_ref().map(|header| header.revision)
            ));
        }
        let mut events = response.events.clone();
        only_last_changes(&mut events, compacted);
        forget_the_overtaken(&mut events, *born, compacted);
        for (index, event) in events.iter().enumerate() {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            let before = last.insert(response.watch_id, (revision, response.fragment));
            if index == 0 && before.is_some_and(|(old, fragment)| old == revision && !fragment) {
                lines.push(format!("BROKEN: revision {revision} is split over responses"));
            }
            if response.header.as_ref().is_none_or(|header| header.revision < revision) {
                lines.push(format!("BROKEN: header {:?} is below event {revision}", response.header));
            }
            let mut event = event.clone();
            for kv in event.kv.iter_mut().chain(&mut event.prev_kv) {
                mask::key_value(kv, leases);
            }
            lines.push(format!("{event:?}"));
        }
    }
    watchers
}
