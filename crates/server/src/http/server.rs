//! Accepting connections and, in the end, letting them go.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use vetch_http2::border;

use super::arrival::Security;
use super::connection;
use super::listen::{Listener, Stream};
use super::newcomers::Newcomers;
use super::{Serves, Shared};

/// What a listener has for its clients.
#[derive(Debug)]
pub struct Offer {
    pub serves: Serves,
    pub security: Security,
}

/// What connections are told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Serving,
    /// Take no new requests, finish the running ones.
    Draining,
    /// Close now.
    Closing,
}

/// Held by everything that serves a client. Lets it hear the phase, and lets the server wait for
/// it.
#[derive(Debug, Clone)]
pub(super) struct Lifeline {
    phase: watch::Receiver<Phase>,
    _alive: mpsc::Sender<()>,
}

impl Lifeline {
    /// Waits until the phase is `phase` or a later one.
    pub(super) async fn reached(&mut self, phase: Phase) {
        // An error means that the server is gone, which is later than every phase.
        let _ = self.phase.wait_for(|p| *p >= phase).await;
    }
}

/// The running listeners and their connections.
#[derive(Debug)]
pub struct Server {
    phase: watch::Sender<Phase>,
    alive: mpsc::Receiver<()>,
    accepting: JoinSet<()>,
}

impl Server {
    /// Serves on every listener until stopped.
    pub fn start(shared: Arc<Shared>, listeners: Vec<(Listener, Offer)>) -> Server {
        let (phase, heard) = watch::channel(Phase::Serving);
        let (alive_sender, alive) = mpsc::channel(1);
        let lifeline = Lifeline { phase: heard, _alive: alive_sender };
        let mut accepting = JoinSet::new();
        let limit = connection_limit();
        let places = Places {
            connections: Arc::new(Semaphore::new(limit)),
            newcomers: Newcomers::new((limit / 4).clamp(1, NEWCOMERS)),
        };
        for (listener, offer) in listeners {
            announce(&listener, &offer);
            if let Some(tls) = offer.security.tls() {
                shared.metrics.tls.include(tls);
            }
            let (shared, places, lifeline) = (shared.clone(), places.clone(), lifeline.clone());
            accepting.spawn(accept(listener, Arc::new(offer), shared, places, lifeline));
        }
        Server { phase, alive, accepting }
    }

    /// Stops accepting and lets running requests finish, at most for `patience`. True when all are
    /// done.
    pub async fn drain(&mut self, patience: Duration) -> bool {
        self.phase.send_replace(Phase::Draining);
        while self.accepting.join_next().await.is_some() {}
        tokio::time::timeout(patience, self.alive.recv()).await.is_ok()
    }

    /// Closes what is left.
    pub async fn stop(mut self) {
        self.phase.send_replace(Phase::Closing);
        while self.accepting.join_next().await.is_some() {}
        self.alive.recv().await;
    }
}

fn announce(listener: &Listener, offer: &Offer) {
    let (traffic, address) = (offer.serves.traffic(), listener.address());
    match offer.security {
        Security::Plain => tracing::info!(traffic, address, "serving client traffic insecurely"),
        Security::Tls(_) => tracing::info!(traffic, address, "serving client traffic securely"),
        Security::Either(_) => {
            tracing::info!(
                traffic,
                address,
                "serving client traffic securely, and insecurely if a client prefers"
            );
        }
    }
}

/// Out of file descriptors is the one failure of accept that lasts; trying on in a loop would only
/// burn CPU.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Descriptors kept back from connections, for the files of the store; as many as etcd keeps.
const DESCRIPTORS_KEPT: usize = 150;

/// Connections that may be open at once: one more waits in the kernel's queue until another ends.
fn connection_limit() -> usize {
    let descriptors = match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    descriptors.saturating_sub(DESCRIPTORS_KEPT).max(descriptors / 2).clamp(1, Semaphore::MAX_PERMITS)
}

/// Most connections that have not asked for anything yet; at most a quarter of all.
const NEWCOMERS: usize = 1024;

/// What connections compete for, whichever listener they come by.
#[derive(Debug, Clone)]
struct Places {
    connections: Arc<Semaphore>,
    newcomers: Arc<Newcomers>,
}

async fn accept(
    listener: Listener,
    offer: Arc<Offer>,
    shared: Arc<Shared>,
    places: Places,
    mut lifeline: Lifeline,
) {
    let for_connections = lifeline.clone();
    loop {
        let accepted = tokio::select! {
            accepted = take_place(&listener, &places.connections) => accepted,
            () = lifeline.reached(Phase::Draining) => return,
        };
        match accepted {
            Ok((stream, place)) => {
                let newcomer = places.newcomers.enter();
                let (offer, shared, lifeline) = (offer.clone(), shared.clone(), for_connections.clone());
                let metrics = Arc::clone(&shared.metrics);
                let serving = connection::serve(stream, offer, shared, lifeline, newcomer);
                let connection = async move {
                    let connected = metrics.services.connected();
                    serving.await;
                    drop((connected, place));
                };
                border::spawn(connection);
            }
            Err(e) if is_of_the_peer(&e) => {}
            Err(e) => {
                tracing::warn!(error = %e, address = listener.address(), "cannot accept a connection");
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
            }
        }
    }
}

/// Waits for a place first, so that a connection nobody could serve is not even accepted.
async fn take_place(
    listener: &Listener,
    places: &Arc<Semaphore>,
) -> io::Result<(Stream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.expect("the places are never closed");
    Ok((listener.accept().await?, place))
}

/// The connection broke before it was accepted; the listener is fine.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | NotConnected | InvalidInput)
}
