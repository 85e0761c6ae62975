//! Feed: records as the stream sends them by itself, by way of an ordered consumer.
//!
//! Fast, and not to be relied on: a consumer lives on one server of NATS and is made by all of them
//! together, so after a loss it may be silent, or not be made, for seconds after the stream takes
//! records again. Whoever uses a feed looks for himself when it is silent, and says what it missed;
//! then another one is made.

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

/// Between two consumers, when one failed: each is work for all servers of NATS.
const AGAIN: Duration = Duration::from_millis(500);
/// Times in a row that something was found before the feed told of it. Once may be a coincidence.
const MISSED: u32 = 2;

pub(crate) struct Feed {
    client: Client,
    stream: Stream<()>,
    /// How long a consumer may take to be made.
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

    /// Since when there is a consumer, which may be silent all the same.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// The position that a consumer comes to next, if there is one or one is being made.
    pub(crate) fn at(&self) -> Option<u64> {
        (self.messages.is_some() || self.making.is_some()).then_some(self.at)
    }

    /// The next record, of whatever position. Without a consumer one is made that begins at `from`.
    /// Nothing is lost if this is not waited for.
    pub(crate) async fn next(&mut self, from: u64) -> (u64, Bytes) {
        loop {
            if let Some(messages) = &mut self.messages {
                if let Some(told) = messages.next().await.and_then(told) {
                    self.missed = 0;
                    self.at = told.0 + 1;
                    return told;
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
        // What failed must not be asked again.
        let message = self.messages.as_mut()?.next().now_or_never()?;
        let told = message.and_then(told);
        match &told {
            Some((at, _)) => self.at = at + 1,
            None => self.failed(),
        }
        told
    }

    /// Something was found that the feed had not told of.
    pub(crate) fn missed(&mut self) {
        self.missed += 1;
        if self.missed >= MISSED && self.messages.is_some() {
            self.failed();
        }
    }

    /// Begins anew: over another connection, or somewhere else.
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
        // It is not to blame for what was found before it was there.
        self.missed = 0;
    }

    fn failed(&mut self) {
        self.messages = None;
        self.since = None;
        self.not_before = Instant::now() + AGAIN;
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

fn told(message: Result<Message, OrderedError>) -> Option<(u64, Bytes)> {
    let message = message.ok()?;
    let sequence = message.info().ok()?.stream_sequence;
    Some((sequence, message.message.payload))
}
