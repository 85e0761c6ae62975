//! Tail: records in order, from a position to the end, and then as they come.
//!
//! The end is what the stream's leader says when the read begins. Up to there records are asked for one by one, many at a
//! time; what comes later a feed sends. Whenever the feed is silent for longer than a writer is, or left something out,
//! the stream's leader is asked again: so it needs no consumer to hear of a record, only a stream that has a leader.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;
use vetch_fence::{ANCHOR, News, Page};
use vetch_journal::Position;

use crate::feed::Feed;
use crate::log::Mouth;
use crate::source::Source;

/// A page is told when it has this many records or bytes, or when nothing follows at once.
const PAGE_RECORDS: usize = 256;
const PAGE_BYTES: usize = 4 << 20;

/// Records of one page that were asked for by themselves.
const ASKED_FOR: u64 = 64;
const _: () = assert!(ANCHOR <= ASKED_FOR, "the first page is not told in pieces");
/// More than this are left to a feed, if it comes.
const MANY: u64 = 512;
/// How long a feed may take to come when many records are wanted.
const FEED_WAIT: Duration = Duration::from_secs(1);
/// A feed is not silent for longer than this while somebody writes: an idle writer says so every 200 ms.
const SILENCE: Duration = Duration::from_millis(250);
/// How often to look while there is no feed.
const LOOK: Duration = Duration::from_millis(50);

/// A read that was asked for.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) after: Position,
    pub(crate) mouth: Mouth,
}

pub(crate) struct Tail {
    source: Source,
    feed: Feed,
    /// Over which connection the feed comes.
    connection: u64,
}

impl Tail {
    pub(crate) fn new(client: Client, stream: Stream<()>, timeout: Duration) -> Tail {
        let feed = Feed::new(client, stream.clone(), timeout);
        Tail { source: Source { stream, timeout }, feed, connection: 0 }
    }

    /// Reads what was asked for last, until nobody can ask any more.
    pub(crate) async fn run(mut self, mut asked: watch::Receiver<Option<Asked>>) {
        loop {
            let now = asked.borrow_and_update().clone();
            let follow = async {
                match now {
                    Some(now) => self.follow(now).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = asked.changed() => if changed.is_err() { return },
                () = follow => {}
            }
        }
    }

    async fn follow(&mut self, asked: Asked) {
        let Asked { mut after, mouth } = asked;
        if self.connection != mouth.connection() {
            self.connection = mouth.connection();
            self.feed.reset();
        }
        loop {
            let (first, end) = match self.source.bounds().await {
                Ok(bounds) => bounds,
                Err(why) => {
                    mouth.tell(News::ReadFailed { why }).await;
                    continue;
                }
            };
            let mut reading = Reading { mouth: &mouth, next: after.0.max(first.0 - 1) + 1, first, end };
            if reading.next > end.0 {
                reading.page(Vec::new(), Some(end)).await;
            }
            if self.catch_up(&mut reading).await {
                self.keep_up(&mut reading).await;
            }
            // What should follow is not there: the stream was trimmed beyond it, or another leader has less.
            after = Position(reading.next - 1);
            tokio::time::sleep(SILENCE).await;
        }
    }

    /// Reads up to the end. Not if something is missing before it.
    async fn catch_up(&mut self, reading: &mut Reading<'_>) -> bool {
        let mut with_feed = false;
        if reading.left() > MANY {
            self.feed.reset();
            with_feed = true;
        }
        let mut begun = false;
        while reading.left() > 0 {
            let mut records = Vec::new();
            if begun && with_feed {
                records = self.fed(reading.next).await;
                with_feed = !records.is_empty();
            }
            if records.is_empty() {
                records = self.source.records(reading.next, reading.left().min(ASKED_FOR)).await;
            }
            if records.is_empty() {
                return false;
            }
            begun = true;
            reading.tell(records).await;
        }
        true
    }

    /// Tells of records as they come, until something is missing.
    async fn keep_up(&mut self, reading: &mut Reading<'_>) {
        let mut look_at = Instant::now() + self.silence();
        loop {
            let mut records = tokio::select! {
                (at, record) = self.feed.next(reading.next) => {
                    let mut records = Vec::new();
                    if at > reading.next {
                        records = self.source.records(reading.next, at - reading.next).await;
                        if (records.len() as u64) < at - reading.next {
                            return;
                        }
                    }
                    if at >= reading.next {
                        records.push((Position(at), record));
                    }
                    records
                }
                () = tokio::time::sleep_until(look_at) => {
                    let records = look(&self.source, reading.next).await;
                    if !records.is_empty() {
                        self.feed.missed();
                    }
                    records
                }
            };
            self.add_ready(reading.next, &mut records);
            // While looks find something there may be more.
            look_at = Instant::now() + self.silence();
            reading.tell(records).await;
        }
    }

    fn silence(&self) -> Duration {
        if self.feed.is_there() { SILENCE } else { LOOK }
    }

    /// Records from this position on that a feed sends in time.
    async fn fed(&mut self, next: u64) -> Vec<(Position, Bytes)> {
        let mut records = Vec::new();
        let first = async {
            loop {
                let (at, record) = self.feed.next(next).await;
                if at >= next {
                    return (at, record);
                }
            }
        };
        if let Ok((at, record)) = tokio::time::timeout(FEED_WAIT, first).await
            && at == next
        {
            records.push((Position(at), record));
            self.add_ready(next, &mut records);
        }
        records
    }

    /// Adds what the feed has already and what follows at once.
    fn add_ready(&mut self, next: u64, records: &mut Vec<(Position, Bytes)>) {
        while records.len() < PAGE_RECORDS
            && let Some((at, record)) = self.feed.ready()
        {
            match at.cmp(&(next + records.len() as u64)) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => records.push((Position(at), record)),
                // It will be missed, and asked for.
                std::cmp::Ordering::Greater => return,
            }
        }
    }
}

/// The record at this position and what lies behind it, if it is there.
async fn look(source: &Source, next: u64) -> Vec<(Position, Bytes)> {
    let mut records = source.records(next, 1).await;
    if !records.is_empty() {
        records.extend(source.records(next + 1, ASKED_FOR).await);
    }
    records
}

/// How far a read has come.
struct Reading<'m> {
    mouth: &'m Mouth,
    next: u64,
    first: Position,
    /// Where the log ended when the read began.
    end: Position,
}

impl Reading<'_> {
    /// Records between here and the end.
    fn left(&self) -> u64 {
        (self.end.0 + 1).saturating_sub(self.next)
    }

    /// Tells the next records in pages; the one that comes to the end says so.
    async fn tell(&mut self, records: Vec<(Position, Bytes)>) {
        let Some((last, _)) = records.last() else { return };
        self.next = last.0 + 1;
        let at_end = records.iter().any(|(at, _)| *at == self.end).then_some(self.end);
        let (mut page, mut bytes) = (Vec::new(), 0);
        for (at, record) in records {
            // Whoever asks believes the first page only if it holds what he has read last: that is not told in pieces.
            if bytes >= PAGE_BYTES && page.len() as u64 >= ANCHOR {
                self.page(std::mem::take(&mut page), None).await;
                bytes = 0;
            }
            bytes += record.len();
            page.push((at, record));
        }
        self.page(page, at_end).await;
    }

    async fn page(&self, records: Vec<(Position, Bytes)>, end: Option<Position>) {
        self.mouth.tell(News::Records(Page { records, first: self.first, end })).await;
    }
}
