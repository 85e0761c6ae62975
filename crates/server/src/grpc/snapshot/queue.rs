//! The running snapshots, the calls that wait, and when a snapshot has to make room for them.
//!
//! A snapshot keeps its versions in memory, so few run together. It may be read as slowly as a link
//! demands while no other client waits. While one waits, each snapshot has to make progress. One
//! connection has one place. A second place of an address is revoked when another address waits.
//! Clients on this machine all have the same address and are distinguished by their connections
//! only.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use vetch_node::error::NodeError;

use crate::remote::Remote;

/// Snapshots that may run together.
const CONCURRENT_MAX: usize = 2;
/// Calls that may wait for one of them to end, and those of one connection.
const WAITING_MAX: usize = 64;
const WAITING_PER_CONNECTION_MAX: usize = 8;
/// How long such a call waits.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which a running snapshot is checked.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// One that was not read for this many checks is ended: two minutes.
const IDLE_CHECKS_MAX: u32 = 60;
/// While others wait, a snapshot is judged every ten seconds, a third of the time that calls wait,
/// and needs 64 KiB a second.
const RATE_CHECKS: u32 = 5;
const RATE_BYTES_MIN: u64 = RATE_CHECKS as u64 * CHECK_INTERVAL.as_secs() * (64 << 10);

/// A client that wants a snapshot.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// One for each connection.
    connection: Arc<str>,
    /// None for one on this machine.
    address: Option<IpAddr>,
}

impl Client {
    /// Without a remote it is a call within this process, and a client of its own.
    pub(super) fn from_remote(remote: Option<&Remote>) -> Client {
        let connection = remote.map_or_else(|| Arc::from(""), |remote| Arc::clone(&remote.address));
        let address = connection.parse().ok().map(|address: SocketAddr| address.ip().to_canonical());
        Client { connection, address: address.filter(|address| !address.is_loopback()) }
    }

    fn is_same_connection(&self, other: &Client) -> bool {
        Arc::ptr_eq(&self.connection, &other.connection)
    }

    fn shares_address(&self, other: &Client) -> bool {
        self.address.is_some() && self.address == other.address
    }
}

/// All snapshots. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(in crate::grpc) struct SnapshotQueue(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    sending: Vec<(u64, Client)>,
    waiting: VecDeque<WaitingCall>,
}

#[derive(Debug)]
struct WaitingCall {
    id: u64,
    client: Client,
    begin: oneshot::Sender<()>,
}

impl Queue {
    /// Starts the calls that waited longest, of clients without a snapshot.
    fn begin(&mut self) {
        while self.sending.len() < CONCURRENT_MAX
            && let Some(first) = self.waiting.iter().position(|waiting| self.may_begin(&waiting.client))
            && let Some(WaitingCall { id, client, begin }) = self.waiting.remove(first)
        {
            self.sending.push((id, client));
            // One that is gone releases its place when it is dropped.
            let _ = begin.send(());
        }
    }

    fn may_begin(&self, client: &Client) -> bool {
        !self.sending.iter().any(|(_, sending)| sending.is_same_connection(client))
    }
}

impl SnapshotQueue {
    /// Waits for a place.
    pub(super) async fn acquire(&self, client: Client) -> Result<SnapshotPermit, NodeError> {
        let (permit, begins) = self.enqueue(client)?;
        let begun = tokio::time::timeout(WAIT_TIMEOUT, begins).await;
        begun.ok().and_then(Result::ok).map(|()| permit).ok_or(NodeError::TooManyRequests)
    }

    fn enqueue(&self, client: Client) -> Result<(SnapshotPermit, oneshot::Receiver<()>), NodeError> {
        let mut queue = self.0.lock();
        let same = queue.waiting.iter().filter(|waiting| waiting.client.is_same_connection(&client)).count();
        if queue.waiting.len() >= WAITING_MAX || same >= WAITING_PER_CONNECTION_MAX {
            return Err(NodeError::TooManyRequests);
        }
        let (begin, begins) = oneshot::channel();
        let id = queue.next;
        queue.next += 1;
        queue.waiting.push_back(WaitingCall { id, client: client.clone(), begin });
        queue.begin();
        Ok((SnapshotPermit { queue: Arc::clone(&self.0), id, client }, begins))
    }
}

/// A running snapshot, or a call that waits.
#[derive(Debug)]
pub(super) struct SnapshotPermit {
    queue: Arc<Mutex<Queue>>,
    id: u64,
    client: Client,
}

/// Whether others want the place of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contention {
    None,
    Waiting,
    /// By another address, while this one has two.
    OnLoan,
}

impl SnapshotPermit {
    /// Refuses the client's other waiting calls: its snapshot had to make room, and the next one
    /// would have to as well.
    pub(super) fn refuse_waiting_calls(&self) {
        let same =
            |client: &Client| client.is_same_connection(&self.client) || client.shares_address(&self.client);
        self.queue.lock().waiting.retain(|waiting| !same(&waiting.client));
    }

    pub(super) fn contention(&self) -> Contention {
        let queue = self.queue.lock();
        let others =
            || queue.waiting.iter().map(|waiting| &waiting.client).filter(|client| queue.may_begin(client));
        let is_second =
            queue.sending.iter().any(|(id, client)| *id < self.id && client.shares_address(&self.client));
        if is_second && others().any(|client| !client.shares_address(&self.client)) {
            return Contention::OnLoan;
        }
        if others().next().is_some() { Contention::Waiting } else { Contention::None }
    }
}

impl Drop for SnapshotPermit {
    fn drop(&mut self) {
        let mut queue = self.queue.lock();
        queue.waiting.retain(|waiting| waiting.id != self.id);
        queue.sending.retain(|(id, _)| *id != self.id);
        queue.begin();
    }
}

/// Progress of a snapshot from check to check.
#[derive(Debug, Default)]
pub(super) struct ProgressCheck {
    /// Bytes at the last check, and checks since the last progress.
    last: u64,
    idle: u32,
    /// Checks in a row at which others waited, and bytes at the first of them.
    contended: u32,
    first: u64,
}

impl ProgressCheck {
    /// Why a snapshot of which `taken` bytes were read has to end, if it has to.
    pub(super) fn check(&mut self, taken: u64, contention: Contention) -> Option<NodeError> {
        self.idle = if taken > self.last { 0 } else { self.idle + 1 };
        self.last = taken;
        if self.idle >= IDLE_CHECKS_MAX {
            return Some(NodeError::Timeout);
        }
        if contention == Contention::None {
            self.contended = 0;
            return None;
        }
        if self.contended == 0 {
            (self.contended, self.first) = (1, taken);
            return None;
        }
        self.contended += 1;
        if self.contended <= RATE_CHECKS {
            return None;
        }
        let is_slow = taken - self.first < RATE_BYTES_MIN;
        (self.contended, self.first) = (1, taken);
        (is_slow || contention == Contention::OnLoan).then_some(NodeError::TooManyRequests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Client {
        Client::from_remote(Some(&Remote {
            address: address.into(),
            watching: vetch_http2::Budget::new(1, 1).into(),
            turns: Arc::default(),
        }))
    }

    /// Whether a call begins at once.
    fn begin(snapshots: &SnapshotQueue, client: &Client) -> Option<SnapshotPermit> {
        let (permit, mut begins) = snapshots.enqueue(client.clone()).expect("few wait");
        begins.try_recv().is_ok().then_some(permit)
    }

    #[test]
    fn a_connection_has_one_place() {
        let (snapshots, greedy, other) = (SnapshotQueue::default(), at("127.0.0.1:1"), at("127.0.0.1:2"));
        let first = begin(&snapshots, &greedy).expect("none is under way");
        assert!(begin(&snapshots, &greedy).is_none(), "it has one already");
        let second = begin(&snapshots, &other).expect("another connection");
        assert!(begin(&snapshots, &at("127.0.0.1:3")).is_none(), "both are taken");
        drop(first);
        assert!(begin(&snapshots, &greedy).is_some());
        drop(second);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_begin_in_order_and_not_for_ever() {
        let (snapshots, greedy) = (SnapshotQueue::default(), at("127.0.0.1:1"));
        let first = begin(&snapshots, &greedy).expect("none is under way");
        let second = begin(&snapshots, &at("127.0.0.1:2")).expect("one is under way");
        let (mut third, mut fourth) =
            (Box::pin(snapshots.acquire(at("127.0.0.1:3"))), Box::pin(snapshots.acquire(greedy)));
        assert!(
            futures_util::poll!(&mut third).is_pending() && futures_util::poll!(&mut fourth).is_pending()
        );
        drop(second);
        let third = third.await.expect("its turn");
        assert!(futures_util::poll!(&mut fourth).is_pending(), "its connection has one");
        assert_eq!(fourth.await.err(), Some(NodeError::TooManyRequests), "after half a minute");
        assert_eq!(third.contention(), Contention::None, "calls that gave up do not wait any more");
        drop((first, third));
    }

    #[test]
    fn one_connection_does_not_fill_the_queue() {
        let (snapshots, greedy) = (SnapshotQueue::default(), at("127.0.0.1:1"));
        let mut waiting: Vec<_> = (0..=WAITING_PER_CONNECTION_MAX)
            .map(|_| snapshots.enqueue(greedy.clone()).expect("one that began, and those that wait"))
            .collect();
        assert!(snapshots.enqueue(greedy.clone()).is_err());
        assert!(snapshots.enqueue(at("127.0.0.1:2")).is_ok());
        waiting.pop();
        assert!(snapshots.enqueue(greedy).is_ok());
    }

    /// Or its next snapshot would take the place of the one that made room.
    #[tokio::test]
    async fn who_had_to_make_room_does_not_go_on_with_the_next() {
        let (snapshots, greedy) = (SnapshotQueue::default(), at("127.0.0.1:1"));
        let first = begin(&snapshots, &greedy).expect("none is under way");
        let _second = begin(&snapshots, &at("127.0.0.1:2")).expect("one is under way");
        let (mut again, mut other) =
            (Box::pin(snapshots.acquire(greedy)), Box::pin(snapshots.acquire(at("127.0.0.1:3"))));
        assert!(futures_util::poll!(&mut again).is_pending() && futures_util::poll!(&mut other).is_pending());
        first.refuse_waiting_calls();
        drop(first);
        assert!(other.await.is_ok());
        assert_eq!(again.await.err(), Some(NodeError::TooManyRequests));
    }

    #[test]
    fn a_second_place_of_an_address_is_on_loan() {
        let snapshots = SnapshotQueue::default();
        let first = begin(&snapshots, &at("10.0.0.1:1")).expect("none is under way");
        let second = begin(&snapshots, &at("10.0.0.1:2")).expect("no other client wants it");
        assert_eq!((first.contention(), second.contention()), (Contention::None, Contention::None));
        let same = snapshots.enqueue(at("[::ffff:10.0.0.1]:3")).expect("few wait");
        assert_eq!((first.contention(), second.contention()), (Contention::Waiting, Contention::Waiting));
        let other = snapshots.enqueue(at("10.0.0.2:1")).expect("few wait");
        assert_eq!((first.contention(), second.contention()), (Contention::Waiting, Contention::OnLoan));
        drop((same, other));
        // Clients on this machine are distinguished by their connections.
        drop((first, second));
        let first = begin(&snapshots, &at("127.0.0.1:1")).expect("none is under way");
        let second = begin(&snapshots, &at("127.0.0.1:2")).expect("one is under way");
        let _third = snapshots.enqueue(at("127.0.0.1:3")).expect("few wait");
        assert_eq!((first.contention(), second.contention()), (Contention::Waiting, Contention::Waiting));
    }

    /// The end of a snapshot of which so much is read between two checks.
    fn judged(pieces: impl IntoIterator<Item = u64>, contention: Contention) -> Option<(usize, NodeError)> {
        let (mut progress, mut taken) = (ProgressCheck::default(), 0);
        pieces.into_iter().enumerate().find_map(|(check, piece)| {
            taken += piece;
            Some((check, progress.check(taken, contention)?))
        })
    }

    #[test]
    fn a_slow_snapshot_ends_only_if_others_wait() {
        let (trickle, enough) = (1, 2 * (64 << 10));
        assert_eq!(judged([trickle; 1000], Contention::None), None, "a slow link");
        assert_eq!(judged([trickle; 1000], Contention::Waiting), Some((5, NodeError::TooManyRequests)));
        assert_eq!(judged([enough; 1000], Contention::Waiting), None);
        // A burst at first does not last.
        let burst = std::iter::once(1 << 30).chain([trickle; 100]);
        assert_eq!(judged(burst, Contention::Waiting), Some((5, NodeError::TooManyRequests)));
        assert_eq!(judged([enough; 1000], Contention::OnLoan), Some((5, NodeError::TooManyRequests)));
        assert_eq!(judged([0; 1000], Contention::None), Some((59, NodeError::Timeout)), "two minutes");
        // Others waited for a moment.
        let mut progress = ProgressCheck::default();
        for check in 1..100 {
            let contention = if check % 3 == 0 { Contention::None } else { Contention::Waiting };
            assert_eq!(progress.check(check, contention), None);
        }
    }
}
