//! Tail: records in order, from a position to the end, and then as they come.
//!
//! The end is what the stream's leader reports when the read begins. Up to there records are
//! requested one by one, many concurrently if they are small; later ones come from a feed. Whenever
//! the feed is silent for longer than a leader's heartbeat interval, or skipped a record, records
//! are requested from the stream's leader again: so reading needs a stream that has a leader, and
//! no consumer.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;
use vetch_cluster::{LogEvent, Page, VERIFIED_RECORDS};
use vetch_journal::Position;

use crate::events::LogEventSender;
use crate::feed::Feed;
use crate::page_size::{BYTES, PageSize, bytes_of};
use crate::source::{Source, Wanted};

/// A page is delivered when it has this many records or bytes, or when nothing follows immediately.
const PAGE_RECORDS: usize = 256;
const PAGE_BYTES: usize = 4 << 20;

/// More than this are left to a feed, if it comes.
const MANY: u64 = 512;
/// How long a feed may take to start when many records are wanted. Well below the second after
/// which a reader repeats its request.
const FEED_WAIT: Duration = Duration::from_millis(300);
/// For how long no read waits for a feed after one did not start in time.
const LATE_FEED_PENALTY: Duration = Duration::from_secs(5);
/// A feed is not silent for longer than this while there is a leader: an idle leader appends a
/// heartbeat every 200 ms.
const SILENCE: Duration = Duration::from_millis(250);
/// How often to poll while there is no feed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A requested read.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) after: Position,
    pub(crate) sender: LogEventSender,
}

pub(crate) struct Tail {
    source: Source,
    feed: Feed,
    /// Over which connection the feed comes.
    connection: u64,
    /// When a feed was waited for in vain. It is remembered from read to read.
    late: Option<Instant>,
    page_size: PageSize,
    partial: PartialPage,
}

/// Records that came and were not delivered yet, because those behind them did not come in time. A
/// repeated read goes on from them.
#[derive(Default)]
struct PartialPage {
    from: u64,
    records: Vec<(Position, Bytes)>,
}

impl PartialPage {
    /// How many are kept from this position on; others are given up, and what exceeds a page.
    fn begin(&mut self, from: u64, count: u64) -> u64 {
        if self.from != from {
            *self = PartialPage { from, records: Vec::new() };
        }
        self.records.truncate(count as usize);
        self.records.len() as u64
    }

    fn take(&mut self) -> Vec<(Position, Bytes)> {
        std::mem::take(&mut self.records)
    }
}

impl Tail {
    pub(crate) fn new(client: Client, stream: Stream<()>, timeout: Duration) -> Tail {
        let feed = Feed::new(client, stream.clone(), timeout);
        let source = Source { stream, timeout };
        Tail {
            source,
            feed,
            connection: 0,
            late: None,
            page_size: PageSize::new(),
            partial: PartialPage::default(),
        }
    }

    /// Serves the newest request, until all senders of requests are gone.
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
        let Asked { mut after, sender } = asked;
        if self.connection != sender.connection() {
            self.connection = sender.connection();
            self.feed.reset();
            self.late = None;
            // Another server may hold something else.
            self.partial = PartialPage::default();
        }
        loop {
            let (first, end) = match self.source.bounds().await {
                Ok(bounds) => bounds,
                Err(why) => {
                    sender.send(LogEvent::ReadFailed { why: why.to_string() }).await;
                    continue;
                }
            };
            let mut reading = Reading { sender: &sender, next: after.0.max(first.0 - 1) + 1, first, end };
            if reading.next > end.0 {
                reading.page(Vec::new(), Some(end)).await;
            }
            if self.catch_up(&mut reading).await {
                self.keep_up(&mut reading).await;
            }
            // What should follow is not there: the stream was trimmed beyond it, or another leader
            // has less.
            after = Position(reading.next - 1);
            tokio::time::sleep(SILENCE).await;
        }
    }

    /// Reads up to the end. Returns false if a record before it is missing.
    async fn catch_up(&mut self, reading: &mut Reading<'_>) -> bool {
        let with_feed = reading.left() > MANY;
        // A new request does not restart the creation of a feed: it might never be finished.
        if with_feed && !self.feed.at().is_none_or(|at| comes_soon(at, reading.next)) {
            self.feed.reset();
        }
        if reading.left() > 0 && !self.first_page(reading).await {
            return false;
        }
        while reading.left() > 0 {
            let mut records = Vec::new();
            if with_feed {
                records = self.fed(reading.next).await;
            }
            if records.is_empty() {
                records = self.request(reading.next, reading.left()).await;
            }
            if records.is_empty() {
                return false;
            }
            reading.deliver(records).await;
        }
        true
    }

    /// Reads the first page, all of it or nothing: the replica verifies that it holds the records
    /// read last. Large records may take longer than the replica waits, so those that have come are
    /// kept for the repeated read.
    async fn first_page(&mut self, reading: &mut Reading<'_>) -> bool {
        let (from, count) = (reading.next, reading.left().min(VERIFIED_RECORDS));
        let kept = self.partial.begin(from, count);
        self.page_size.update(&self.partial.records);
        let large = self.page_size.is_large();
        let wanted = Wanted { from: from + kept, count: count - kept, bytes: usize::MAX, large };
        if self.source.records(wanted, &mut self.partial.records).await.is_err() {
            return false;
        }
        let records = self.partial.take();
        self.page_size.update(&records);
        let any = !records.is_empty();
        reading.deliver(records).await;
        any
    }

    /// Requests up to `most` records from a position on.
    async fn request(&mut self, from: u64, most: u64) -> Vec<(Position, Bytes)> {
        let mut records = Vec::new();
        let count = self.page_size.records().min(most);
        let wanted = Wanted { from, count, bytes: BYTES, large: self.page_size.is_large() };
        // If the leader falls silent, the records it sent before are still good.
        let _ = self.source.records(wanted, &mut records).await;
        self.page_size.update(&records);
        records
    }

    /// Delivers records as they come, until one is missing.
    async fn keep_up(&mut self, reading: &mut Reading<'_>) {
        let mut heard = Instant::now();
        loop {
            let poll_at = self.poll_at(heard);
            let mut records = tokio::select! {
                // What the feed has was not missed.
                biased;
                (at, record) = self.feed.next(reading.next) => {
                    if !self.fill(reading, at).await {
                        return;
                    }
                    if at == reading.next { vec![(Position(at), record)] } else { Vec::new() }
                }
                () = tokio::time::sleep_until(poll_at) => {
                    // A feed that started meanwhile gets the full time to deliver.
                    if Instant::now() < self.poll_at(heard) {
                        continue;
                    }
                    let records = self.poll(reading.next).await;
                    if !records.is_empty() {
                        self.feed.missed();
                    }
                    records
                }
            };
            self.add_ready(reading.next, &mut records);
            // While polls find something there may be more.
            heard = Instant::now();
            reading.deliver(records).await;
        }
    }

    /// When to poll the leader, if no record arrives before.
    fn poll_at(&self, heard: Instant) -> Instant {
        match self.feed.since() {
            Some(since) => heard.max(since) + SILENCE,
            None => heard + POLL_INTERVAL,
        }
    }

    /// Polls for the record at this position and those behind it.
    async fn poll(&mut self, next: u64) -> Vec<(Position, Bytes)> {
        let mut records = self.request(next, 1).await;
        if !records.is_empty() {
            records.extend(self.request(next + 1, u64::MAX).await);
        }
        records
    }

    /// Delivers all records before a position. Returns false if one is missing.
    async fn fill(&mut self, reading: &mut Reading<'_>, until: u64) -> bool {
        while reading.next < until {
            let records = self.request(reading.next, until - reading.next).await;
            if records.is_empty() {
                return false;
            }
            reading.deliver(records).await;
        }
        true
    }

    /// Records from this position on that a feed sends in time.
    async fn fed(&mut self, next: u64) -> Vec<(Position, Bytes)> {
        // One that is ahead has its turn when its position is reached.
        if self.feed.at().is_some_and(|at| at > next) {
            return Vec::new();
        }
        let mut records = Vec::new();
        let wait = self.feed_wait();
        let first = async {
            loop {
                let (at, record) = self.feed.next(next).await;
                if at >= next {
                    return (at, record);
                }
            }
        };
        match tokio::time::timeout(wait, first).await {
            Ok((at, record)) => {
                self.late = None;
                if at == next {
                    records.push((Position(at), record));
                    self.add_ready(next, &mut records);
                }
            }
            Err(_) if wait > Duration::ZERO => {
                self.late = Some(Instant::now());
                self.feed.missed();
            }
            Err(_) => {}
        }
        self.page_size.update(&records);
        records
    }

    /// How long to wait for a feed. A late one is only polled, so that requested pages do not wait
    /// for it.
    fn feed_wait(&self) -> Duration {
        if self.late.is_some_and(|since| since.elapsed() < LATE_FEED_PENALTY) {
            Duration::ZERO
        } else {
            FEED_WAIT
        }
    }

    /// Adds the records that the feed has already, as far as they follow without a gap.
    fn add_ready(&mut self, next: u64, records: &mut Vec<(Position, Bytes)>) {
        let mut bytes = bytes_of(records);
        while records.len() < PAGE_RECORDS
            && bytes < PAGE_BYTES
            && let Some((at, record)) = self.feed.ready()
        {
            match at.cmp(&(next + records.len() as u64)) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => {
                    bytes += record.len();
                    records.push((Position(at), record));
                }
                // The gap is requested from the leader.
                std::cmp::Ordering::Greater => return,
            }
        }
    }
}

/// Whether a feed at one position comes to another before long.
fn comes_soon(at: u64, next: u64) -> bool {
    at <= next && next - at <= MANY
}

/// How far a read has come.
struct Reading<'m> {
    sender: &'m LogEventSender,
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

    /// Delivers the next records in pages; the page that reaches the end says so.
    async fn deliver(&mut self, records: Vec<(Position, Bytes)>) {
        let Some((last, _)) = records.last() else { return };
        self.next = last.0 + 1;
        let at_end = records.iter().any(|(at, _)| *at == self.end).then_some(self.end);
        let (mut page, mut bytes) = (Vec::new(), 0);
        for (at, record) in records {
            // The replica verifies that the first page holds the records read last, so it is not
            // delivered in pieces.
            if bytes >= PAGE_BYTES && page.len() as u64 >= VERIFIED_RECORDS {
                self.page(std::mem::take(&mut page), None).await;
                bytes = 0;
            }
            bytes += record.len();
            page.push((at, record));
        }
        self.page(page, at_end).await;
    }

    async fn page(&self, records: Vec<(Position, Bytes)>, end: Option<Position>) {
        self.sender.send(LogEvent::Records(Page { records, first: self.first, end })).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_page_is_kept_for_a_repeated_read() {
        let records = |range: std::ops::Range<u64>| range.map(|at| (Position(at), Bytes::new())).collect();
        let mut kept = PartialPage::default();
        assert_eq!(kept.begin(5, 8), 0);
        kept.records = records(5..9);
        assert_eq!(kept.begin(5, 8), 4);
        assert_eq!(kept.begin(5, 3), 3, "the log is shorter now");
        assert_eq!(kept.take(), records(5..8));
        assert_eq!(kept.begin(5, 8), 0, "they were delivered");
        kept.records = records(5..9);
        assert_eq!(kept.begin(6, 8), 0);
    }

    #[test]
    fn a_feed_is_kept_if_it_comes_to_what_is_asked_for_before_long() {
        assert!(comes_soon(7, 7));
        assert!(comes_soon(7, 7 + MANY));
        assert!(!comes_soon(7, 8 + MANY), "too much before it");
        assert!(!comes_soon(8, 7), "it has passed it");
    }
}
