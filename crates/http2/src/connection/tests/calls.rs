//! Unary calls.

use super::*;

#[tokio::test]
async fn calls_that_come_together_are_answered_together() {
    let mut peer = open(&Arc::default()).await;
    let mut bytes = Vec::new();
    for stream in (1..201).step_by(2) {
        bytes.extend(frame(kind::HEADERS, flag::END_HEADERS, stream, &testing::headers("/unary")));
        bytes.extend(frame(kind::DATA, flag::END_STREAM, stream, &message_of(b"hello")));
    }
    peer.write(&bytes).await;
    let mut answer = vec![0; 1 << 20];
    let len = peer.io.read(&mut answer).await.unwrap();
    let lines = peer.client.read(&answer[..len]);
    assert_eq!(lines.len(), 300, "all in one write");
    assert_eq!(
        lines[297..],
        [
            "HEADERS 199 : 200, content-type application/grpc",
            "DATA 199 10 bytes",
            "HEADERS 199 END grpc-status 0"
        ]
    );
}

#[tokio::test]
async fn calls_that_wait_hold_up_no_others() {
    for path in ["/unary-waits", "/unary-waits-apart"] {
        let service = Arc::new(Test::default());
        let mut peer = open(&service).await;
        peer.call(1, path, &message_of(b"first")).await;
        peer.call(3, "/unary", &message_of(b"second")).await;
        assert_eq!(peer.lines(3).await[2], "HEADERS 3 END grpc-status 0");
        assert_eq!(service.running.load(SeqCst), 1);
        service.gate.add_permits(1);
        assert_eq!(peer.lines(3).await[1], "DATA 1 10 bytes");
        assert_eq!(service.running.load(SeqCst), 0);
    }
}

#[tokio::test]
async fn a_call_that_is_not_served_as_a_message_is_served_as_a_request() {
    let service = Arc::new(Test::default());
    let mut peer = open(&service).await;
    for stream in [1, 3, 5] {
        // In one part, then in two: either way the request has the body that came.
        let head = frame(kind::HEADERS, flag::END_HEADERS, stream, &testing::headers("/unary-as-request"));
        let body = message_of(b"hello");
        let parts = body.split_at(if stream == 1 { 0 } else { 3 });
        let first = frame(kind::DATA, 0, stream, parts.0);
        let last = frame(kind::DATA, flag::END_STREAM, stream, parts.1);
        peer.write(&[head, first, last].concat()).await;
        let answer = format!("{} bytes", "/unary-as-request with 10 bytes".len());
        let lines = peer.lines(2).await;
        assert!(lines[1].starts_with("DATA") && lines[1].contains(&answer), "{lines:?}");
    }
    assert_eq!(service.places.load(SeqCst), 0);
}

#[tokio::test]
async fn a_thousand_calls_wait_and_are_all_answered() {
    let service = Arc::new(Test::default());
    let mut peer = open(&service).await;
    for stream in (1..2001).step_by(2) {
        peer.call(stream, "/unary-waits", &message_of(b"hello")).await;
    }
    until("that all are running", || service.running.load(SeqCst) == 1000).await;
    service.gate.add_permits(1000);
    let lines = peer.lines(3000).await;
    assert_eq!(lines.iter().filter(|line| line.contains("grpc-status 0")).count(), 1000);
}

#[tokio::test]
async fn a_call_that_is_given_up_is_dropped() {
    for path in ["/unary-waits", "/unary-waits-apart", "/waits"] {
        let service = Arc::new(Test::default());
        let mut peer = open(&service).await;
        peer.call(1, path, &message_of(b"hello")).await;
        until("the call", || service.running.load(SeqCst) == 1).await;
        peer.write(&frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8])).await;
        until("the end of the call", || service.running.load(SeqCst) == 0).await;
        // Its place is used again, and answers go where they belong.
        service.gate.add_permits(1);
        peer.call(3, "/unary-waits", &message_of(b"other")).await;
        assert_eq!(peer.lines(3).await[1], "DATA 3 10 bytes", "{path}");
    }
}

#[tokio::test]
async fn refusals_are_heads_alone() {
    let mut peer = open(&Arc::default()).await;
    peer.call(1, "/unary-refused", &message_of(b"")).await;
    assert_eq!(peer.lines(1).await, ["HEADERS 1 END : 200"]);
}

#[tokio::test]
async fn a_message_may_come_in_many_parts() {
    let service = Arc::new(Test::default());
    let mut peer = open(&service).await;
    peer.write(&frame(kind::HEADERS, flag::END_HEADERS, 1, &testing::headers("/unary"))).await;
    let message = message_of(&[7; 30_000]);
    for part in message.chunks(777) {
        peer.write(&frame(kind::DATA, 0, 1, part)).await;
    }
    until("the place", || service.places.load(SeqCst) == 1).await;
    peer.write(&frame(kind::DATA, flag::END_STREAM, 1, b"")).await;
    assert_eq!(peer.lines(1).await, ["HEADERS 1 : 200, content-type application/grpc"]);
    assert_eq!(service.places.load(SeqCst), 0);
}

/// The service says what is wrong with these, as with any other request.
#[tokio::test]
async fn what_is_not_one_whole_message_goes_the_long_way() {
    let long = message_of(&vec![0; LONGEST + 1]);
    let bodies = [
        ("nothing", Bytes::new()),
        ("half a prefix", Bytes::from_static(b"\0\0\0")),
        ("half a message", message_of(b"hello").slice(..7)),
        ("two messages", Bytes::from([message_of(b"a"), message_of(b"b")].concat())),
        ("compressed", Bytes::from_static(b"\x01\0\0\0\x01x")),
        ("too long", long),
    ];
    for (what, body) in bodies {
        let mut peer = open(&Arc::default()).await;
        peer.write(&frame(kind::HEADERS, flag::END_HEADERS, 1, &testing::headers("/unary"))).await;
        for part in body.chunks(16_384) {
            peer.write(&frame(kind::DATA, 0, 1, part)).await;
        }
        peer.write(&frame(kind::DATA, flag::END_STREAM, 1, b"")).await;
        let expected = format!("/unary with {} bytes", body.len());
        let lines = peer.lines(2).await;
        assert!(lines[0].starts_with("HEADERS 1 : 200, content-length"), "{what}: {lines:?}");
        assert_eq!(lines[1], format!("DATA 1 END {} bytes", expected.len()), "{what}");
    }
}

#[tokio::test]
async fn messages_that_never_become_whole_are_bounded() {
    let service = Arc::new(Test::default());
    let mut peer = open(&service).await;
    let head = |stream| frame(kind::HEADERS, flag::END_HEADERS, stream, &testing::headers("/unary"));
    let part = [&message_of(&[0; LONGEST])[..], &[]].concat();
    let mut refused = 0;
    for stream in (1..1601).step_by(2) {
        peer.write(&head(stream)).await;
        for part in part[..98_304].chunks(16_384) {
            peer.write(&frame(kind::DATA, 0, stream, part)).await;
        }
        while let Ok(Some(bytes)) = tokio::time::timeout(Duration::from_millis(1), peer.frame()).await {
            let lines = peer.client.read(&bytes);
            refused +=
                lines.iter().filter(|line| line.starts_with("RST_STREAM") && line.ends_with(" 11")).count();
        }
    }
    assert!(refused > 50, "64 MiB are about 680 of these; {refused} of 800 were refused");
    assert!(service.places.load(SeqCst) < 700);
}
