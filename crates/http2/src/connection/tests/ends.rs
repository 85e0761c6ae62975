//! How connections end.

use super::*;

async fn ended(peer: Peer) -> std::io::Result<()> {
    tokio::time::timeout(Duration::from_secs(60), peer.served).await.expect("it ends").unwrap()
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_calls_with_it() {
    for path in ["/unary-waits", "/unary-waits-apart", "/waits"] {
        let service = Arc::new(Test::default());
        let mut peer = open(&service).await;
        peer.call(1, path, &message_of(b"hello")).await;
        until("the call", || service.running.load(SeqCst) == 1).await;
        let Peer { io, served, .. } = peer;
        drop(io);
        served.await.unwrap().unwrap();
        until("the end of the call", || service.running.load(SeqCst) == 0).await;
    }
}

#[tokio::test]
async fn a_protocol_error_is_sent_and_ends_the_connection() {
    let mut peer = open(&Arc::default()).await;
    peer.write(&frame(kind::PING, 0, 0, b"short")).await;
    assert_eq!(peer.lines(1).await, ["GOAWAY 0 6"]);
    assert!(peer.frame().await.is_none());
    assert!(ended(peer).await.is_err());
}

#[tokio::test]
async fn a_farewell_waits_for_what_is_running() {
    let service = Arc::new(Test::default());
    let (mut ours, theirs) = tokio::io::duplex(1 << 20);
    let mut connection = Connection::new(theirs, Arc::clone(&service), Limits::default(), budget());
    let mut client = Client::default();
    let call = frame(kind::HEADERS, flag::END_HEADERS, 1, &testing::headers("/unary-waits"));
    let data = frame(kind::DATA, flag::END_STREAM, 1, &message_of(b"hello"));
    ours.write_all(&[testing::opening(), call, data].concat()).await.unwrap();
    let mut polled = tokio::time::timeout(Duration::from_millis(50), &mut connection).await;
    assert!(polled.is_err());
    Pin::new(&mut connection).graceful_shutdown();
    ours.write_all(&frame(kind::PING, flag::ACK, 0, b"farewell")).await.unwrap();
    polled = tokio::time::timeout(Duration::from_millis(50), &mut connection).await;
    assert!(polled.is_err(), "a call is running");
    service.gate.add_permits(1);
    connection.await.unwrap();
    let mut bytes = Vec::new();
    ours.read_to_end(&mut bytes).await.unwrap();
    let lines = client.read(&bytes);
    assert!(lines.contains(&"GOAWAY 1 0".to_string()), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "HEADERS 1 END grpc-status 0");
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_asked_and_then_given_up() {
    let limits = Limits {
        keepalive_interval: Some(Duration::from_secs(60)),
        keepalive_timeout: Duration::from_secs(20),
        ..Limits::default()
    };
    let mut peer = connect(Arc::default(), limits, budget());
    peer.write(&testing::opening()).await;
    peer.lines(3).await;
    let begun = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(30)).await;
    peer.write(&frame(kind::PING, flag::ACK, 0, b"12345678")).await;
    assert_eq!(peer.lines(1).await, ["PING are you?"]);
    assert_eq!(begun.elapsed().as_secs(), 90);
    peer.write(&frame(kind::PING, flag::ACK, 0, b"are you?")).await;
    assert_eq!(peer.lines(1).await, ["PING are you?"]);
    assert_eq!(begun.elapsed().as_secs(), 150);
    assert!(ended(peer).await.is_err());
    assert_eq!(begun.elapsed().as_secs(), 170);
}
