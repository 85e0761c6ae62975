//! How long a connection goes on before others get their turn.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;

/// Has been sent everything, and takes a while to take what is written.
struct Slow {
    input: io::Cursor<Vec<u8>>,
    writes: Arc<AtomicUsize>,
    written: Arc<AtomicUsize>,
}

const MOST_AT_ONCE: usize = 64 << 10;

impl AsyncRead for Slow {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let at = usize::try_from(this.input.position()).unwrap();
        let rest = &this.input.get_ref()[at..];
        if rest.is_empty() {
            return Poll::Pending;
        }
        let len = rest.len().min(into.remaining());
        into.put_slice(&rest[..len]);
        this.input.set_position((at + len) as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Slow {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        std::thread::sleep(super::super::MOST_TIME * 2);
        let len = bytes.len().min(MOST_AT_ONCE);
        self.writes.fetch_add(1, SeqCst);
        self.written.fetch_add(len, SeqCst);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A client with room for all of a long answer does not get all of it before anybody else gets something.
#[tokio::test]
async fn a_long_answer_is_written_in_many_turns() {
    let room = (LONG as u32 * 2).to_be_bytes();
    let input = [
        testing::opening(),
        frame(kind::SETTINGS, 0, 0, &[&[0, 4][..], &room].concat()),
        frame(kind::WINDOW_UPDATE, 0, 0, &room),
        frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &testing::headers("/long")),
    ]
    .concat();
    let (writes, written) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let io =
        Slow { input: io::Cursor::new(input), writes: Arc::clone(&writes), written: Arc::clone(&written) };
    let mut connection = Connection::new(io, Arc::<Test>::default(), Limits::default(), budget());
    let mut polls = 0;
    while written.load(SeqCst) < LONG {
        let before = writes.load(SeqCst);
        let polled = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut connection).poll(cx))).await;
        assert!(polled.is_pending(), "{polled:?}");
        assert!(writes.load(SeqCst) <= before + 1, "one slow write is enough for a turn");
        polls += 1;
        assert!(polls < 1000, "the answer stopped after {} bytes", written.load(SeqCst));
        tokio::task::yield_now().await;
    }
}
