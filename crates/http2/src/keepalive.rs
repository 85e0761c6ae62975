//! Keep-alive: pings a silent client, and gives it up if it does not answer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Debug)]
pub(crate) struct Keepalive {
    interval: Duration,
    timeout: Duration,
    heard: Instant,
    is_pinged: bool,
    timer: Pin<Box<Sleep>>,
}

/// What has to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Ping,
    GiveUp,
}

impl Keepalive {
    pub(crate) fn new(interval: Duration, timeout: Duration) -> Keepalive {
        let heard = Instant::now();
        Keepalive {
            interval,
            timeout,
            heard,
            is_pinged: false,
            timer: Box::pin(sleep_until(heard + interval)),
        }
    }

    /// Something arrived.
    pub(crate) fn hear(&mut self) {
        self.heard = Instant::now();
        if self.is_pinged {
            self.is_pinged = false;
            self.timer.as_mut().reset(self.heard + self.interval);
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Due> {
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.is_pinged {
                return Poll::Ready(Due::GiveUp);
            }
            let quiet_until = self.heard + self.interval;
            if Instant::now() >= quiet_until {
                self.is_pinged = true;
                self.timer.as_mut().reset(Instant::now() + self.timeout);
                return Poll::Ready(Due::Ping);
            }
            self.timer.as_mut().reset(quiet_until);
        }
        Poll::Pending
    }
}
