//! A whole connection in virtual time, with everything around it drawn from a string of bytes.
//!
//! A client that keeps to the rules opens calls, sends them in pieces, cancels them at any moment,
//! opens and closes windows and reads when it likes; services answer at once, later, in pieces or
//! never, and read bodies or do not; reads, writes, limits, padding and yields have any size; the
//! server may take its leave, and another client may take what both may hold. The client knows what
//! every answer has to be, byte by byte, so an answer that is cut short, mixed up or missing is
//! seen, and so is everything that is still held when the client has gone. It also knows what it
//! has cost without asking for anything: no client is sent away for less.
//!
//! The same bytes always do the same: a fuzzer finds new ones, and a seed stands for a string of
//! them.

mod choices;
mod client;
mod requests;
mod service;
mod setup;
mod wire;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

pub use choices::Choices;
use client::Client;
use service::Script;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use wire::Wire;

use crate::{Budget, Charge, Connection, Holdings, Limits};

/// What a run did, so that it can be seen that runs do something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub calls: usize,
    pub answered: usize,
    pub cancelled: usize,
    pub refused: usize,
    pub deferred: u64,
    /// Connections that the server left, and that were ended for what their clients cost.
    pub left: usize,
    pub sent_away: usize,
    /// Requests with too many headers, and answers that are giant.
    pub too_large: usize,
    pub giant: usize,
}

impl Summary {
    fn add(&mut self, other: Summary) {
        self.calls += other.calls;
        self.answered += other.answered;
        self.cancelled += other.cancelled;
        self.refused += other.refused;
        self.deferred += other.deferred;
        self.left += other.left;
        self.sent_away += other.sent_away;
        self.too_large += other.too_large;
        self.giant += other.giant;
    }
}

/// Runs what `bytes` say. Panics if the connection does anything wrong.
pub fn run(bytes: &[u8]) -> Summary {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O can be had anywhere");
    runtime.block_on(simulate(Choices::new(bytes)))
}

async fn simulate(mut choices: Choices) -> Summary {
    let limits = setup::limits(&mut choices);
    let connection_max = choices.one_of(&[128 << 20, 4 << 20, 1 << 20]);
    let budget = Budget::new(connection_max, choices.one_of(&[512 << 20, 2 << 20]));
    let script = Arc::new(Script::default());
    let peers = choices.one_of(&[1, 1, 2]);
    let mut peers: Vec<Peer> =
        (0..peers).map(|_| Peer::connect(&mut choices, limits, &script, &budget)).collect();
    for peer in &mut peers {
        peer.client.greet().await;
    }
    while !choices.is_empty() {
        let which = if peers.len() > 1 { choices.below(peers.len()) } else { 0 };
        peers[which].act(&mut choices, &script).await;
    }
    script.share.store(service::SHARE_MAX, SeqCst);
    peers.iter_mut().for_each(|peer| peer.charge.set(0));
    let mut summary = Summary::default();
    for peer in &mut peers {
        peer.client.finish(&script).await;
    }
    for peer in peers {
        summary.add(peer.end().await);
    }
    summary.deferred = budget.deferred();
    // What was abandoned ends with its task, which may need a turn.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(script.running.load(SeqCst), 0, "calls outlive their connection");
    assert_eq!(budget.held(), 0, "bytes are held for a client that is gone");
    summary
}

/// One connection, from both ends.
struct Peer {
    client: Client,
    serving: JoinHandle<std::io::Result<()>>,
    /// Has the connection take its leave.
    leave: Arc<Notify>,
    /// What is held for the client by others than the connection.
    charge: Charge,
}

impl Peer {
    fn connect(choices: &mut Choices, limits: Limits, script: &Arc<Script>, budget: &Arc<Budget>) -> Peer {
        let (wire, far_end) = Wire::new(choices);
        let holdings = Holdings::from(Arc::clone(budget));
        let charge = holdings.charge();
        let mut connection = Box::pin(Connection::new(wire, Arc::clone(script), limits, holdings));
        let leave = Arc::new(Notify::new());
        let left = Arc::clone(&leave);
        let serving = tokio::spawn(async move {
            let mut asked = pin!(left.notified());
            let mut has_left = false;
            poll_fn(move |cx| {
                if !has_left && asked.as_mut().poll(cx).is_ready() {
                    has_left = true;
                    connection.as_mut().graceful_shutdown();
                }
                connection.as_mut().poll(cx)
            })
            .await
        });
        Peer { client: Client::new(far_end, limits), serving, leave, charge }
    }

    /// Does one thing.
    async fn act(&mut self, choices: &mut Choices, script: &Script) {
        match choices.below(64) {
            0 | 1 => self.charge.set(choices.one_of(&[0, 300_000, 3_000_000])),
            2 if choices.below(8) == 7 => self.leave.notify_one(),
            _ => self.client.act(choices, script).await,
        }
    }

    async fn end(self) -> Summary {
        let summary = self.client.summary();
        self.client.close();
        let ended = self.serving.await.expect("a connection does not panic");
        self.client.check_end(ended);
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that a seed stands for.
    fn bytes(seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let len = 20 + next() % 600;
        (0..len).map(|_| (next() >> 32) as u8).collect()
    }

    #[test]
    fn seeds_pass_and_do_something() {
        let seeds = std::env::var("VETCH_SEEDS").map_or(1500, |seeds| seeds.parse().unwrap());
        let from = std::env::var("VETCH_FROM").map_or(1, |from| from.parse().unwrap());
        let mut sum = Summary::default();
        for seed in from..from + seeds {
            let bytes = bytes(seed);
            let Ok(summary) = std::panic::catch_unwind(|| run(&bytes)) else {
                panic!("seed {seed}: VETCH_FROM={seed} VETCH_SEEDS=1");
            };
            sum.add(summary);
        }
        eprintln!("{seeds} seeds: {sum:?}");
        let most = sum.calls / 20;
        assert!(sum.answered > most && sum.cancelled > most, "{sum:?}");
        let rare = [sum.deferred as usize, sum.refused, sum.left, sum.sent_away, sum.too_large, sum.giant];
        assert!(seeds < 1000 || !rare.contains(&0), "{sum:?}");
    }

    #[test]
    fn a_seed_always_does_the_same() {
        for seed in 1..20 {
            assert_eq!(run(&bytes(seed)), run(&bytes(seed)));
        }
    }
}
