//! Shutdown: the phases in which a server ends, and how it waits for its connections.

use tokio::sync::{mpsc, watch};

/// The phase of the server, which connections follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Serving,
    /// Take no new requests, finish the running ones.
    Draining,
    /// Close now.
    Closing,
}

/// Held by everything that serves a client: gives the phase, and lets the server wait for its end.
#[derive(Debug, Clone)]
pub(super) struct ShutdownToken {
    phase: watch::Receiver<Phase>,
    _alive: mpsc::Sender<()>,
}

impl ShutdownToken {
    /// Waits until the phase is `phase` or a later one.
    pub(super) async fn reached(&mut self, phase: Phase) {
        // An error means that the server is gone, which is later than every phase.
        let _ = self.phase.wait_for(|p| *p >= phase).await;
    }
}

/// The server's side: begins the phases.
#[derive(Debug)]
pub(super) struct Shutdown {
    phase: watch::Sender<Phase>,
    alive: mpsc::Receiver<()>,
}

impl Shutdown {
    pub(super) fn new() -> (Shutdown, ShutdownToken) {
        let (phase, phases) = watch::channel(Phase::Serving);
        let (alive_sender, alive) = mpsc::channel(1);
        (Shutdown { phase, alive }, ShutdownToken { phase: phases, _alive: alive_sender })
    }

    pub(super) fn begin(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Waits until every token is dropped.
    pub(super) async fn ended(&mut self) {
        self.alive.recv().await;
    }
}
