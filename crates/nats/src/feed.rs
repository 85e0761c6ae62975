//! Feed: records as the stream sends them by itself, by way of an ordered consumer.
//!
//! Fast, and not to be relied on: a consumer lives on one server of NATS and is made by all of them together, so after a
//! loss it may be silent, or not be made, for seconds after the stream takes records again. Whoever uses a feed looks for
//! himself when it is silent, and says what it missed; then another one is made.

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
    making: Option<JoinHandle<Result<Ordered, String>>>,
    not_before: Instant,
    missed: u32,
}

impl Feed {
    pub(crate) fn new(client: Client, stream: Stream<()>, timeout: Duration) -> Feed {
        let not_before = Instant::now();
        Feed { client, stream, timeout, messages: None, making: None, not_before, missed: 0 }
    }

    /// Whether there is a consumer, which may be silent all the same.
    pub(crate) fn is_there(&self) -> bool {
        self.messages.is_some()
    }

    /// The next record, of whatever position. Without a consumer one is made that begins at `from`. Nothing is lost if
    /// this is not waited for.
    pub(crate) async fn next(&mut self, from: u64) -> (u64, Bytes) {
        loop {
            if let Some(messages) = &mut self.messages {
                if let Some(told) = messages.next().await.and_then(told) {
                    self.missed = 0;
                    return told;
                }
                self.failed();
            } else if let Some(making) = &mut self.making {
                let made = making.await;
                self.making = None;
                match made {
                    Ok(Ok(messages)) => self.messages = Some(messages),
                    _ => self.failed(),
                }
            } else {
                tokio::time::sleep_until(self.not_before).await;
                let made = make(self.client.clone(), self.stream.clone(), from);
                let timeout = self.timeout;
                self.making = Some(tokio::spawn(async move {
                    tokio::time::timeout(timeout, made).await.map_err(|_| "not made in time".to_string())?
                }));
            }
        }
    }

    /// A further record that is here already.
    pub(crate) fn ready(&mut self) -> Option<(u64, Bytes)> {
        // What failed must not be asked again.
        let message = self.messages.as_mut()?.next().now_or_never()?;
        let told = message.and_then(told);
        if told.is_none() {
            self.failed();
        }
        told
    }

    /// Something was found that the feed had not told of.
    pub(crate) fn missed(&mut self) {
        self.missed += 1;
        if self.missed >= MISSED && self.messages.is_some() {
            self.reset();
        }
    }

    /// Begins anew: over another connection, or somewhere else.
    pub(crate) fn reset(&mut self) {
        self.messages = None;
        self.missed = 0;
        self.not_before = Instant::now();
        if let Some(making) = self.making.take() {
            making.abort();
        }
    }

    fn failed(&mut self) {
        self.messages = None;
        self.not_before = Instant::now() + AGAIN;
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.reset();
    }
}

async fn make(client: Client, stream: Stream<()>, from: u64) -> Result<Ordered, String> {
    let config = OrderedConfig {
        deliver_subject: client.new_inbox(),
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(|error| error.to_string())?;
    consumer.messages().await.map_err(|error| error.to_string())
}

fn told(message: Result<Message, OrderedError>) -> Option<(u64, Bytes)> {
    let message = message.ok()?;
    let sequence = message.info().ok()?.stream_sequence;
    Some((sequence, message.message.payload))
}
