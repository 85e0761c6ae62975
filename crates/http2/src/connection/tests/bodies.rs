//! Requests and answers with bodies.

use super::*;

#[tokio::test]
async fn bodies_pass_both_ways_as_they_come() {
    let mut peer = open(&Arc::default()).await;
    peer.write(&frame(kind::HEADERS, flag::END_HEADERS, 1, &testing::headers("/echo"))).await;
    assert!(peer.lines(1).await[0].starts_with("HEADERS 1 : 200"));
    for len in [1, 100, 16_384] {
        peer.write(&frame(kind::DATA, 0, 1, &vec![1; len])).await;
        assert_eq!(peer.lines(1).await, [format!("DATA 1 {len} bytes")]);
    }
    peer.write(&frame(kind::DATA, flag::END_STREAM, 1, b"last")).await;
    let lines = peer.lines(1).await;
    assert!(lines[0].starts_with("DATA 1") && lines[0].contains("4 bytes"), "{lines:?}");
}

/// More than both windows: whatever is used has to be given back, or it stops.
#[tokio::test]
async fn a_long_body_is_not_held_up() {
    let limits = Limits { stream_window: 100_000, connection_window: 200_000, ..Limits::default() };
    let mut peer = connect(Arc::default(), limits, budget());
    peer.write(&testing::opening()).await;
    peer.write(&frame(kind::HEADERS, flag::END_HEADERS, 1, &testing::headers("/count"))).await;
    let (mut windows, mut sent) = ([100_000i64, 200_000], 0);
    while sent < 3_000_000 {
        if windows[0].min(windows[1]) >= 10_000 {
            peer.write(&frame(kind::DATA, 0, 1, &[0; 10_000])).await;
            windows = windows.map(|window| window - 10_000);
            sent += 10_000;
            continue;
        }
        let line = peer.lines(1).await.remove(0);
        if let Some(grown) = line.strip_prefix("WINDOW_UPDATE ") {
            let (stream, by) = grown.split_once(' ').unwrap();
            windows[usize::from(stream == "0")] += by.parse::<i64>().unwrap();
            // The first of them raises the connection's window to what it is.
            windows[1] = windows[1].min(200_000);
        }
    }
    peer.write(&frame(kind::DATA, flag::END_STREAM, 1, b"")).await;
    loop {
        let line = peer.lines(1).await.remove(0);
        if line.starts_with("DATA") {
            assert_eq!(line, format!("DATA 1 END {} bytes", "/count with 3000000 bytes".len()));
            return;
        }
    }
}

#[tokio::test]
async fn an_unread_body_does_not_use_up_the_window() {
    let limits = Limits { stream_window: 100_000, connection_window: 100_000, ..Limits::default() };
    let service = Arc::new(Test::default());
    let mut peer = connect(Arc::clone(&service), limits, budget());
    peer.write(&testing::opening()).await;
    for stream in (1..81).step_by(2) {
        peer.write(&frame(kind::HEADERS, flag::END_HEADERS, stream, &testing::headers("/waits"))).await;
        peer.write(&frame(kind::DATA, flag::END_STREAM, stream, &[0; 10_000])).await;
        service.gate.add_permits(1);
        while !peer.lines(1).await[0].starts_with("DATA") {}
    }
}

#[tokio::test]
async fn an_answer_that_is_not_read_is_not_made() {
    let service = Arc::new(Test::default());
    let mut peer = open(&service).await;
    let wide = [&[0, 4][..], &[127, 255, 0, 0]].concat();
    peer.write(&frame(kind::SETTINGS, 0, 0, &wide)).await;
    peer.write(&frame(kind::WINDOW_UPDATE, 0, 0, &[127, 255, 0, 0])).await;
    peer.call(1, "/endless", b"").await;
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let made = service.parts.load(SeqCst);
        if made == before && made > 0 {
            break;
        }
        before = made;
        assert!(made < 1000, "10 MB were made for a client that reads nothing");
    }
    // It goes on when the client reads.
    for _ in 0..300 {
        peer.lines(1).await;
    }
    until("more", || service.parts.load(SeqCst) > before).await;
}

#[tokio::test]
async fn a_window_of_nothing_holds_an_answer_back_in_bounds() {
    let service = Arc::new(Test::default());
    let mut peer = open(&service).await;
    peer.write(&frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])).await;
    peer.call(1, "/endless", b"").await;
    assert!(peer.lines(2).await[1].starts_with("HEADERS 1 : 200"));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(service.parts.load(SeqCst), 1, "one part is made ahead of the window");
}

#[tokio::test]
async fn pages_have_a_length_and_a_date() {
    let mut peer = open(&Arc::default()).await;
    let head = [testing::headers("/page"), field("x", "y")].concat();
    peer.write(&frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &head)).await;
    let lines = peer.lines(2).await;
    assert!(lines[0].starts_with("HEADERS 1 : 200, content-length 18, date "), "{lines:?}");
    assert_eq!(lines[1], "DATA 1 END 18 bytes");
}
