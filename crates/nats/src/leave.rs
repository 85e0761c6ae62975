//! Leave: a server of NATS that has lost the others is left for another one.
//!
//! Such a server keeps its clients and answers their pings. If it led the stream, it even goes on answering questions about it, for half a
//! minute and more, while the others have long chosen another leader. What it cannot do is to take a record. So when no new
//! record was heard of for a while, which is longer than a cluster is ever without one in good times, the other servers are asked who
//! leads the stream. If one of them knows of a leader that this one does not know of, it is left. Otherwise nobody would
//! serve better, and a change of connections would only be in the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, jetstream};
use parking_lot::Mutex;
use vetch_journal::Position;

use crate::insist::insist;
use crate::options::Options;

/// An idle writer appends five records a second; without one, somebody claims to be it after two seconds.
const SILENCE: Duration = Duration::from_secs(3);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// How long a leader may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long another connection may take.
const CONNECT: Duration = Duration::from_secs(2);
/// The next server is drawn, and may be the same one.
const DRAWS: usize = 6;

/// When a new record was heard of last.
#[derive(Clone)]
pub(crate) struct Heard(Arc<Mutex<Last>>);

struct Last {
    position: Position,
    at: Instant,
}

impl Heard {
    pub(crate) fn nothing() -> Heard {
        Heard(Arc::new(Mutex::new(Last { position: Position(0), at: Instant::now() })))
    }

    /// There is a record at this position.
    pub(crate) fn of(&self, position: Position) {
        let mut last = self.0.lock();
        if position > last.position {
            *last = Last { position, at: Instant::now() };
        }
    }

    /// Another server has its time to tell of one.
    pub(crate) fn begin(&self) {
        self.0.lock().at = Instant::now();
    }

    fn is_silent(&self) -> bool {
        self.0.lock().at.elapsed() >= SILENCE
    }
}

/// Looks after the connection, until the runtime ends.
pub(crate) async fn leave_the_lost(client: Client, options: Options, heard: Heard) {
    loop {
        tokio::time::sleep(LOOK).await;
        // A connection that is lost is made again by itself.
        if heard.is_silent() && client.connection_state() == State::Connected {
            if is_led_elsewhere(&client, &options).await && heard.is_silent() {
                leave(&client).await;
            }
            heard.begin();
        }
    }
}

/// Whether another server knows of a leader that this one does not know of.
async fn is_led_elsewhere(client: &Client, options: &Options) -> bool {
    let here = leader(client, options).await;
    for url in &options.urls {
        let only = Options { urls: vec![url.clone()], ..options.clone() };
        let connecting = only.connect(&options.login, ConnectOptions::new());
        let Ok(Ok(other)) = tokio::time::timeout(CONNECT, connecting).await else { continue };
        if other.server_info().server_id == client.server_info().server_id {
            continue;
        }
        let there = leader(&other, options).await;
        if there.is_some() && there != here {
            return true;
        }
    }
    false
}

/// Who leads the stream, as it is told by way of this connection.
async fn leader(client: &Client, options: &Options) -> Option<String> {
    let stream = jetstream::new(client.clone()).get_stream_no_info(&options.stream).await.ok()?;
    let ask = || async { stream.get_info().await.map_err(|error| error.to_string()) };
    insist(ask, PATIENCE).await.ok()?.cluster?.leader
}

async fn leave(client: &Client) {
    let lost = client.server_info();
    tracing::warn!(
        server = lost.server_name,
        "this server of the journal has lost the others; going to another one"
    );
    for _ in 0..DRAWS {
        if client.force_reconnect().await.is_err() || is_elsewhere(client, &lost.server_id).await {
            return;
        }
    }
}

/// Whether a connection to another server is made in time.
async fn is_elsewhere(client: &Client, lost: &str) -> bool {
    let until = Instant::now() + CONNECT;
    // The old one is there for a moment after it was given up.
    tokio::time::sleep(LOOK).await;
    while Instant::now() < until {
        if client.connection_state() == State::Connected {
            return client.server_info().server_id != lost;
        }
        tokio::time::sleep(LOOK / 10).await;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_record_that_is_new_breaks_the_silence() {
        let heard = Heard::nothing();
        let long_ago = Instant::now().checked_sub(2 * SILENCE).expect("the machine is up for longer");
        let forget = || heard.0.lock().at = long_ago;
        assert!(!heard.is_silent());
        forget();
        assert!(heard.is_silent());
        heard.of(Position(7));
        assert!(!heard.is_silent());
        forget();
        heard.of(Position(7));
        heard.of(Position(3));
        assert!(heard.is_silent(), "what was read before says nothing");
        heard.begin();
        assert!(!heard.is_silent());
    }
}
