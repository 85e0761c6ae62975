//! Calls that are cancelled while their answers wait for the client's window.

use super::*;

/// Longer than the 65,535 bytes that a client takes if it says nothing else.
const BEYOND_WINDOW: usize = 90_000;

async fn cancel(peer: &mut Peer, stream: u32) {
    peer.write(&frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes())).await;
}

/// Reads until `stream` has taken all that its window allows.
async fn read_window(peer: &mut Peer, stream: u32) {
    let mut read = 0;
    while read < 65_535 {
        let line = peer.lines(1).await.remove(0);
        if let Some(data) = line.strip_prefix(&format!("DATA {stream} ")) {
            read += data.split(' ').next().unwrap().parse::<usize>().unwrap();
        }
    }
}

#[tokio::test]
async fn an_answer_on_its_way_may_be_cancelled() {
    for path in ["/unary", "/unary-waits", "/unary-waits-apart", "/long"] {
        let service = Arc::new(Test::default());
        service.gate.add_permits(1);
        let mut peer = open(&service).await;
        peer.call(1, path, &message_of(&[7; BEYOND_WINDOW])).await;
        read_window(&mut peer, 1).await;
        cancel(&mut peer, 1).await;
        peer.write(&frame(kind::WINDOW_UPDATE, 0, 0, &1_000_000u32.to_be_bytes())).await;
        peer.call(3, "/unary", &message_of(b"next")).await;
        assert_eq!(peer.lines(3).await[1], "DATA 3 9 bytes", "{path}");
    }
}

#[tokio::test]
async fn a_cancelled_answer_does_not_take_the_call_that_has_its_place() {
    for path in ["/unary-waits", "/unary-waits-apart"] {
        let service = Arc::new(Test::default());
        service.gate.add_permits(1);
        let mut peer = open(&service).await;
        peer.call(1, path, &message_of(&[7; BEYOND_WINDOW])).await;
        read_window(&mut peer, 1).await;
        peer.call(3, path, &message_of(b"next")).await;
        until("the second call", || service.running.load(SeqCst) == 1).await;
        cancel(&mut peer, 1).await;
        peer.write(&frame(kind::WINDOW_UPDATE, 0, 0, &1_000_000u32.to_be_bytes())).await;
        peer.write(&frame(kind::PING, 0, 0, b"in order")).await;
        assert_eq!(peer.lines(1).await, ["PING ACK in order"], "{path}");
        service.gate.add_permits(1);
        assert_eq!(peer.lines(3).await[1], "DATA 3 9 bytes", "{path}");
    }
}
