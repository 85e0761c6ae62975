//! A whole connection in virtual time, with everything around it drawn from a string of bytes.
//!
//! A client that keeps to the rules opens calls, sends them in pieces, cancels them at any moment,
//! opens and closes windows and reads when it likes; services answer at once, later, in pieces or
//! never; reads, writes, limits and yields have any size. The client knows what every answer has to
//! be, byte by byte, so an answer that is cut short, mixed up or missing is seen, and so is
//! everything that is still held when the client has gone.
//!
//! The same bytes always do the same: a fuzzer finds new ones, and a seed stands for a string of
//! them.

mod choices;
mod client;
mod service;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

pub use choices::Choices;
use client::Client;
use service::Script;
use wire::Wire;

use crate::{Budget, Connection, Limits};

/// What a run did, so that it can be seen that runs do something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub calls: usize,
    pub answered: usize,
    pub cancelled: usize,
    pub refused: usize,
    pub deferred: u64,
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
    let limits = limits(&mut choices);
    let connection_max = choices.one_of(&[128 << 20, 4 << 20, 1 << 20]);
    let budget = Budget::new(connection_max, choices.one_of(&[512 << 20, 2 << 20]));
    let script = Arc::new(Script::default());
    let (wire, far_end) = Wire::new(&mut choices);
    let connection = Connection::new(wire, Arc::clone(&script), limits, Arc::clone(&budget));
    let serving = tokio::spawn(connection);
    let mut client = Client::new(far_end, limits);
    while !choices.is_empty() {
        client.act(&mut choices, &script).await;
    }
    client.finish(&script).await;
    let mut summary = client.summary();
    summary.deferred = budget.deferred();
    drop(client);
    let ended = serving.await.expect("a connection does not panic");
    if let Err(error) = ended {
        let is_closed = error.kind() == std::io::ErrorKind::BrokenPipe;
        assert!(is_closed, "a client that keeps to the rules is sent away: {error}");
    }
    // What was abandoned ends with its task, which may need a turn.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(script.running.load(SeqCst), 0, "calls outlive their connection");
    assert_eq!(budget.held(), 0, "bytes are held for a client that is gone");
    summary
}

fn limits(choices: &mut Choices) -> Limits {
    Limits {
        streams: choices.one_of(&[100, 1, 2, 7, 10_000]),
        stream_window: 4 << 20,
        connection_window: 16 << 20,
        header_list: 64 << 10,
        send_buffer: choices.one_of(&[256 << 10, 1, 100, 20_000]),
        queued_answers: choices.one_of(&[16 << 20, 1, 50_000]),
        // The client may reset and ping as fast as it likes here: time stands still.
        overhead: u32::MAX,
        keepalive_interval: choices.one_of(&[None, Some(Duration::from_secs(3600))]),
        keepalive_timeout: Duration::from_secs(20),
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
            sum.calls += summary.calls;
            sum.answered += summary.answered;
            sum.cancelled += summary.cancelled;
            sum.refused += summary.refused;
            sum.deferred += summary.deferred;
        }
        eprintln!("{seeds} seeds: {sum:?}");
        let most = sum.calls / 20;
        assert!(sum.answered > most && sum.cancelled > most, "{sum:?}");
        assert!(seeds < 1000 || sum.deferred > 0, "{sum:?}");
    }

    /// Found by fuzzing. The requests of calls that waited took half of what the connection may
    /// hold, so none of these calls ever began.
    #[test]
    fn calls_do_not_wait_for_room_that_their_own_requests_take() {
        let summary = run(include_bytes!("../../testdata/waiting-requests"));
        assert!(summary.deferred > 0, "{summary:?}");
    }

    #[test]
    fn a_seed_always_does_the_same() {
        for seed in 1..20 {
            assert_eq!(run(&bytes(seed)), run(&bytes(seed)));
        }
    }
}
