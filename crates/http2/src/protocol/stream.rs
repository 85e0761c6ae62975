//! One request and its answer.

use std::collections::VecDeque;

use bytes::Bytes;

use super::send::Tail;

#[derive(Debug)]
pub(super) struct Stream<T> {
    pub(super) state: T,
    /// Whoever serves it has been told.
    pub(super) begun: bool,
    /// The client has sent all of it.
    pub(super) is_received: bool,
    /// What the client may still send, and what was used of it without telling.
    pub(super) receive_window: i64,
    pub(super) unreleased: u32,
    /// Bytes of the body still to come, if their number was announced.
    pub(super) body_left: Option<u64>,
    pub(super) send_window: i64,
    pub(super) queue: VecDeque<Bytes>,
    pub(super) queued: usize,
    /// What comes when the queue is empty.
    pub(super) tail: Option<Tail>,
    pub(super) is_ready: bool,
    /// Its answer has more to say and waits for room in the queue.
    pub(super) wants_room: bool,
}

impl<T: Default> Stream<T> {
    pub(super) fn new(receive_window: u32, send_window: i64, body_left: Option<u64>) -> Stream<T> {
        Stream {
            state: T::default(),
            begun: false,
            is_received: false,
            receive_window: i64::from(receive_window),
            unreleased: 0,
            body_left,
            send_window,
            queue: VecDeque::new(),
            queued: 0,
            tail: None,
            is_ready: false,
            wants_room: false,
        }
    }

    /// The client has sent the last byte. False: that is not as many as it had announced.
    pub(super) fn receive_end(&mut self) -> bool {
        self.is_received = true;
        self.body_left.is_none_or(|left| left == 0)
    }
}
