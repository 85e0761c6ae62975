//! Tail: records in order, from a position to the end, and then as they come.
//!
//! The end is what the stream's leader says when the read begins. An ordered consumer delivers from there on; should it
//! skip or fail, the reading ends with `ReadFailed`, and whoever follows asks again.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::push::{OrderedConfig, OrderedError};
use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use vetch_fence::{ANCHOR, News, Page};
use vetch_journal::Position;

use crate::log::Mouth;

/// A page is told when it has this many records or bytes, or when nothing follows at once.
const PAGE_RECORDS: usize = 256;
const PAGE_BYTES: usize = 4 << 20;

pub(crate) struct Tail {
    pub(crate) client: Client,
    pub(crate) stream: Stream<()>,
    pub(crate) mouth: Mouth,
    pub(crate) after: Position,
    pub(crate) timeout: Duration,
}

impl Tail {
    /// Reads until it is aborted or something fails.
    pub(crate) async fn run(self) {
        if let Err(why) = self.follow().await {
            self.mouth.tell(News::ReadFailed { why }).await;
        }
    }

    async fn follow(&self) -> Result<(), String> {
        let info = tokio::time::timeout(self.timeout, self.stream.get_info()).await;
        let state =
            info.map_err(|_| "the stream's leader did not answer")?.map_err(|error| error.to_string())?.state;
        let (first, end) = (Position(state.first_sequence.max(1)), Position(state.last_sequence));
        let mut next = self.after.0.max(first.0 - 1) + 1;
        if next > end.0 {
            self.page(Vec::new(), first, Some(end)).await;
        }
        let config = OrderedConfig {
            deliver_subject: self.client.new_inbox(),
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: next },
            ..OrderedConfig::default()
        };
        let made = tokio::time::timeout(self.timeout, self.stream.create_consumer(config)).await;
        let consumer = made.map_err(|_| "no consumer in time")?.map_err(|error| error.to_string())?;
        let mut messages = consumer.messages().await.map_err(|error| error.to_string())?;
        // Whoever asks believes the first page only if it holds what he has read last: it is not told in pieces.
        let least = end.0.saturating_sub(next - 1).min(ANCHOR);
        let mut records = Vec::new();
        while (records.len() as u64) < least
            && let Some(message) = messages.next().await
        {
            records.push(record(message, &mut next)?);
        }
        if !records.is_empty() {
            let at_end = records.iter().any(|(at, _)| *at == end);
            self.page(records, first, at_end.then_some(end)).await;
        }
        while let Some(message) = messages.next().await {
            let mut records = vec![record(message, &mut next)?];
            // Whatever else is there already. A stream that failed must not be asked again, so a failure ends the page.
            let mut failed = None;
            while records.len() < PAGE_RECORDS
                && let Some(Some(message)) = messages.next().now_or_never()
            {
                match record(message, &mut next) {
                    Ok(record) => records.push(record),
                    Err(why) => {
                        failed = Some(why);
                        break;
                    }
                }
            }
            let at_end = records.iter().any(|(at, _)| *at == end);
            self.pages(records, first, at_end.then_some(end)).await;
            if let Some(why) = failed {
                return Err(why);
            }
        }
        Err("the consumer ended".into())
    }

    /// Tells records in pages; the last of them says where the log ended when the read began.
    async fn pages(&self, records: Vec<(Position, Bytes)>, first: Position, end: Option<Position>) {
        let (mut page, mut bytes) = (Vec::new(), 0);
        for (at, record) in records {
            bytes += record.len();
            page.push((at, record));
            if bytes >= PAGE_BYTES {
                self.page(std::mem::take(&mut page), first, None).await;
                bytes = 0;
            }
        }
        if !page.is_empty() || end.is_some() {
            self.page(page, first, end).await;
        }
    }

    async fn page(&self, records: Vec<(Position, Bytes)>, first: Position, end: Option<Position>) {
        self.mouth.tell(News::Records(Page { records, first, end })).await;
    }
}

/// The record of a message, which has to be the next.
fn record(message: Result<Message, OrderedError>, next: &mut u64) -> Result<(Position, Bytes), String> {
    let message = message.map_err(|error| error.to_string())?;
    let sequence = message.info().map_err(|error| error.to_string())?.stream_sequence;
    if sequence != *next {
        return Err(format!("{sequence} was delivered in place of {next}"));
    }
    *next += 1;
    Ok((Position(sequence), message.message.payload))
}
