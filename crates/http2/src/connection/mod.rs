//! One connection from its preface to its end, as one future.
//!
//! A turn reads what is there, starts what was asked for, takes what is ready, and writes all of it at once. Turns follow
//! each other until nothing can be done but wait.

mod requests;
mod work;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{unconstrained, yield_now};

use crate::head::Head;
use crate::keepalive::{Due, Keepalive};
use crate::limits::Limits;
use crate::protocol::{Fault, Protocol};
use crate::service::Service;
use crate::tasks::Tasks;
use crate::transport::Transport;
use requests::State;
use work::Work;

/// A head, and how requests with it are served as whole messages, if they are.
type Known<P> = (Arc<Head>, Option<Arc<P>>);

/// Turns, and time, after which other connections get theirs. Some hundred small answers, or a piece of a long one: a
/// client that lists everything must not make those wait that want little.
const MOST_TURNS: usize = 32;
const MOST_TIME: Duration = Duration::from_micros(100);

/// Serves one client. Resolves when the connection has ended; an error says that it did not end well.
#[must_use = "a connection is served by polling it"]
pub struct Connection<I, S: Service> {
    transport: Transport<I>,
    protocol: Protocol<State<S>>,
    tasks: Tasks<Work<S::Body>>,
    service: Arc<S>,
    /// What the service made of heads that were seen lately.
    plans: Vec<Known<S::Plan>>,
    keepalive: Option<Keepalive>,
    /// Bytes of messages that are not complete yet.
    held: usize,
    /// Places to look at in this turn.
    due: Vec<usize>,
    released: Vec<(u32, usize)>,
    resumed: Vec<u32>,
    is_flushed: bool,
    /// The client broke the rules and will be told so; nothing else happens any more.
    failed: Option<Fault>,
}

impl<I, S> Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    pub fn new(io: I, service: Arc<S>, limits: Limits) -> Connection<I, S> {
        Connection {
            transport: Transport::new(io),
            protocol: Protocol::new(limits),
            tasks: Tasks::new(limits.stream_window.min(limits.connection_window)),
            service,
            plans: Vec::new(),
            keepalive: limits.keepalive_interval.map(|i| Keepalive::new(i, limits.keepalive_timeout)),
            held: 0,
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
        // Whoever broke the rules and does not even read why is not waited for.
        let is_done = self.protocol.is_done() && self.is_flushed;
        if is_done || self.failed.is_some() {
            return Ok(Turn::Over);
        }
        Ok(if worked { Turn::Worked } else { Turn::Idle })
    }

    fn take_input(&mut self) {
        if let Some(keepalive) = &mut self.keepalive {
            keepalive.hear();
        }
        let received = self.protocol.receive(&mut self.transport.input);
        // What came before a mistake counts, if only to be dropped with the rest.
        self.take_events();
        if let Err(fault) = received {
            self.protocol.fail(fault);
            self.failed = Some(fault);
        }
    }

    /// Looks after everything that rang. True: there was something.
    fn look_around(&mut self) -> bool {
        let bells = Arc::clone(self.tasks.bells());
        bells.collect(&mut self.due, &mut self.released);
        for (stream, len) in self.released.drain(..) {
            self.protocol.release(stream, len);
        }
        let worked = !self.due.is_empty();
        let mut due = std::mem::take(&mut self.due);
        for place in due.drain(..) {
            self.look_after(place);
        }
        // Work may have been added on the way.
        due.append(&mut self.due);
        self.due = due;
        worked
    }

    /// Writes what can be written until it is late. True: there is more, or may be room now for what waited for it.
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
        self.protocol.resumed(&mut self.resumed);
        let worked = !self.resumed.is_empty();
        for stream in self.resumed.drain(..) {
            let place = self.protocol.state(stream).and_then(|state| state.place);
            self.due.extend(place);
        }
        Ok(worked || interrupted || !self.due.is_empty())
    }

    fn keep_alive(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Some(keepalive) = &mut self.keepalive
            && let Poll::Ready(due) = keepalive.poll(cx)
        {
            match due {
                Due::Ask => self.protocol.ping(),
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
        let late = Instant::now() + MOST_TIME;
        for _ in 0..MOST_TURNS {
            match self.turn(cx, late) {
                Ok(Turn::Worked) if Instant::now() < late => {}
                Ok(Turn::Worked) => break,
                Ok(Turn::Idle) => {
                    self.transport.rest();
                    if self.tasks.bells().sleep(cx.waker()) {
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

    /// Whether the client hears of it makes no difference any more.
    fn end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = self.transport.poll_shutdown(cx);
        Poll::Ready(match self.failed {
            None => Ok(()),
            Some(fault) => Err(io::Error::new(io::ErrorKind::InvalidData, fault.reason)),
        })
    }
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
        // The runtime would stop a task after so many answers of its channels and sockets, and have it ask again: with
        // many answers at once, most would be asked for many times. Turns are counted instead.
        let this = self.get_mut();
        pin!(unconstrained(poll_fn(|cx| this.run(cx)))).poll(cx)
    }
}

// Nothing in it is pinned in place: whatever has to be is in a box.
impl<I: Unpin, S: Service> Unpin for Connection<I, S> {}

#[cfg(test)]
mod tests;
