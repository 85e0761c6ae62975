//! The body of a request, from the connection to the service.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

use crate::tasks::Bells;

/// Before every gRPC message: a byte that says whether it is compressed, and four for its length.
pub(crate) const PREFIX: usize = 5;

/// Why a body ends before it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The connection ended, or the request was given up.
    Incomplete,
    /// The connection holds too much for its client to wait for the rest of this message.
    TooMuchHeld,
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BodyError::Incomplete => "the request was given up before its body was complete",
            BodyError::TooMuchHeld => "too much is held for this connection to receive a long message",
        })
    }
}

impl std::error::Error for BodyError {}

/// From this many bytes on, an incomplete message or an unread body is given up while the
/// connection holds too much.
pub(crate) const LONG_MESSAGE: usize = 16 << 10;

/// A reader's buffer is counted after its message, too, if that had at least this many bytes.
const KEPT_MIN: usize = 4 << 10;

/// Parts are kept together up to this: a client may send every byte in a frame of its own.
const PART_MAX: usize = 16 << 10;

/// The end that the connection holds. It has to be closed, or the body waits for ever.
#[derive(Debug)]
pub(crate) struct Pipe {
    state: Arc<Mutex<State>>,
    bells: Arc<Bells>,
}

/// The end that is read. What it takes, the client may send again.
#[derive(Debug)]
pub struct Incoming {
    state: Arc<Mutex<State>>,
    stream: u32,
    bells: Arc<Bells>,
    /// Follows the messages of a gRPC call, whose reader keeps what it has read until a message is
    /// whole.
    messages: Option<Messages>,
}

/// Where in a sequence of length-prefixed messages a body is.
#[derive(Debug, Default)]
struct Messages {
    prefix: [u8; PREFIX],
    prefix_len: usize,
    /// Bytes of the current message still to come, once its prefix is whole.
    left: usize,
    /// Bytes of the current message that have come, with its prefix.
    held: usize,
    /// The longest message so far, if it was long: the reader's buffer stays as large.
    kept: usize,
}

impl Messages {
    /// Passes over `data`.
    fn advance(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.prefix_len < PREFIX {
                let len = data.len().min(PREFIX - self.prefix_len);
                self.prefix[self.prefix_len..self.prefix_len + len].copy_from_slice(&data[..len]);
                self.prefix_len += len;
                self.held += len;
                data = &data[len..];
                if self.prefix_len < PREFIX {
                    return;
                }
                let [_, length @ ..] = self.prefix;
                self.left = u32::from_be_bytes(length) as usize;
            }
            let len = data.len().min(self.left);
            self.left -= len;
            self.held += len;
            data = &data[len..];
            if self.left == 0 {
                let kept = if self.held >= KEPT_MIN { self.kept.max(self.held) } else { self.kept };
                *self = Messages { kept, ..Messages::default() };
            }
        }
    }

    /// What the reader holds.
    fn held(&self) -> usize {
        self.held.max(self.kept)
    }
}

#[derive(Debug, Default)]
struct State {
    parts: VecDeque<Part>,
    /// Bytes of them, which count as held.
    waiting: usize,
    end: End,
    /// The reader was dropped.
    is_left: bool,
    reader: Option<Waker>,
}

impl State {
    fn push(&mut self, data: &[u8], is_released: bool) {
        self.waiting += data.len();
        match self.parts.back_mut() {
            Some(last) if last.is_released == is_released && last.data.len() + data.len() <= PART_MAX => {
                last.data.extend_from_slice(data);
            }
            _ => self.parts.push_back(Part { data: BytesMut::from(data), is_released }),
        }
    }
}

#[derive(Debug)]
struct Part {
    data: BytesMut,
    /// The window was already given back to the client.
    is_released: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Complete,
    Broken,
}

/// `is_grpc`: the body is a sequence of gRPC messages.
pub(crate) fn pipe(stream: u32, bells: &Arc<Bells>, is_grpc: bool) -> (Pipe, Incoming) {
    let state = Arc::new(Mutex::new(State::default()));
    let messages = is_grpc.then(Messages::default);
    let writer = Pipe { state: Arc::clone(&state), bells: Arc::clone(bells) };
    (writer, Incoming { state, stream, bells: Arc::clone(bells), messages })
}

impl Pipe {
    /// Passes on a copy of a part: a slice would keep the whole buffer that it was read into. Gives
    /// the bytes that wait for the reader; None if there is no reader.
    pub(crate) fn push(&self, data: &[u8], is_released: bool, ends: bool) -> Option<usize> {
        let mut state = self.state.lock();
        if ends {
            state.end = End::Complete;
        }
        let is_wanted = !state.is_left;
        if is_wanted && !data.is_empty() {
            state.push(data, is_released);
            self.bells.hold(0, data.len());
        }
        let waiting = is_wanted.then_some(state.waiting);
        wake(state);
        waiting
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.end == End::Open {
            state.end = End::Broken;
        }
        wake(state);
    }
}

fn wake(mut state: parking_lot::MutexGuard<'_, State>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl Incoming {
    /// Counts what the reader holds of a message that is not whole.
    fn count(&mut self, data: &[u8]) -> Result<(), BodyError> {
        let Some(messages) = &mut self.messages else { return Ok(()) };
        let before = messages.held();
        messages.advance(data);
        self.bells.hold(before, messages.held());
        if messages.held >= LONG_MESSAGE && self.bells.is_full() {
            return Err(BodyError::TooMuchHeld);
        }
        Ok(())
    }
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut state = self.state.lock();
        let Some(part) = state.parts.pop_front() else {
            return match state.end {
                End::Complete => Poll::Ready(None),
                End::Broken => Poll::Ready(Some(Err(BodyError::Incomplete))),
                End::Open => {
                    state.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            };
        };
        state.waiting -= part.data.len();
        drop(state);
        self.bells.hold(part.data.len(), 0);
        if !part.is_released {
            self.bells.release(self.stream, part.data.len());
        }
        if let Err(error) = self.count(&part.data) {
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(Some(Ok(Frame::data(part.data.freeze()))))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.state.lock();
        state.parts.is_empty() && state.end == End::Complete
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.state.lock();
        let waiting = state.parts.iter().map(|part| part.data.len() as u64).sum();
        match state.end {
            End::Complete => SizeHint::with_exact(waiting),
            End::Open | End::Broken => {
                let mut hint = SizeHint::new();
                hint.set_lower(waiting);
                hint
            }
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.is_left = true;
        let mut held = std::mem::take(&mut state.waiting);
        let unread = state.parts.drain(..).filter(|part| !part.is_released).map(|part| part.data.len()).sum();
        drop(state);
        self.bells.release(self.stream, unread);
        held += self.messages.take().map_or(0, |messages| messages.held());
        if held > 0 {
            self.bells.hold(held, 0);
            // Otherwise the connection would count it until something else happens.
            self.bells.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::Tasks;
    use http_body::Body;

    #[test]
    fn messages_are_held_until_they_are_whole() {
        let message = [&[0, 0, 0, 0, 3][..], b"abc"].concat();
        let stream = [&message[..], &[0, 0, 0, 0, 0], &message, &[0, 0, 0, 1, 0, 9]].concat();
        for size in 1..=stream.len() {
            let mut messages = Messages::default();
            for part in stream.chunks(size) {
                messages.advance(part);
            }
            assert_eq!((messages.held, messages.left), (6, 255), "in parts of {size}");
        }
    }

    /// A stream keeps the buffer of its longest message until it ends.
    #[test]
    fn the_buffer_of_a_long_message_is_held_after_it() {
        let tasks = Tasks::<()>::new(1 << 20);
        let (pipe, mut incoming) = pipe(1, tasks.bells(), true);
        let cx = &mut Context::from_waker(Waker::noop());
        for (len, held) in [(10, 0), (100_000, 100_005), (10, 100_005), (50_000, 100_005)] {
            let body = [&[0][..], &u32::to_be_bytes(len), &vec![7; len as usize]].concat();
            pipe.push(&body, false, false);
            while let Poll::Ready(frame) = Pin::new(&mut incoming).poll_frame(cx) {
                assert!(frame.is_some_and(|frame| frame.is_ok()));
            }
            assert_eq!(tasks.bells().held(), held, "after {len} bytes");
        }
        drop(incoming);
        assert_eq!(tasks.bells().held(), 0);
    }

    /// A client may send every byte in a frame of its own.
    #[test]
    fn small_parts_that_wait_are_kept_together() {
        const BYTES: usize = 100_000;
        let tasks = Tasks::<()>::new(1 << 20);
        let (pipe, mut incoming) = pipe(1, tasks.bells(), false);
        for byte in 0..BYTES {
            assert_eq!(pipe.push(&[byte as u8], false, false), Some(byte + 1));
        }
        assert_eq!(tasks.bells().held(), BYTES);
        let kept = pipe.state.lock().parts.len();
        assert!(kept <= BYTES / 1000, "{kept} parts");
        // A window that was given back is not given back again.
        pipe.push(&[1, 2], true, false);
        pipe.push(&[3], true, true);
        let mut read = Vec::new();
        let cx = &mut Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(frame)) = Pin::new(&mut incoming).poll_frame(cx) {
            read.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        let sent: Vec<u8> = (0..BYTES).map(|byte| byte as u8).chain([1, 2, 3]).collect();
        assert!(read == sent, "{} of {} bytes", read.len(), sent.len());
        assert_eq!(tasks.bells().held(), 0);
        let (mut places, mut released) = (Vec::new(), Vec::new());
        tasks.bells().collect(&mut places, &mut released);
        assert_eq!(released, [(1, BYTES)]);
    }
}
