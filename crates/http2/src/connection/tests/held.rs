//! What a connection holds for its client, and what it does when that is much.

use super::*;

const SHARE: usize = 1 << 20;

/// Waits until the connection has done all it can, and says what is held then.
async fn settled(budget: &Budget) -> usize {
    let mut last = usize::MAX;
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let held = budget.held();
        if held == last {
            return held;
        }
        last = held;
    }
}

#[tokio::test]
async fn answers_that_are_not_read_hold_back_further_calls_until_they_are() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    for stream in (1..401).step_by(2) {
        peer.call(stream, "/unary-heavy-90000", &message_of(b"hello")).await;
        // One after the other, as a client would that waits for each a little.
        tokio::task::yield_now().await;
    }
    let held = settled(&budget).await;
    let made = service.parts.load(SeqCst);
    assert!(made < 40, "{made} answers were made for a client that reads none");
    assert!(held < 20 * SHARE, "{held} bytes are held");
    assert!(budget.deferred() > 100);
    peer.grow(1 << 30).await;
    let mut ended = 0;
    while ended < 200 {
        ended += peer.lines(1).await.iter().filter(|line| line.contains("END grpc-status 0")).count();
    }
    assert_eq!(service.parts.load(SeqCst), 200);
    // Less than what it is counted in steps of.
    assert!(settled(&budget).await < 16 << 10);
}

/// Calls of one packet, whose answers are not read. Gives how many of these were made.
async fn made_of(calls: u32, path: &str) -> usize {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    let mut packet = Vec::new();
    for stream in (1..2 * calls).step_by(2) {
        packet.extend(frame(kind::HEADERS, flag::END_HEADERS, stream, &testing::headers(path)));
        packet.extend(frame(kind::DATA, flag::END_STREAM, stream, &message_of(b"hello")));
    }
    peer.write(&packet).await;
    settled(&budget).await;
    let made = service.parts.load(SeqCst);
    peer.grow(1 << 30).await;
    let mut ended = 0;
    while ended < calls as usize {
        ended += peer.lines(1).await.iter().filter(|line| line.contains("END grpc-status 0")).count();
    }
    assert!(settled(&budget).await < 16 << 10);
    made
}

/// A call that is not handed over as a whole message is heavy too, if its answer may be long: of
/// these 16 run at a time, and none while half of what is allowed is held.
#[tokio::test]
async fn answers_to_requests_hold_back_further_ones_like_those_to_messages() {
    let made = made_of(200, "/heavy-90000").await;
    assert!((5..25).contains(&made), "{made} answers were made for a client that reads none");
}

/// Calls of one packet begin before any of them is answered, so what is held is looked at again
/// before each is polled.
#[tokio::test]
async fn calls_of_one_packet_begin_as_there_is_room_for_their_answers() {
    let made = made_of(200, "/unary-light-90000").await;
    assert!((10..16).contains(&made), "{made} answers were made for a client that reads none");
}

#[tokio::test]
async fn a_call_that_waits_may_be_cancelled() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    for stream in (1..401).step_by(2) {
        peer.call(stream, "/unary-heavy-90000", &message_of(b"hello")).await;
        tokio::task::yield_now().await;
    }
    settled(&budget).await;
    for stream in (1..401).step_by(2) {
        peer.write(&frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes())).await;
    }
    assert_eq!(settled(&budget).await, 0);
    let made = service.parts.load(SeqCst);
    peer.grow(1 << 30).await;
    peer.call(401, "/unary", &message_of(b"next")).await;
    while !peer.lines(1).await[0].starts_with("HEADERS 401 END") {}
    assert_eq!(service.parts.load(SeqCst), made);
}

#[tokio::test]
async fn long_messages_are_encoded_as_they_are_read() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(100 * SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    peer.grow(1 << 30).await;
    peer.call(1, "/unary-long-3000000", &message_of(b"")).await;
    let mut read = 0;
    loop {
        let bytes = peer.frame().await.unwrap();
        let header = Header::parse(&bytes).unwrap();
        if header.kind == kind::DATA {
            assert!(bytes[HEADER_LEN..].iter().all(|byte| *byte == 7));
            read += header.len;
        }
        if header.kind == kind::HEADERS && header.has(flag::END_STREAM) {
            break;
        }
    }
    assert_eq!(read, 3_000_000);
}

/// Many small parts, each in a read of its own, keep neither the buffers they came in nor more than
/// was sent.
#[tokio::test]
async fn messages_that_never_become_whole_are_refused_when_they_are_too_much() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    for path in ["/unary", "/collect"] {
        let first = if path == "/unary" { 1 } else { 201 };
        let part = [&[0, 0, 1, 0, 0][..], &[7; 16_000]].concat();
        for stream in (first..first + 200).step_by(2) {
            let fields = [testing::headers(path), field("content-type", "application/grpc")].concat();
            peer.write(&frame(kind::HEADERS, flag::END_HEADERS, stream, &fields)).await;
            peer.write(&frame(kind::DATA, 0, stream, &part)).await;
            tokio::task::yield_now().await;
        }
        let held = settled(&budget).await;
        assert!(held <= SHARE, "{held} bytes are held of messages for {path}");
        for stream in (first..first + 200).step_by(2) {
            peer.write(&frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes())).await;
        }
        assert_eq!(settled(&budget).await, 0, "{path}");
    }
    assert!(budget.refused() > 0);
}

/// What is sent ahead of the service counts, and is given up when it is too much.
#[tokio::test]
async fn unread_bodies_are_refused_when_they_are_too_much() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    for stream in (1..201).step_by(2) {
        let fields = [testing::headers("/waits"), field("content-type", "application/grpc")].concat();
        peer.write(&frame(kind::HEADERS, flag::END_HEADERS, stream, &fields)).await;
        for _ in 0..4 {
            peer.write(&frame(kind::DATA, 0, stream, &[7; 16_000])).await;
        }
        tokio::task::yield_now().await;
    }
    let held = settled(&budget).await;
    assert!((SHARE / 4..=SHARE).contains(&held), "{held} bytes are held of bodies");
    assert!(budget.refused() > 50, "{} were refused", budget.refused());
    let running = service.running.load(SeqCst);
    assert!((1..50).contains(&running), "{running} are served");
    for stream in (1..201).step_by(2) {
        peer.write(&frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes())).await;
    }
    assert_eq!(settled(&budget).await, 0);
    assert_eq!(service.running.load(SeqCst), 0);
}

#[tokio::test]
async fn a_client_that_reads_is_not_stopped_by_those_that_do_not() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(SHARE, SHARE));
    let mut greedy = open_with(&service, Arc::clone(&budget)).await;
    for stream in (1..101).step_by(2) {
        greedy.call(stream, "/unary-heavy-90000", &message_of(b"hello")).await;
        tokio::task::yield_now().await;
    }
    settled(&budget).await;
    let mut polite = open_with(&service, Arc::clone(&budget)).await;
    for stream in (1..101).step_by(2) {
        polite.call(stream, "/unary-heavy-5", &message_of(b"hello")).await;
        assert_eq!(polite.lines(3).await[1], format!("DATA {stream} 10 bytes"));
    }
    drop(greedy);
    drop(polite);
    assert_eq!(settled(&budget).await, 0);
}

#[tokio::test]
async fn small_calls_go_on_while_a_giant_answer_is_read() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    peer.call(1, "/unary-long-20000000", &message_of(b"")).await;
    settled(&budget).await;
    peer.call(3, "/unary-waits", &message_of(b"small")).await;
    service.gate.add_permits(1);
    while !peer.lines(1).await[0].starts_with("HEADERS 3") {}
    assert_eq!(budget.deferred(), 0);
    peer.call(5, "/unary-heavy-5", &message_of(b"another list")).await;
    settled(&budget).await;
    assert_eq!((budget.deferred(), service.parts.load(SeqCst)), (1, 0));
    assert!(budget.held() < SHARE);
}

/// Nothing tells a connection that another one holds less.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_other_connections_begins_when_they_hold_less() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(100 * SHARE, 2 * SHARE));
    let mut greedy = open_with(&service, Arc::clone(&budget)).await;
    let mut second = open_with(&service, Arc::clone(&budget)).await;
    for (peer, calls) in [(&mut second, 8), (&mut greedy, 40)] {
        for stream in (1..2 * calls).step_by(2) {
            peer.call(stream, "/unary-90000", &message_of(&[7; 90_000])).await;
            tokio::task::yield_now().await;
        }
    }
    assert!(settled(&budget).await >= 2 * SHARE);
    second.call(101, "/unary-waits", &message_of(b"later")).await;
    settled(&budget).await;
    assert_eq!((budget.deferred(), service.running.load(SeqCst)), (1, 1), "it is made and not begun");
    drop(greedy);
    service.gate.add_permits(1);
    settled(&budget).await;
    assert_eq!(service.running.load(SeqCst), 0, "it was answered");
}

/// A client that opens each window by a byte cannot have a part of every stream held for it.
#[tokio::test]
async fn bodies_are_not_asked_for_more_when_too_much_is_held() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(4 * SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    peer.write(&frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1])).await;
    peer.write(&frame(kind::WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes())).await;
    for stream in (1..2001).step_by(2) {
        let fields = [testing::headers("/waits-endless"), field("content-type", "application/grpc")].concat();
        peer.write(&frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &fields)).await;
    }
    settled(&budget).await;
    service.gate.add_permits(1000);
    let held = settled(&budget).await;
    assert!(held < 5 * SHARE, "{held} bytes are held");
}

/// Responses that are not read, of as many bytes as the connection may hold and some more.
async fn fill(peer: &mut Peer, streams: std::ops::Range<u32>) {
    for stream in streams.step_by(2) {
        peer.call(stream, "/unary", &message_of(&[7; 90_000])).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_small_call_that_waits_passes_lists_that_wait_longer() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    fill(&mut peer, 1..26).await;
    assert!(settled(&budget).await > SHARE);
    peer.call(101, "/unary-heavy-5", &message_of(b"a list")).await;
    peer.call(103, "/unary-waits", &message_of(b"small")).await;
    service.gate.add_permits(1);
    settled(&budget).await;
    assert_eq!((budget.deferred(), service.running.load(SeqCst)), (2, 1), "both are made and not begun");
    for stream in [21, 23, 25] {
        peer.write(&frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes())).await;
    }
    let held = settled(&budget).await;
    assert!((SHARE / 2..SHARE).contains(&held), "{held} bytes are held");
    assert_eq!((service.running.load(SeqCst), service.parts.load(SeqCst)), (0, 0), "the small one went on");
}

/// A body that is no message goes on as a request, which waits: the client may send more, and it
/// has to count.
#[tokio::test]
async fn bodies_of_requests_that_wait_are_bounded() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    fill(&mut peer, 1..26).await;
    let before = settled(&budget).await;
    assert!(before > SHARE);
    for stream in (101..501).step_by(2) {
        // It claims to be compressed.
        peer.call(stream, "/unary", &[&[1, 0, 1, 0, 0][..], &[7; 65536]].concat()).await;
        tokio::task::yield_now().await;
    }
    let held = settled(&budget).await;
    assert!(held - before < SHARE, "{held} bytes are held, {before} of them before");
    assert!(budget.refused() > 100, "{} were refused", budget.refused());
}

/// What others do not read is no reason to refuse what a client writes.
#[tokio::test]
async fn long_requests_are_taken_while_others_do_not_read_their_answers() {
    let (service, budget) = (Arc::new(Test::default()), Budget::new(100 * SHARE, SHARE));
    let mut greedy = open_with(&service, Arc::clone(&budget)).await;
    fill(&mut greedy, 1..40).await;
    assert!(settled(&budget).await > SHARE);
    let mut polite = open_with(&service, Arc::clone(&budget)).await;
    // All but the last byte of some messages that are long together.
    let message = message_of(&[7; 90_000]);
    for stream in (1..9).step_by(2) {
        polite.write(&frame(kind::HEADERS, flag::END_HEADERS, stream, &testing::headers("/unary"))).await;
        for part in message[1..].chunks(16 << 10) {
            polite.write(&frame(kind::DATA, 0, stream, part)).await;
        }
    }
    settled(&budget).await;
    assert_eq!(budget.refused(), 0);
}

/// The queue that all clients share is not filled by one of them: what is beyond its share waits
/// on its connection, whichever way it is served, and no call gets lost there.
#[tokio::test]
async fn calls_beyond_the_share_of_the_connection_wait_for_those_before_them() {
    for path in ["/unary-waits", "/queued-waits"] {
        let service = Arc::new(Test::default());
        service.share.store(6, SeqCst);
        let budget = budget();
        let mut peer = open_with(&service, Arc::clone(&budget)).await;
        for stream in (1..101).step_by(2) {
            peer.call(stream, path, &message_of(b"hello")).await;
        }
        // A call that takes no place does not wait behind them.
        peer.call(101, "/waits", &[]).await;
        settled(&budget).await;
        assert_eq!((budget.deferred(), begun(&service, path)), (44, 6 + 1), "{path}");
        // One of those that wait and one of those that do not are cancelled.
        for stream in [99, 1u32] {
            peer.write(&frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes())).await;
        }
        settled(&budget).await;
        assert_eq!(begun(&service, path), 6 + 1, "{path}: another one has taken its place");
        // The queue is fuller now.
        service.share.store(1, SeqCst);
        service.gate.add_permits(1000);
        let mut ended = 0;
        while ended < 49 {
            ended += peer.lines(1).await.iter().filter(|line| line.contains("END")).count();
        }
        assert!(settled(&budget).await < 16 << 10);
        assert_eq!(service.running.load(SeqCst), 0);
    }
}

/// Calls that run. Those that are polled with the connection exist before they are begun.
fn begun(service: &Test, path: &str) -> usize {
    match path {
        "/unary-waits" => service.waiting.load(SeqCst) + 1,
        _ => service.running.load(SeqCst),
    }
}

/// Found by fuzzing. The requests of calls that waited took half of what the connection may hold,
/// so none of these calls ever began.
#[tokio::test]
async fn calls_do_not_wait_for_room_that_their_own_requests_take() {
    const CALLS: u32 = 60;
    let (service, budget) = (Arc::new(Test::default()), Budget::new(SHARE, 100 * SHARE));
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    let message = message_of(&[7; 15_000]);
    for call in 0..CALLS {
        peer.call(2 * call + 1, "/unary-apart-waits", &message).await;
    }
    let held = settled(&budget).await;
    assert!(held > SHARE / 2 && budget.deferred() > 20, "{held} bytes, {} calls wait", budget.deferred());
    service.gate.add_permits(1000);
    peer.grow(1 << 30).await;
    let mut ended = 0;
    while ended < CALLS as usize {
        let ends = |line: &&String| line.contains("END grpc-status 0") || line.starts_with("RST_STREAM");
        let lines = tokio::time::timeout(Duration::from_secs(20), peer.lines(1)).await;
        ended += lines.expect("every call ends").iter().filter(ends).count();
    }
}

/// Streams cost nothing to open, and what serves them takes more than what serves a message.
#[tokio::test]
async fn requests_that_are_served_count_for_what_serves_them() {
    let (service, budget) = (Arc::new(Test::default()), budget());
    let mut peer = open_with(&service, Arc::clone(&budget)).await;
    for stream in (1..201).step_by(2) {
        peer.call(stream, "/waits", &[]).await;
    }
    let held = settled(&budget).await;
    assert!(held > 100 * (6 << 10), "{held} bytes are counted for a hundred calls");
}
