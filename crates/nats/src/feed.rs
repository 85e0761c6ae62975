//! Feed: records that the stream pushes, through an ordered consumer.
//!
//! Fast, and not to be relied on: a consumer lives on one server of NATS and is created by all of
//! them together, so after a failure it may be silent, or creating it may fail, for seconds after
//! the stream takes records again. The user of a feed therefore reads the stream directly when the
//! feed is silent, and reports what the feed missed; then another consumer is created.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::push::{Ordered, OrderedConfig, OrderedError};
use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Between two consumers, when one failed: creating one is work for all servers of NATS.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Records in a row that were read before the feed delivered them. One may be a coincidence.
const MISSED_MAX: u32 = 2;

pub(crate) struct Feed {
    client: Client,
    stream: Stream<()>,
    /// How long the creation of a consumer may take.
    timeout: Duration,
    messages: Option<Ordered>,
    making: Option<JoinHandle<Result<Ordered, async_nats::Error>>>,
    not_before: Instant,
    /// Since when there is a consumer.
    since: Option<Instant>,
    /// The position that it comes to next.
    at: u64,
    missed: u32,
}

impl Feed {
    pub(crate) fn new(client: Client, stream: Stream<()>, timeout: Duration) -> Feed {
        let not_before = Instant::now();
        Feed {
            client,
            stream,
            timeout,
            messages: None,
            making: None,
            not_before,
            since: None,
            at: 0,
            missed: 0,
        }
    }

    /// Since when there is a consumer. It may still be silent.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// The position that a consumer comes to next, if there is one or one is being made.
    pub(crate) fn at(&self) -> Option<u64> {
        (self.messages.is_some() || self.making.is_some()).then_some(self.at)
    }

    /// The next record, at any position. Without a consumer, creates one that begins at `from`.
    /// Cancel safe.
    pub(crate) async fn next(&mut self, from: u64) -> (u64, Bytes) {
        loop {
            if let Some(messages) = &mut self.messages {
                if let Some(record) = messages.next().await.and_then(to_record) {
                    self.missed = 0;
                    self.at = record.0 + 1;
                    return record;
                }
                self.failed();
            } else if let Some(making) = &mut self.making {
                let made = making.await;
                self.making = None;
                match made {
                    Ok(Ok(messages)) => self.made(messages),
                    _ => self.failed(),
                }
            } else {
                tokio::time::sleep_until(self.not_before).await;
                let made = make(self.client.clone(), self.stream.clone(), from);
                let timeout = self.timeout;
                self.at = from;
                self.making = Some(tokio::spawn(async move { tokio::time::timeout(timeout, made).await? }));
            }
        }
    }

    /// A further record that is here already.
    pub(crate) fn ready(&mut self) -> Option<(u64, Bytes)> {
        // A stream of messages that failed must not be polled again.
        let message = self.messages.as_mut()?.next().now_or_never()?;
        let record = message.and_then(to_record);
        match &record {
            Some((at, _)) => self.at = at + 1,
            None => self.failed(),
        }
        record
    }

    /// A record was read that the feed had not delivered.
    pub(crate) fn missed(&mut self) {
        self.missed += 1;
        if self.missed >= MISSED_MAX && self.messages.is_some() {
            self.failed();
        }
    }

    /// Drops the consumer: the next one uses another connection, or begins at another position.
    pub(crate) fn reset(&mut self) {
        self.messages = None;
        self.since = None;
        self.not_before = Instant::now();
        if let Some(making) = self.making.take() {
            making.abort();
        }
    }

    fn made(&mut self, messages: Ordered) {
        self.messages = Some(messages);
        self.since = Some(Instant::now());
        // Records that were read before the consumer existed do not count.
        self.missed = 0;
    }

    fn failed(&mut self) {
        self.messages = None;
        self.since = None;
        self.not_before = Instant::now() + RETRY_DELAY;
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.reset();
    }
}

async fn make(client: Client, stream: Stream<()>, from: u64) -> Result<Ordered, async_nats::Error> {
    let config = OrderedConfig {
        deliver_subject: client.new_inbox(),
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await?;
    Ok(consumer.messages().await?)
}

fn to_record(message: Result<Message, OrderedError>) -> Option<(u64, Bytes)> {
    let message = message.ok()?;
    let sequence = message.info().ok()?.stream_sequence;
    Some((sequence, message.message.payload))
}
