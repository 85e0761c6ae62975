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
        std::thread::sleep(super::super::TURN_TIME_MAX * 2);
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

/// A client with room for all of a long answer does not get all of it before anybody else gets
/// something.
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

/// One client's calls that take their time do not keep all others from getting something.
#[tokio::test]
async fn slow_calls_are_looked_after_in_many_turns_and_in_order() {
    const CALLS: u32 = 20;
    let mut input = testing::opening();
    for stream in (1..2 * CALLS).step_by(2) {
        input.extend(frame(kind::HEADERS, flag::END_HEADERS, stream, &testing::headers("/unary-slow")));
        input.extend(frame(kind::DATA, flag::END_STREAM, stream, &message_of(b"")));
    }
    let (mut ours, theirs) = tokio::io::duplex(1 << 20);
    ours.write_all(&input).await.unwrap();
    let service = Arc::<Test>::default();
    let looks = Arc::clone(&service.parts);
    let mut connection = Connection::new(theirs, service, Limits::default(), budget());
    for _ in 0..1000 {
        let before = looks.load(SeqCst);
        let polled = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut connection).poll(cx))).await;
        assert!(polled.is_pending(), "{polled:?}");
        assert!(looks.load(SeqCst) <= before + 1, "one slow look is enough for a turn");
        tokio::task::yield_now().await;
    }
    assert_eq!(looks.load(SeqCst), CALLS as usize, "none is forgotten");
    let served = tokio::spawn(connection);
    let mut peer = Peer { io: ours, client: Client::default(), served };
    let lines = peer.lines(3 + 3 * CALLS as usize).await;
    let ends: Vec<&String> = lines.iter().filter(|line| line.contains("END")).collect();
    let expected: Vec<String> =
        (1..2 * CALLS).step_by(2).map(|stream| format!("HEADERS {stream} END")).collect();
    assert_eq!(ends.len(), expected.len(), "{ends:?}");
    assert!(ends.iter().zip(&expected).all(|(line, start)| line.starts_with(start)), "{ends:?}");
}
