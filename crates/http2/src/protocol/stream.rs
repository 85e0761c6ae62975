//! One request and its answer.

use std::collections::VecDeque;

use bytes::Bytes;

use super::send::Tail;
use crate::service::LongMessage;

#[derive(Debug)]
pub(super) struct Stream<T> {
    pub(super) state: T,
    /// The event of the request has been taken.
    pub(super) begun: bool,
    /// The client has sent all of it.
    pub(super) is_received: bool,
    /// Bytes of the request's head, if no other request shares it.
    pub(super) head_bytes: usize,
    /// What the client may still send, and what was used of it without a WINDOW_UPDATE.
    pub(super) receive_window: i64,
    pub(super) unreleased: u32,
    /// Bytes of the body still to come, if their number was announced.
    pub(super) body_left: Option<u64>,
    /// What WINDOW_UPDATE has granted less what was sent. With the initial window of the connection
    /// it is the stream's window, so a change of the initial window need not be written into every
    /// stream.
    pub(super) send_credit: i64,
    pub(super) queue: VecDeque<Bytes>,
    pub(super) queued: usize,
    /// Sent behind the queue, and encoded no earlier.
    pub(super) long: Option<Box<dyn LongMessage>>,
    /// What that takes, if it is giant.
    pub(super) giant_held: usize,
    /// What comes when all of that is sent.
    pub(super) tail: Option<Tail>,
    /// It is in the list of streams that can send.
    pub(super) is_ready: bool,
    /// The body of its answer was refused room, and waits to be resumed.
    pub(super) wants_room: bool,
    /// It is in the list of streams that wait for the connection.
    pub(super) is_congested: bool,
}

impl<T: Default> Stream<T> {
    pub(super) fn new(receive_window: u32, body_left: Option<u64>, head_bytes: usize) -> Stream<T> {
        Stream {
            state: T::default(),
            begun: false,
            is_received: false,
            head_bytes,
            receive_window: i64::from(receive_window),
            unreleased: 0,
            body_left,
            send_credit: 0,
            queue: VecDeque::new(),
            queued: 0,
            long: None,
            giant_held: 0,
            tail: None,
            is_ready: false,
            wants_room: false,
            is_congested: false,
        }
    }
}

impl<T> Stream<T> {
    /// The client has sent the last byte. False: that is not as many as it had announced.
    pub(super) fn receive_end(&mut self) -> bool {
        self.is_received = true;
        self.body_left.is_none_or(|left| left == 0)
    }

    /// Bytes of its answer that wait for a window.
    pub(super) fn unsent(&self) -> usize {
        self.queued + self.long.as_ref().map_or(0, |long| long.remaining())
    }

    /// What of that belongs to a giant message.
    pub(super) fn giant(&self) -> usize {
        if self.giant_held > 0 { self.unsent() - self.queued } else { 0 }
    }
}
