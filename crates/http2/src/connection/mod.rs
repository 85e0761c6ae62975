//! One connection from its preface to its end, as one future.
//!
//! A turn reads what has arrived, starts the requests in it, takes the responses that are ready,
//! and writes them with one system call. Turns follow each other until all that is left is to wait.

mod requests;
mod work;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, Sleep, sleep};

use crate::budget::{Account, Holdings, Holds, Pressure};
use crate::head::Head;
use crate::keepalive::{Due, Keepalive};
use crate::limits::Limits;
use crate::protocol::{Fault, Protocol};
use crate::service::Service;
use crate::tasks::{TaskId, Tasks};
use crate::transport::Transport;
use requests::State;
use work::{Queued, Work};

/// A head, and how requests with it are served as whole messages, if they are.
type Known<P> = (Arc<Head>, Option<Arc<P>>);

/// Turns, and time, after which other connections get theirs. Some hundred small responses, or a
/// piece of a long one: a client that lists everything must not delay clients with small requests.
const TURNS_MAX: usize = 32;
const TURN_TIME_MAX: Duration = Duration::from_micros(100);
/// Time that a turn spends polling calls if there are many. Longer than `TURN_TIME_MAX`, because
/// calls that are started together share a sync of the journal, and their responses a write.
const POLL_TIME_MAX: Duration = Duration::from_micros(500);
/// Polls that take less than this on average are quick. Reading the clock costs a fair part of one,
/// so it is read for every few of them only.
const QUICK_POLL: Duration = Duration::from_micros(20);
const QUICK_POLLS_PER_CLOCK: usize = 4;
/// How often the allowance for frames without requests is refilled.
const REFILL_INTERVAL: Duration = Duration::from_millis(10);
/// How often a connection that waits for room checks whether others have released some.
const ROOM_INTERVAL: Duration = Duration::from_millis(50);
/// Calls that wait, below which those that were cancelled are left among them.
const DEFERRED_MIN: usize = 1024;

/// Serves one client. Resolves when the connection has ended; an error says that it did not end
/// well.
#[must_use = "a connection is served by polling it"]
pub struct Connection<I, S: Service> {
    transport: Transport<I>,
    protocol: Protocol<State<S>>,
    tasks: Tasks<Work<S::Body>>,
    service: Arc<S>,
    /// What the service made of heads that were seen lately.
    plans: Vec<Known<S::Plan>>,
    keepalive: Option<Keepalive>,
    /// Bytes of messages that are not complete, and of calls that wait.
    held: usize,
    /// Bytes of answers that exist as a whole, before they are sent.
    bodies: usize,
    account: Account,
    /// Calls that are not begun yet: those that wait for room of any kind only, and heavy ones,
    /// which may wait longer. Each in order, with some that were cancelled meanwhile.
    deferred: [VecDeque<TaskId>; 2],
    /// Calls that are computing now, and the share of the common queue that this connection takes.
    heavy: Arc<AtomicUsize>,
    queued: Queued,
    refilled: Instant,
    /// Runs while the connection waits for room.
    timer: Option<Pin<Box<Sleep>>>,
    /// Places to poll in this turn.
    due: Vec<usize>,
    released: Vec<(u32, usize)>,
    resumed: Vec<u32>,
    is_flushed: bool,
    /// The client broke the protocol: all that is left is to send it the error.
    failed: Option<Fault>,
}

impl<I, S> Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    /// `holdings`: of this client, or the budget that they are part of.
    pub fn new(io: I, service: Arc<S>, limits: Limits, holdings: impl Into<Holdings>) -> Connection<I, S> {
        Connection {
            transport: Transport::new(io),
            protocol: Protocol::new(limits),
            tasks: Tasks::new(limits.stream_window.min(limits.connection_window)),
            service,
            plans: Vec::new(),
            keepalive: limits.keepalive_interval.map(|i| Keepalive::new(i, limits.keepalive_timeout)),
            held: 0,
            bodies: 0,
            account: Account::new(holdings.into()),
            deferred: Default::default(),
            heavy: Arc::default(),
            queued: Queued::default(),
            refilled: Instant::now(),
            timer: None,
            due: Vec::new(),
            released: Vec::new(),
            resumed: Vec::new(),
            is_flushed: true,
            failed: None,
        }
    }

    /// Takes no new requests, and ends when the running ones are done.
    pub fn graceful_shutdown(self: Pin<&mut Self>) {
        self.get_mut().protocol.announce_farewell();
    }

    /// One turn, which writes no more once it is late.
    fn turn(&mut self, cx: &mut Context<'_>, late: Instant) -> io::Result<Turn> {
        let mut worked = false;
        self.queued.share = None;
        if self.failed.is_none() {
            // While a client does not take its answers, it is not heard either.
            if !self.protocol.is_congested()
                && let Poll::Ready(read) = self.transport.poll_read(cx)
            {
                if read? == 0 {
                    return Ok(Turn::Over);
                }
                worked = true;
                self.take_input();
            }
            worked |= self.look_around();
        }
        worked |= self.write(cx, late)?;
        worked |= self.failed.is_none() && self.start_deferred();
        // A client that broke the rules and does not even read why is not waited for.
        let is_done = self.protocol.is_done() && self.is_flushed;
        if is_done || self.failed.is_some() {
            return Ok(Turn::Over);
        }
        Ok(if worked { Turn::Worked } else { Turn::Idle })
    }

    fn holds(&self) -> Holds {
        Holds {
            streams: self.protocol.held_for_streams(),
            requests: self.held + self.protocol.held_for_requests() + self.tasks.bells().held(),
            answers: self.bodies + self.protocol.held_for_answers(),
            giant: self.protocol.giant(),
        }
    }

    /// The same as [`Connection::update_account`] would find, which is not needed for each call of
    /// a connection that holds little.
    fn pressure(&mut self) -> Pressure {
        if self.account.is_far_from_limits(&self.holds()) {
            return Pressure::None;
        }
        self.update_account().pressure
    }

    /// Counts what the connection holds for its client, and says what follows from it.
    fn update_account(&mut self) -> Held {
        self.account.set(self.holds());
        let pressure = self.account.pressure();
        let refuses_requests = self.account.refuses_requests();
        self.protocol.refuse_streams(refuses_requests);
        self.protocol.hold_bodies(pressure == Pressure::Full);
        self.tasks.bells().set_full(refuses_requests);
        Held { pressure, refuses_requests }
    }

    fn take_input(&mut self) {
        if let Some(keepalive) = &mut self.keepalive {
            keepalive.hear();
        }
        self.update_account();
        let received = self.protocol.receive(&mut self.transport.input);
        // What came before a mistake counts, if only to be dropped with the rest.
        self.take_events();
        if let Err(fault) = received {
            self.protocol.fail(fault);
            self.failed = Some(fault);
        }
    }

    /// Looks after what rang, and what was left, until it is late. True: there was something.
    fn look_around(&mut self) -> bool {
        let bells = Arc::clone(self.tasks.bells());
        bells.collect(&mut self.due, &mut self.released);
        for (stream, len) in self.released.drain(..) {
            self.protocol.release(stream, len);
        }
        let worked = !self.due.is_empty();
        let mut due = std::mem::take(&mut self.due);
        let seen = self.look_until_late(&due);
        // The next turn goes on where this one stopped.
        due.drain(..seen);
        // Work may have been added on the way.
        due.append(&mut self.due);
        self.due = due;
        worked
    }

    /// How many of these places were looked after.
    fn look_until_late(&mut self, due: &[usize]) -> usize {
        let begun = Instant::now();
        let mut next_check = 0;
        for (seen, place) in due.iter().enumerate() {
            self.look_after(*place);
            if seen < next_check {
                continue;
            }
            let elapsed = begun.elapsed();
            if elapsed >= POLL_TIME_MAX {
                return seen + 1;
            }
            let is_quick = elapsed < QUICK_POLL * (seen as u32 + 1);
            next_check = seen + if is_quick { QUICK_POLLS_PER_CLOCK } else { 1 };
        }
        due.len()
    }

    /// Writes what can be written until it is late. True: there is more, or may be room now for
    /// what waited for it.
    fn write(&mut self, cx: &mut Context<'_>, late: Instant) -> io::Result<bool> {
        let mut interrupted = false;
        self.protocol.pump();
        while !self.protocol.output().is_empty() && !interrupted {
            self.is_flushed = false;
            let Poll::Ready(written) = self.transport.poll_write(cx, self.protocol.output()) else { break };
            written?;
            self.protocol.pump();
            // After a mistake of the client's there is no next turn to write the rest in.
            interrupted =
                !self.protocol.output().is_empty() && self.failed.is_none() && Instant::now() >= late;
        }
        if !self.is_flushed && self.protocol.output().is_empty() {
            self.is_flushed = match self.transport.poll_flush(cx) {
                Poll::Ready(flushed) => flushed.map(|()| true)?,
                Poll::Pending => false,
            };
        }
        if self.protocol.holds_bodies() {
            self.update_account();
        }
        self.protocol.resumed(&mut self.resumed);
        let worked = !self.resumed.is_empty();
        for stream in self.resumed.drain(..) {
            let task = self.protocol.state(stream).and_then(|state| state.task);
            self.due.extend(task.map(TaskId::place));
        }
        Ok(worked || interrupted || !self.due.is_empty())
    }

    fn keep_alive(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Some(keepalive) = &mut self.keepalive
            && let Poll::Ready(due) = keepalive.poll(cx)
        {
            match due {
                Due::Ping => self.protocol.ping(),
                Due::GiveUp => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "a ping was not answered"));
                }
            }
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Err(error) = self.keep_alive(cx) {
            return Poll::Ready(Err(error));
        }
        let now = Instant::now();
        let late = now + TURN_TIME_MAX;
        if now - self.refilled >= REFILL_INTERVAL {
            self.protocol.refill(now - self.refilled);
            self.refilled = now;
        }
        for _ in 0..TURNS_MAX {
            match self.turn(cx, late) {
                Ok(Turn::Worked) if Instant::now() < late => {}
                Ok(Turn::Worked) => break,
                Ok(Turn::Idle) => {
                    self.rest();
                    if self.look_again(cx) && self.tasks.bells().sleep(cx.waker()) {
                        return Poll::Pending;
                    }
                }
                Ok(Turn::Over) => return self.end(cx),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        // Comes back behind all others that are ready, and behind a look at the sockets.
        let _ = pin!(yield_now()).poll(cx);
        Poll::Pending
    }

    /// Room that other connections give back is not announced, so a connection that waits for it
    /// checks again at an interval. False: now.
    fn look_again(&mut self, cx: &mut Context<'_>) -> bool {
        if self.deferred.iter().all(VecDeque::is_empty) && !self.protocol.holds_bodies() {
            self.timer = None;
            return true;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(ROOM_INTERVAL)));
        let is_due = timer.as_mut().poll(cx).is_ready();
        if is_due {
            self.timer = None;
        }
        !is_due
    }

    /// Nothing can be done but wait: gives back what only a burst needed.
    fn rest(&mut self) {
        self.transport.rest();
        self.protocol.rest();
        if self.protocol.open() == 0 {
            self.deferred.iter_mut().for_each(VecDeque::clear);
            self.tasks.shrink();
        }
        self.update_account();
    }

    /// Whether the client hears of it makes no difference any more.
    fn end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = self.transport.poll_shutdown(cx);
        Poll::Ready(match self.failed {
            None => Ok(()),
            Some(fault) => Err(io::Error::new(io::ErrorKind::InvalidData, fault.reason)),
        })
    }
}

/// What follows from what a connection holds.
struct Held {
    pressure: Pressure,
    /// No stream is opened, and no long message received.
    refuses_requests: bool,
}

enum Turn {
    Worked,
    Idle,
    Over,
}

impl<I, S> Future for Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Tokio's cooperative budget would make channels and sockets return Pending after a number
        // of operations, and each of many ready calls would be polled again and again. Turns are
        // counted instead.
        let this = self.get_mut();
        pin!(unconstrained(poll_fn(|cx| this.run(cx)))).poll(cx)
    }
}

// Nothing in it is pinned in place: whatever has to be is in a box.
impl<I: Unpin, S: Service> Unpin for Connection<I, S> {}

#[cfg(test)]
mod tests;
