//! The body of a request, from the connection to whoever serves it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

use crate::tasks::Bells;

/// The connection ended, or the request was given up, before the body was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyError;

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the request was given up before its body was complete")
    }
}

impl std::error::Error for BodyError {}

/// The end that the connection holds. It has to be closed, or the body waits for ever.
#[derive(Debug)]
pub(crate) struct Pipe(Arc<Mutex<State>>);

/// The end that is read. What it takes, the client may send again.
#[derive(Debug)]
pub struct Incoming {
    state: Arc<Mutex<State>>,
    stream: u32,
    bells: Arc<Bells>,
}

#[derive(Debug, Default)]
struct State {
    parts: VecDeque<Part>,
    end: End,
    /// Nobody reads any more.
    is_left: bool,
    reader: Option<Waker>,
}

#[derive(Debug)]
struct Part {
    data: Bytes,
    /// The client has been told already that it may send as much again.
    is_released: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Complete,
    Broken,
}

pub(crate) fn pipe(stream: u32, bells: &Arc<Bells>) -> (Pipe, Incoming) {
    let state = Arc::new(Mutex::new(State::default()));
    (Pipe(Arc::clone(&state)), Incoming { state, stream, bells: Arc::clone(bells) })
}

impl Pipe {
    /// Passes on a part. False: nobody wants it.
    pub(crate) fn push(&self, data: Bytes, is_released: bool, ends: bool) -> bool {
        let mut state = self.0.lock();
        if ends {
            state.end = End::Complete;
        }
        let is_wanted = !state.is_left;
        if is_wanted && !data.is_empty() {
            state.parts.push_back(Part { data, is_released });
        }
        wake(state);
        is_wanted
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let mut state = self.0.lock();
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

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut state = self.state.lock();
        let Some(part) = state.parts.pop_front() else {
            return match state.end {
                End::Complete => Poll::Ready(None),
                End::Broken => Poll::Ready(Some(Err(BodyError))),
                End::Open => {
                    state.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            };
        };
        drop(state);
        if !part.is_released {
            self.bells.release(self.stream, part.data.len());
        }
        Poll::Ready(Some(Ok(Frame::data(part.data))))
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
        let unread = state.parts.drain(..).filter(|part| !part.is_released).map(|part| part.data.len()).sum();
        drop(state);
        self.bells.release(self.stream, unread);
    }
}
