//! The history as watches deliver it, checked against what was acknowledged to the writers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use vetch_api::pb;

use super::writers::{Diary, Outcome};
use crate::client::Client;

/// A change: its key, and its value or none for a delete.
type Change = (String, Option<String>);

/// Revisions with their changes.
pub(super) type Story = BTreeMap<i64, Vec<Change>>;

/// Someone who watches everything from a revision on, and comes back where they were if the
/// connection breaks.
pub(super) struct Listener {
    story: Arc<Mutex<Heard>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Heard {
    story: Story,
    /// What must not happen.
    wrong: Option<String>,
    /// Times that the past was gone when the listener came back.
    compacted: usize,
}

impl Listener {
    pub(super) fn start(endpoint: &str, from: i64) -> Listener {
        let story = Arc::new(Mutex::new(Heard::default()));
        let task = tokio::spawn(listen(endpoint.to_owned(), from, Arc::clone(&story)));
        Listener { story, task }
    }

    /// The revision up to which it got events: nothing before it is needed from the server.
    pub(super) fn ear(&self) -> impl Fn() -> i64 + Send + 'static {
        let story = Arc::clone(&self.story);
        move || story.lock().story.keys().next_back().copied().unwrap_or(0)
    }

    /// Waits until everything up to `revision` was heard.
    pub(super) async fn reaches(&self, revision: i64) -> Result<()> {
        for _ in 0..1500 {
            if self.ear()() >= revision {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let heard = self.story.lock();
        bail!("a watch got events up to {:?} only, of {revision}", heard.story.keys().next_back())
    }

    /// The story, and how often the past was gone.
    pub(super) fn stop(self) -> Result<(Story, usize)> {
        self.task.abort();
        let heard = std::mem::take(&mut *self.story.lock());
        match heard.wrong {
            Some(wrong) => bail!(wrong),
            None => Ok((heard.story, heard.compacted)),
        }
    }
}

async fn listen(endpoint: String, mut from: i64, heard: Arc<Mutex<Heard>>) {
    loop {
        let connecting = tokio::time::timeout(Duration::from_secs(1), Client::connect(&endpoint)).await;
        if let Ok(Ok(client)) = connecting {
            // However it ends, it is tried again.
            let _ = hear(&client, &mut from, &heard).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn hear(client: &Client, from: &mut i64, heard: &Mutex<Heard>) -> Result<()> {
    let everything = || "\0".to_owned().into();
    let create = pb::WatchCreateRequest {
        key: everything(),
        range_end: everything(),
        start_revision: *from,
        ..Default::default()
    };
    let request =
        pb::WatchRequest { request_union: Some(pb::watch_request::RequestUnion::CreateRequest(create)) };
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut stream = client.watch.clone().watch(requests).await?.into_inner();
    while let Some(answer) = stream.message().await? {
        let mut heard = heard.lock();
        if answer.compact_revision > 0 {
            heard.compacted += 1;
            *from = answer.compact_revision;
            return Ok(());
        }
        for event in answer.events {
            let kind = event.r#type();
            let kv = event.kv.context("an event without a key")?;
            if kv.mod_revision < *from {
                heard.wrong = Some(format!("revision {} was sent a second time", kv.mod_revision));
            }
            let is_put = kind == vetch_api::mvccpb::event::EventType::Put;
            let value = is_put.then(|| String::from_utf8_lossy(&kv.value).into_owned());
            let key = String::from_utf8_lossy(&kv.key).into_owned();
            heard.story.entry(kv.mod_revision).or_default().push((key, value));
        }
        if let Some(last) = heard.story.keys().next_back() {
            *from = (*from).max(last + 1);
        }
    }
    Ok(())
}

/// No revision is missing between the first and the last.
pub(super) fn must_be_dense(story: &Story) -> Result<()> {
    for (before, after) in story.keys().zip(story.keys().skip(1)) {
        ensure!(before + 1 == *after, "revision {} was never sent", before + 1);
    }
    Ok(())
}

/// What was sent at each revision of `part` is what `whole` has there.
pub(super) fn must_agree(whole: &Story, part: &Story, what: &str) -> Result<()> {
    for (revision, changes) in part {
        let expected =
            whole.get(revision).with_context(|| format!("{what}: revision {revision} is invented"))?;
        ensure!(expected == changes, "{what}: revision {revision}: {changes:?} instead of {expected:?}");
    }
    Ok(())
}

/// What was counted while the writers' diaries were held against the story.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) acknowledged: usize,
    pub(super) fenced: usize,
    pub(super) unknown: usize,
    /// Of the unknown ones: those that were done after all.
    pub(super) done_unheard: usize,
}

/// Every acknowledged request is in the story once, at its revision; every refused one is not;
/// every unknown one at most once; and every put in the story was requested.
pub(super) fn check_events(story: &Story, diaries: &[Diary]) -> Result<Tally> {
    let mut places: HashMap<&str, i64> = HashMap::new();
    for (&revision, changes) in story {
        for value in changes.iter().filter_map(|(_, value)| value.as_deref()) {
            let before = places.insert(value, revision);
            ensure!(before.is_none(), "{value} was written twice: at {before:?} and at {revision}");
        }
    }
    let mut tally = Tally::default();
    for attempt in diaries.iter().flat_map(|diary| &diary.attempts) {
        let puts: Vec<&str> = attempt.changes.iter().filter_map(|(_, value)| value.as_deref()).collect();
        let found: Vec<Option<i64>> = puts.iter().map(|value| places.remove(value)).collect();
        let place = found.first().copied().flatten();
        ensure!(found.iter().all(|one| *one == place), "half of {:?} is there: {found:?}", attempt.changes);
        match attempt.outcome {
            Outcome::Acknowledged(revision) => {
                tally.acknowledged += 1;
                ensure!(
                    place == Some(revision),
                    "acknowledged at {revision} and found at {place:?}: {puts:?}"
                );
                let changes = &story[&revision];
                let is_asked_for = changes.iter().all(|change| match &change.1 {
                    Some(_) => attempt.changes.contains(change),
                    None => attempt.changes.iter().any(|(key, value)| *key == change.0 && value.is_none()),
                });
                ensure!(is_asked_for, "revision {revision} holds {changes:?} for {:?}", attempt.changes);
            }
            Outcome::Fenced => {
                tally.fenced += 1;
                ensure!(place.is_none(), "refused, and there all the same: {puts:?} at {place:?}");
            }
            Outcome::Unknown => {
                tally.unknown += 1;
                tally.done_unheard += usize::from(place.is_some());
            }
        }
    }
    places.retain(|value, _| value.starts_with('w'));
    ensure!(places.is_empty(), "values that no client wrote: {places:?}");
    Ok(tally)
}
