//! What is held for clients of HTTP/1 and of the gateway, and what becomes of those that hold too
//! much.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use vetch_server::http::{Security, Settings, Timeouts};

use super::harness::Harness;

const MIB: usize = 1 << 20;
const TOO_MANY: &str = r#"{"code":8,"message":"etcdserver: too many requests"}"#;

async fn server(change: impl FnOnce(&mut Settings)) -> Harness {
    let mut settings = Settings::default();
    change(&mut settings);
    Harness::start_as(Security::Plain, settings).await
}

/// Everything that comes until the connection is closed.
async fn rest(mut connection: TcpStream) -> String {
    let mut text = Vec::new();
    let reading = connection.read_to_end(&mut text);
    // Whether it ends well or not, what came before counts.
    let _ = tokio::time::timeout(Duration::from_secs(20), reading).await.expect("the connection is closed");
    String::from_utf8_lossy(&text).into_owned()
}

fn post(path: &str, announced: usize, body: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {announced}\r\n\r\n{body}").into_bytes()
}

#[tokio::test]
async fn bodies_that_lack_their_end_are_refused_when_they_are_too_much() {
    let server = server(|settings| settings.max_client_bytes = 2 * MIB).await;
    let body = format!(r#"{{"key":"{}"#, "A".repeat(700_000));
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(server.raw(&post("/v3/kv/put", 800_000, &body)).await);
    }
    server.until("vetch_requests_refused_total", |refused| refused >= 4).await;
    let bytes = server.metric("vetch_client_bytes").await as usize;
    assert!((MIB..2 * MIB + 8 * (256 << 10)).contains(&bytes), "{bytes} bytes are held");
    // Who asks for little is served.
    assert_eq!(server.post("/v3/kv/put", r#"{"key":"Zm9v"}"#).await.status, 200);
    let mut refused = 0;
    for connection in held {
        // Those that were not refused are still open.
        if let Ok(text) = tokio::time::timeout(Duration::from_millis(200), rest(connection)).await {
            assert!(text.starts_with("HTTP/1.1 429 ") && text.ends_with(TOO_MANY), "{text}");
            refused += 1;
        }
    }
    assert!((4..8).contains(&refused), "{refused} of 8 are refused");
    server.until_metric("vetch_client_bytes", 0).await;
}

/// The same over HTTP/2, where one connection has many bodies.
#[tokio::test]
async fn bodies_over_http2_are_counted_for_their_connection() {
    let server = server(|settings| settings.max_connection_bytes = MIB).await;
    let mut connection = server.open_http2("/v3/kv/put").await;
    let part = "A".repeat(16_000);
    for _ in 0..100 {
        connection.send_data(&part).await;
    }
    assert_eq!(connection.received().await, TOO_MANY);
    assert!(server.metric("vetch_requests_refused_total").await > 0);
    drop(connection);
    server.until_metric("vetch_client_bytes", 0).await;
}

#[tokio::test]
async fn requests_of_a_stream_that_lack_their_end_are_refused_too() {
    let server = server(|settings| settings.max_connection_bytes = MIB).await;
    let mut stream = server.open_stream("/v3/watch").await;
    stream.send_chunk(r#"{"create_request":{"key":"Zm9v"}}"#).await;
    assert_eq!(stream.line().await["result"]["created"], true);
    stream.send_chunk(&format!(r#"{{"create_request":{{"key":"{}"#, "A".repeat(2 * MIB))).await;
    let end = stream.line().await;
    assert_eq!(end["error"]["message"], "etcdserver: too many requests", "{end}");
    server.until_metric("etcd_debugging_mvcc_watcher_total", 0).await;
    server.until_metric("vetch_client_bytes", 0).await;
}

#[tokio::test]
async fn websockets_count_what_is_no_whole_message() {
    let server = server(|settings| settings.max_client_bytes = 2 * MIB).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut socket = server.open_websocket("/v3/watch").await;
        // A text of 800,000 bytes, of which 700,000 come.
        let head = [&[0x81, 0xFF][..], &800_000u64.to_be_bytes(), &[0; 4]].concat();
        let _ = socket.get_mut().write_all(&[head, vec![b' '; 700_000]].concat()).await;
        held.push(socket);
    }
    server.until("vetch_requests_refused_total", |refused| refused >= 4).await;
    assert!((server.metric("vetch_client_bytes").await as usize) < 2 * MIB + 8 * (256 << 10));
    drop(held);
    server.until_metric("vetch_client_bytes", 0).await;
}

/// Eight values of a megabyte each, and a request for all of them.
async fn with_large_answer(server: &Harness) -> Vec<u8> {
    let value = "A".repeat(1_300_000);
    for key in ["YQ==", "Yg==", "Yw==", "ZA==", "ZQ==", "Zg==", "Zw==", "aA=="] {
        let put = server.post("/v3/kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#)).await;
        assert_eq!(put.status, 200, "{}", put.body);
    }
    let range = r#"{"key":"YQ==","range_end":"eg=="}"#;
    post("/v3/kv/range", range.len(), range)
}

#[tokio::test]
async fn answers_that_are_not_read_count_and_further_long_ones_are_refused() {
    let server = server(|settings| settings.max_client_bytes = 16 * MIB).await;
    let range = with_large_answer(&server).await;
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(server.raw(&range).await);
    }
    server.until("vetch_requests_refused_total", |refused| refused >= 6).await;
    let bytes = server.metric("vetch_client_bytes").await as usize;
    assert!((8 * MIB..40 * MIB).contains(&bytes), "{bytes} bytes are held");
    assert_eq!(server.post("/v3/kv/range", r#"{"key":"Zm9v"}"#).await.status, 200);
    let long = server.post("/v3/kv/range", r#"{"key":"YQ==","range_end":"eg=="}"#).await;
    assert_eq!((long.status, long.body.as_str()), (429, TOO_MANY));
    drop(held);
    server.until_metric("vetch_client_bytes", 0).await;
    let long = server.post("/v3/kv/range", r#"{"key":"YQ==","range_end":"eg=="}"#).await;
    assert_eq!((long.status, long.body.len() > 10_000_000), (200, true));
}

#[tokio::test]
async fn an_answer_that_is_not_read_for_long_is_given_up() {
    let unread = Duration::from_millis(300);
    let server =
        server(|settings| settings.timeouts = Timeouts { unread_response: unread, ..Timeouts::default() })
            .await;
    let range = with_large_answer(&server).await;
    let before = server.metric("vetch_connections_total").await;
    let held = server.raw(&range).await;
    server.until("vetch_connections_total", |connections| connections > before).await;
    server.until_metric("vetch_client_bytes", 0).await;
    // What the kernel had taken of it comes, and then the end.
    assert!(rest(held).await.len() < 10_000_000);
}

#[tokio::test]
async fn a_body_that_does_not_go_on_is_answered() {
    let part = Duration::from_millis(200);
    let server =
        server(|settings| settings.timeouts = Timeouts { body_chunk: part, ..Timeouts::default() }).await;
    let slow = r#"{"code":4,"message":"the request body did not arrive in time"}"#;
    let answer = rest(server.raw(&post("/v3/kv/put", 100, "{")).await).await;
    assert!(answer.starts_with("HTTP/1.1 504 ") && answer.ends_with(slow), "{answer}");
    let mut connection = server.open_http2("/v3/kv/put").await;
    connection.send_data("{").await;
    assert_eq!(connection.received().await, slow);
}

/// hyper reads no more than it needs for an answer, so it does not see who leaves behind more than
/// that.
#[tokio::test]
async fn a_client_that_leaves_unheard_is_no_watcher() {
    let look = Duration::from_millis(50);
    let server = server(|settings| {
        settings.timeouts = Timeouts { disconnect_check_interval: look, ..Timeouts::default() }
    })
    .await;
    let create = r#"{"create_request":{"key":"Zm9v"}}"#;
    let mut pipelined = server.open_stream("/v3/watch").await;
    pipelined.send_chunk(create).await;
    assert_eq!(pipelined.line().await["result"]["created"], true);
    pipelined.end_and_ask_more().await;
    let mut nonsense = server.open_stream("/v3/watch").await;
    nonsense.send_chunk(create).await;
    nonsense.send_chunk("}").await;
    assert_eq!(nonsense.line().await["result"]["created"], true);
    server.until_metric("etcd_debugging_mvcc_watcher_total", 2).await;
    drop((pipelined, nonsense));
    server.until_metric("etcd_debugging_mvcc_watcher_total", 0).await;
}

/// Watches `count` keys on a connection of its own. How many of the watches were accepted.
async fn watch(server: &Harness, count: usize) -> (super::harness::Stream, usize) {
    let mut stream = server.open_stream("/v3/watch").await;
    stream.send_chunk(&r#"{"create_request":{"key":"Zm9v"}}"#.repeat(count)).await;
    let mut accepted = 0;
    for _ in 0..count {
        let answer = stream.line().await;
        let answer = &answer["result"];
        assert_eq!(answer["created"], true);
        if answer["canceled"] == true {
            let reason = "rpc error: code = Unknown desc = etcdserver: too many requests";
            assert_eq!((&answer["cancel_reason"], &answer["watch_id"]), (&reason.into(), &"-1".into()));
        } else {
            accepted += 1;
        }
    }
    (stream, accepted)
}

#[tokio::test]
async fn watchers_are_bounded_for_one_connection_and_for_all() {
    let server = server(|settings| {
        (settings.max_connection_watch_bytes, settings.max_watch_bytes) = (MIB, 2 * MIB);
    })
    .await;
    let each = 768 + 2 * 3;
    let (mut first, accepted) = watch(&server, 1500).await;
    assert_eq!(accepted, MIB / each);
    assert_eq!(server.metric("vetch_watches_refused_total").await as usize, 1500 - accepted);
    // There is room again for as many as are cancelled.
    first.send_chunk(r#"{"cancel_request":{"watch_id":"3"}}{"create_request":{"key":"Zm9v"}}"#).await;
    assert_eq!(first.line().await["result"]["canceled"], true);
    assert_eq!(first.line().await["result"]["canceled"], serde_json::Value::Null);
    let (second, more) = watch(&server, 1500).await;
    assert_eq!(more, accepted);
    // A client with few watchers may have them, whatever others have.
    let (third, few) = watch(&server, 500).await;
    assert_eq!(few, (256 << 10) / each);
    assert_eq!(server.metric("etcd_debugging_mvcc_watcher_total").await as usize, accepted + more + few);
    drop((first, second, third));
    server.until_metric("vetch_watch_bytes", 0).await;
    server.until_metric("etcd_debugging_mvcc_watcher_total", 0).await;
}

/// A watcher that compaction cancelled keeps its id until the client cancels it, which it need not
/// do.
#[tokio::test]
async fn watchers_that_compaction_cancelled_count() {
    let limit = 300 << 10;
    let server = server(|settings| settings.max_connection_watch_bytes = limit).await;
    for _ in 0..3 {
        server.post("/v3/kv/put", r#"{"key":"Zm9v"}"#).await;
    }
    assert_eq!(server.post("/v3/kv/compaction", r#"{"revision":"3"}"#).await.status, 200);
    let mut stream = server.open_stream("/v3/watch").await;
    let (mut cancelled, mut refused) = (0, 0);
    while refused < 10 {
        stream.send_chunk(&r#"{"create_request":{"key":"Zm9v","start_revision":"1"}}"#.repeat(100)).await;
        for end in cancelled + refused..cancelled + refused + 100 {
            // Each is created first, and then cancelled, unless it is refused.
            let answer = loop {
                let answer = stream.line().await;
                if answer["result"]["canceled"] == true {
                    break answer;
                }
            };
            match &answer["result"]["cancel_reason"] {
                serde_json::Value::String(reason) if reason.contains("too many requests") => refused += 1,
                _ => cancelled += 1,
            }
            assert!(end < 10_000, "{cancelled} watches were cancelled, and none refused");
        }
    }
    // 64 bytes each, and what the last ones take that are not cancelled yet.
    let most = limit / 64;
    assert!((most - 2000..=most).contains(&cancelled), "{cancelled} were cancelled, {refused} refused");
    drop(stream);
    server.until_metric("vetch_watch_bytes", 0).await;
}

/// A call that does not come as one whole message, and an answer that is no list of keys, are
/// counted like any other.
#[tokio::test]
async fn lists_of_leases_wait_until_others_are_read() {
    let server = server(|settings| settings.max_connection_bytes = MIB).await;
    for lease in 1..=500 {
        let grant = format!(r#"{{"ID":"{}","TTL":"3600"}}"#, (1i64 << 60) + lease);
        assert_eq!(server.post("/v3/lease/grant", &grant).await.status, 200);
    }
    let connection = server.open_unread("/etcdserverpb.Lease/LeaseLeases", 400).await;
    server.until("vetch_calls_deferred_total", |deferred| deferred > 200).await;
    let bytes = server.metric("vetch_client_bytes").await as usize;
    assert!(bytes < 2 * MIB, "{bytes} bytes are held");
    let made = r#"grpc_server_msg_sent_total{grpc_method="LeaseLeases",grpc_service="etcdserverpb.Lease",grpc_type="unary"}"#;
    let made = server.metric(made).await;
    assert!(made < 100, "{made} answers were made for a client that reads none");
    drop(connection);
    server.until_metric("vetch_client_bytes", 0).await;
}
