//! Watchers: one of everything that never misses a revision, and many that come, go, filter and
//! look into the past.
//!
//! A watcher that loses its connection resumes behind the last event or progress that it got. At
//! the end each goes on until it got the last revision, by an event or by progress: that all of
//! them get there is part of the trial.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tonic::{Code, Status};
use vetch_api::pb;
use vetch_api::pb::watch_request::RequestUnion;
use vetch_check::{Ending, WatchMessage, Watched};
use vetch_model::{Event, Keys, Watch};

use super::clients::{Place, connect};
use super::shared::Shared;
use super::traffic::some_keys;
use super::translate;
use crate::client::Client;
use vetch_testkit::random::Rng;

/// One watch of a stream, as it is being recorded.
struct Cursor {
    watched: Watched,
    /// Fragments of a response whose last part is still to come.
    joined: Vec<Event>,
    created: bool,
    /// The client wants it to end.
    cancelling: bool,
    ended: bool,
    /// Everything up to here has arrived.
    seen_upto: i64,
}

impl Cursor {
    fn new(client: u32, called: u64, request: Watch) -> Cursor {
        let seen_upto = request.start_revision - 1;
        let watched = Watched { called, ..Watched::new(client, request) };
        Cursor { watched, joined: Vec::new(), created: false, cancelling: false, ended: false, seen_upto }
    }

    /// The watch that goes on where this one ends.
    fn resumed(&self) -> Watch {
        let mut request = self.watched.request.clone();
        if let Ending::Compacted { compact_revision } = self.watched.ending {
            request.start_revision = compact_revision;
        } else if self.seen_upto > 0 {
            request.start_revision = self.seen_upto + 1;
        }
        request
    }

    fn receive(&mut self, response: &pb::WatchResponse, revision: i64, at: u64) -> Result<(), String> {
        if self.ended {
            // A wish to cancel that crossed the server's own cancellation is confirmed too.
            if response.canceled && std::mem::replace(&mut self.cancelling, false) {
                return Ok(());
            }
            return Err(format!("a watch got something after its end: {response:?}"));
        }
        if response.created {
            if std::mem::replace(&mut self.created, true) {
                return Err("a watch was created twice".to_owned());
            }
            self.watched.messages.push(WatchMessage::Created { revision, at });
            // A watch from now on has got nothing, but misses nothing either.
            if self.watched.request.start_revision == 0 {
                self.seen_upto = revision;
            }
        }
        if !self.created {
            return Err(format!("a watch got something before its creation: {response:?}"));
        }
        for event in &response.events {
            self.joined.push(translate::event(event).map_err(|error| error.to_string())?);
        }
        if let (Some(last), false) = (self.joined.last(), response.fragment) {
            self.seen_upto = self.seen_upto.max(last.kv.mod_revision);
            let events = std::mem::take(&mut self.joined);
            self.watched.messages.push(WatchMessage::Events { revision, events, at });
        } else if response.events.is_empty() && !response.created && !response.canceled {
            self.seen_upto = self.seen_upto.max(revision);
            self.watched.messages.push(WatchMessage::Progress { revision, at });
        }
        if response.canceled {
            self.ended = true;
            self.watched.ending = if response.compact_revision != 0 {
                Ending::Compacted { compact_revision: response.compact_revision }
            } else if self.cancelling {
                Ending::Cancelled { reason: response.cancel_reason.clone() }
            } else {
                Ending::Dropped { reason: response.cancel_reason.clone() }
            };
        }
        Ok(())
    }
}

/// One open stream with its watches, by their ids.
struct Stream<'a> {
    shared: &'a Shared,
    requests: mpsc::Sender<pb::WatchRequest>,
    responses: tonic::Streaming<pb::WatchResponse>,
    cursors: BTreeMap<i64, Cursor>,
}

/// How long to wait for a message before looking at the clock again.
const TICK: Duration = Duration::from_millis(100);

impl<'a> Stream<'a> {
    async fn open(
        shared: &'a Shared,
        client: &Client,
        id: u32,
        watches: &[Watch],
    ) -> Result<Stream<'a>, Status> {
        let (requests, outgoing) = mpsc::channel(16);
        let mut cursors = BTreeMap::new();
        for (watch_id, watch) in (1..).zip(watches) {
            // A server of a cluster begins a watch where it is, which may be behind the others.
            let called = if shared.in_cluster() { 0 } else { shared.now() };
            let create = RequestUnion::CreateRequest(translate::watch(watch, watch_id));
            send(&requests, create).await?;
            cursors.insert(watch_id, Cursor::new(id, called, watch.clone()));
        }
        let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
        let responses = client.watch.clone().watch(outgoing).await?.into_inner();
        Ok(Stream { shared, requests, responses, cursors })
    }

    /// Waits a tick for the next message and writes it down.
    async fn next(&mut self) -> Result<(), Status> {
        let response = match tokio::time::timeout(TICK, self.responses.message()).await {
            Err(_) => return Ok(()),
            Ok(message) => message?.ok_or_else(|| Status::new(Code::Ok, "the stream ended"))?,
        };
        let at = self.shared.now();
        let revision = self.shared.saw_header(response.header.as_ref());
        // Progress of the whole stream has an id of its own, and holds for each of its watches.
        let whole_stream = response.watch_id == -1 && !response.canceled;
        for (id, cursor) in &mut self.cursors {
            if (*id == response.watch_id || whole_stream && !cursor.ended)
                && let Err(wrong) = cursor.receive(&response, revision, at)
            {
                self.shared.broke(wrong);
            }
        }
        Ok(())
    }

    async fn ask_progress(&self) -> Result<(), Status> {
        send(&self.requests, RequestUnion::ProgressRequest(pb::WatchProgressRequest {})).await
    }

    /// Takes back every watch that lives and is `chosen`.
    async fn cancel(&mut self, chosen: impl Fn(&Watch) -> bool) -> Result<(), Status> {
        for (watch_id, cursor) in &mut self.cursors {
            if !cursor.ended && !cursor.cancelling && chosen(&cursor.watched.request) {
                cursor.cancelling = true;
                let cancel = pb::WatchCancelRequest { watch_id: *watch_id };
                send(&self.requests, RequestUnion::CancelRequest(cancel)).await?;
            }
        }
        Ok(())
    }

    /// Whether every watch has got the newest revision.
    fn caught_up(&self) -> bool {
        let last = self.shared.last_to_watch();
        self.cursors.values().all(|cursor| cursor.ended || cursor.seen_upto >= last)
    }

    /// Writes down how everything ended, and answers what is needed to go on, with each watch's
    /// place in the history.
    fn close(self) -> Vec<(Watch, usize)> {
        let mut resumed = Vec::new();
        for cursor in self.cursors.into_values() {
            let watch = cursor.resumed();
            let wanted = !matches!(cursor.watched.ending, Ending::Cancelled { .. });
            let place = self.shared.keep_watch(cursor.watched);
            if wanted {
                resumed.push((watch, place));
            }
        }
        resumed
    }
}

async fn send(requests: &mpsc::Sender<pb::WatchRequest>, union: RequestUnion) -> Result<(), Status> {
    let request = pb::WatchRequest { request_union: Some(union) };
    requests.send(request).await.map_err(|_| Status::unavailable("the stream takes no more requests"))
}

/// The watcher of everything, from the first revision on.
pub(super) async fn everything(shared: Arc<Shared>) {
    let id = shared.new_client();
    let mut place = Place::new(id);
    let mut watch = Watch {
        keys: Keys::all(),
        start_revision: 1,
        progress_notify: false,
        no_put: false,
        no_delete: false,
        prev_kv: true,
        fragment: false,
    };
    loop {
        let client = connect_to_watch(&shared, &mut place).await;
        let (resumed, caught_up) = follow(&shared, &client, id, vec![watch.clone()], None).await;
        if caught_up {
            return;
        }
        if let Some(resumed) = resumed.into_iter().next() {
            watch = resumed;
        }
    }
}

/// A watcher that changes its interests every second or so.
pub(super) async fn some(shared: Arc<Shared>, mut rng: Rng) {
    let id = shared.new_client();
    let mut place = Place::new(id);
    let mut resumed = Vec::new();
    loop {
        let client = connect_to_watch(&shared, &mut place).await;
        let watches = match resumed.is_empty() {
            true => (0..rng.between(1, 3)).map(|_| watch(&shared, &mut rng)).collect(),
            false => std::mem::take(&mut resumed),
        };
        let life = Duration::from_millis(rng.between(200, 2_500) as u64);
        let (left, caught_up) = follow(&shared, &client, id, watches, Some((life, &mut rng))).await;
        if caught_up {
            return;
        }
        resumed = left;
    }
}

/// Also after the recording has stopped, because watchers still have to catch up then.
async fn connect_to_watch(shared: &Shared, place: &mut Place) -> Client {
    loop {
        if let Some(client) = connect(shared, place).await {
            return client;
        }
        if let Ok(client) = shared.connect(place.next(shared)).await {
            return client;
        }
        tokio::time::sleep(TICK).await;
    }
}

fn watch(shared: &Shared, rng: &mut Rng) -> Watch {
    let revision = shared.revision();
    let start_revision = match rng.below(10) {
        0..=3 => 0,
        4..=7 => (revision - rng.between(0, 300)).max(1),
        _ => revision + rng.between(1, 100),
    };
    let keys = match rng.percent(20) {
        true => Keys::all(),
        false => some_keys(&shared.plan, rng),
    };
    let filter = rng.below(10);
    Watch {
        keys,
        start_revision,
        progress_notify: rng.percent(50),
        no_put: filter == 0,
        no_delete: filter == 1,
        prev_kv: rng.percent(60),
        fragment: rng.percent(30),
    }
}

/// Follows one stream until it breaks, its time is over, or everything has arrived. Answers the
/// watches to resume, and whether the end was reached.
async fn follow(
    shared: &Shared,
    client: &Client,
    id: u32,
    watches: Vec<Watch>,
    life: Option<(Duration, &mut Rng)>,
) -> (Vec<Watch>, bool) {
    let mut stream = match Stream::open(shared, client, id, &watches).await {
        Ok(stream) => stream,
        Err(status) => {
            shared.note(|notes| notes.watch_ends.push((status.code(), status.message().to_owned())));
            tokio::time::sleep(Duration::from_millis(20)).await;
            return (watches, false);
        }
    };
    let everything = life.is_none();
    let result = match life {
        None => read_on(&mut stream, None, 0).await,
        Some((life, rng)) => {
            let asks = *rng.pick(&[0, 1, 5]);
            let result = read_on(&mut stream, Some(life), asks).await;
            match result {
                Ok(()) if !stream.caught_up() && rng.percent(50) => cancel_all(&mut stream).await,
                other => other,
            }
        }
    };
    let caught_up = result.is_ok() && stream.caught_up() && shared.last_to_watch() < i64::MAX;
    let broken = result.is_err();
    if let Err(status) = result {
        shared.note(|notes| notes.watch_ends.push((status.code(), status.message().to_owned())));
    }
    let resumed = stream.close().into_iter().map(|(watch, _)| watch).collect();
    // A watcher that ended by its own choice is not resumed.
    (if broken || everything { resumed } else { Vec::new() }, caught_up)
}

/// Reads until the time is over (not before the recording stops, if it is already stopping) or all
/// arrives.
async fn read_on(stream: &mut Stream<'_>, life: Option<Duration>, asks: u32) -> Result<(), Status> {
    let shared = stream.shared;
    let begun = Instant::now();
    let mut asked = 0;
    loop {
        stream.next().await?;
        let ending = shared.last_to_watch() < i64::MAX;
        if life.is_none() {
            let seen_upto = stream.cursors.values().map(|cursor| cursor.seen_upto).min().unwrap_or(0);
            shared.saw_everything_to(seen_upto);
        }
        if stream.cursors.values().all(|cursor| cursor.ended) || ending && stream.caught_up() {
            return Ok(());
        }
        if !ending && life.is_some_and(|life| begun.elapsed() > life) {
            return Ok(());
        }
        let interval = if ending { Some(TICK) } else { life.and_then(|life| life.checked_div(asks)) };
        if interval.is_some_and(|interval| begun.elapsed() > interval * (asked + 1)) {
            asked += 1;
            // A watch that waits for the future gets no progress, and withholds that of its whole
            // stream.
            stream.cancel(|watch| ending && watch.start_revision > shared.last_to_watch()).await?;
            stream.ask_progress().await?;
        }
    }
}

/// Takes every watch back and waits until the server agrees. What arrives until then is recorded
/// too.
async fn cancel_all(stream: &mut Stream<'_>) -> Result<(), Status> {
    stream.cancel(|_| true).await?;
    let begun = Instant::now();
    while !stream.cursors.values().all(|cursor| cursor.ended) {
        if begun.elapsed() > Duration::from_secs(5) {
            return Err(Status::deadline_exceeded("a cancelled watch was never confirmed"));
        }
        stream.next().await?;
    }
    Ok(())
}

/// A fresh watcher of everything from `start_revision` on, which must get the same events as the
/// first one. Answers its place in the history.
pub(super) async fn again(shared: &Shared, client: &Client, start_revision: i64) -> Result<usize, Status> {
    let watch = Watch {
        keys: Keys::all(),
        start_revision,
        progress_notify: false,
        no_put: false,
        no_delete: false,
        prev_kv: true,
        fragment: true,
    };
    let mut stream = Stream::open(shared, client, shared.new_client(), &[watch]).await?;
    read_on(&mut stream, None, 0).await?;
    match stream.close().first() {
        Some((_, place)) => Ok(*place),
        None => Err(Status::aborted("the watch was cancelled")),
    }
}
