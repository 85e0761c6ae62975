//! The HTTP side of a running server, byte for byte, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod bounds;
#[path = "../harness/mod.rs"]
mod harness;

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use harness::{Answer, Harness};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

fn parsed(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|e| panic!("{e}: {answer:?}"))
}

#[tokio::test]
async fn pages_are_etcds_to_the_byte() {
    let server = Harness::start().await;
    let version = server.get("/version").await;
    assert_eq!(version.body, r#"{"etcdserver":"3.7.1","etcdcluster":"3.7.0","storage":"3.7.0"}"#);
    assert_eq!(version.header("Content-Type"), Some("application/json"));
    assert_eq!(version.header("Access-Control-Allow-Origin"), Some("*"));

    let health = server.get("/health").await;
    assert_eq!((health.status, health.body.as_str()), (200, r#"{"health":"true","reason":""}"#));
    assert_eq!(server.get("/livez").await.body, "ok\n");
    assert_eq!(server.get("/livez?verbose").await.body, "[+]serializable_read ok\nok\n");
    assert_eq!(server.get("/readyz/non_learner?verbose").await.body, "[+]non_learner ok\nok\n");
    let without = server.get("/readyz?verbose&exclude=linearizable_read&exclude=nonsense").await;
    assert_eq!(without.body, "[+]data_corruption ok\n[+]serializable_read ok\n[+]non_learner ok\nok\n");

    let missing = server.get("/nope").await;
    assert_eq!((missing.status, missing.body.as_str()), (404, "404 page not found\n"));
    let post = server.send("POST", "/version", "", "").await;
    assert_eq!((post.status, post.body.as_str()), (405, "Method Not Allowed\n"));
    assert_eq!(post.header("Allow"), Some("GET"));
    assert_eq!(server.send("OPTIONS", "/v3/kv/range", "", "").await.status, 200);
}

#[tokio::test]
async fn an_alarm_makes_health_bad_and_readiness_only_if_data_is() {
    let server = Harness::start().await;
    let raise = |alarm: &str| json!({"action": "ACTIVATE", "alarm": alarm}).to_string();
    server.post("/v3/maintenance/alarm", &raise("NOSPACE")).await;
    let health = server.get("/health").await;
    assert_eq!(health.status, 503);
    assert_eq!(health.body, "{\"health\":\"false\",\"reason\":\"ALARM NOSPACE\"}\n");
    assert_eq!(server.get("/health?exclude=NOSPACE").await.status, 200);
    assert_eq!(server.get("/readyz").await.status, 200);

    server.post("/v3/maintenance/alarm", &raise("CORRUPT")).await;
    let ready = server.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("[-]data_corruption failed: alarm activated: CORRUPT\n"), "{}", ready.body);
    assert_eq!(server.get("/livez").await.status, 200);
}

#[tokio::test]
async fn the_gateway_answers_as_the_services_do() {
    let server = Harness::start().await;
    let put = server.post("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#).await;
    assert_eq!(parsed(&put)["header"]["revision"], "2");
    assert_eq!(put.header("Grpc-Metadata-Content-Type"), Some("application/grpc"));

    let got = parsed(&server.post("/v3beta/kv/range", r#"{"key":"Zm9v","unknown":[1]}"#).await);
    let kv =
        json!({"key": "Zm9v", "create_revision": "2", "mod_revision": "2", "version": "1", "value": "YmFy"});
    assert_eq!((&got["kvs"], &got["count"]), (&json!([kv]), &json!("1")));

    let empty = server.post("/v3/kv/range", "").await;
    assert_eq!(empty.status, 400);
    assert_eq!(empty.body, r#"{"code":3,"message":"etcdserver: key is not provided"}"#);
    let missing = server.post("/v3/lease/revoke", r#"{"ID":5}"#).await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.body, r#"{"code":5,"message":"etcdserver: requested lease not found"}"#);

    let get = server.get("/v3/kv/range").await;
    assert_eq!((get.status, get.body.as_str()), (501, r#"{"code":12,"message":"Method Not Allowed"}"#));
    let nothing = server.post("/v3/kv/rangestream", "{}").await;
    assert_eq!((nothing.status, nothing.body.as_str()), (404, r#"{"code":5,"message":"Not Found"}"#));
    assert_eq!(server.post("/v3/kv/range", "{").await.body, r#"{"code":3,"message":"unexpected EOF"}"#);
}

#[tokio::test]
async fn a_body_too_large_is_refused_and_not_read() {
    let server = Harness::start().await;
    let body = format!("{{\"key\":\"{}\"}}", "A".repeat(5 << 20));
    let refused = server.post("/v3/kv/range", &body).await;
    assert_eq!(refused.status, 429, "{}", refused.body);
    // Within the limit of the JSON and above that of the message.
    let body = format!("{{\"key\":\"{}\"}}", "A".repeat(3 << 20));
    let refused = server.post("/v3/kv/range", &body).await;
    assert!(refused.body.contains("grpc: received message larger than max"), "{}", refused.body);
}

#[tokio::test]
async fn a_request_stream_may_stay_open() {
    let server = Harness::start().await;
    let mut stream = server.open_stream("/v3/watch").await;
    stream.send_chunk(r#"{"create_request":{"key":"Zm9v"}}{"create_request":{"key":"#).await;
    assert_eq!(stream.line().await["result"]["created"], true);
    // The second request was cut in the middle.
    stream.send_chunk(r#""YmFy","watch_id":"7"}}"#).await;
    assert_eq!(stream.line().await["result"]["watch_id"], "7");
    server.post("/v3/kv/put", r#"{"key":"YmFy","value":"eA=="}"#).await;
    let event = stream.line().await;
    assert_eq!(event["result"]["watch_id"], "7");
    assert_eq!(event["result"]["events"][0]["kv"]["value"], "eA==");
    stream.send_chunk(r#"{"cancel_request":{"watch_id":"7"}}"#).await;
    assert_eq!(stream.line().await["result"]["canceled"], true);
}

/// A client that leaves in the middle of its requests watches nothing any more, whichever protocol
/// it spoke.
#[tokio::test]
async fn a_client_that_leaves_with_its_body_open_is_no_watcher() {
    let server = Harness::start().await;
    let create = r#"{"create_request":{"key":"Zm9v"}}"#;
    let mut stream = server.open_stream("/v3/watch").await;
    stream.send_chunk(create).await;
    assert_eq!(stream.line().await["result"]["created"], true);
    // In the middle of the next request, which is longer than it seems.
    stream.send_chunk(r#"{"create_request":"#).await;
    let mut second = server.open_http2("/v3/watch").await;
    second.send_data(create).await;
    assert!(second.received().await.contains(r#""created":true"#));
    let mut reset = server.open_http2("/v3/watch").await;
    reset.send_data(create).await;
    assert!(reset.received().await.contains(r#""created":true"#));
    reset.send_reset().await;
    server.until_metric("etcd_debugging_mvcc_watcher_total", 2).await;
    drop(second);
    server.until_metric("etcd_debugging_mvcc_watcher_total", 1).await;
    drop(stream);
    server.until_metric("etcd_debugging_mvcc_watcher_total", 0).await;
    server.until_metric("etcd_debugging_mvcc_watch_stream_total", 0).await;
    drop(reset);
}

#[tokio::test]
async fn a_websocket_is_a_stream_too() {
    let server = Harness::start().await;
    let mut socket = server.open_websocket("/v3/watch").await;
    socket.send(Message::text(r#"{"create_request":{"key":"Zm9v"}}"#)).await.unwrap();
    let created: Value =
        serde_json::from_str(socket.next().await.unwrap().unwrap().to_text().unwrap()).unwrap();
    assert_eq!(created["result"]["created"], true);
    server.post("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#).await;
    let event: Value =
        serde_json::from_str(socket.next().await.unwrap().unwrap().to_text().unwrap()).unwrap();
    assert_eq!(event["result"]["events"][0]["kv"]["value"], "YmFy");

    let mut lost = server.open_websocket("/v3/nope").await;
    let refusal = lost.next().await.unwrap().unwrap();
    assert_eq!(refusal.to_text().unwrap(), r#"{"code":5,"message":"Not Found"}"#);
}

#[tokio::test]
async fn streams_end_when_the_server_does() {
    let server = Harness::start().await;
    let mut stream = server.open_stream("/v3/watch").await;
    stream.send_chunk(r#"{"create_request":{"key":"Zm9v"}}"#).await;
    assert_eq!(stream.line().await["result"]["created"], true);
    let stopping = tokio::spawn(server.stop());
    let last = stream.line().await;
    assert_eq!(last["error"]["code"], 14, "{last}");
    tokio::time::timeout(Duration::from_secs(10), stopping).await.expect("it stops in time").unwrap();
}

#[tokio::test]
async fn metrics_tell_what_happened() {
    let server = Harness::start().await;
    server.post("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#).await;
    server.post("/v3/kv/range", "").await;
    let page = server.get("/metrics").await.body;
    let range = r#"grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary""#;
    for line in [
        "etcd_mvcc_put_total 1".to_string(),
        "etcd_debugging_mvcc_current_revision 2".to_string(),
        "etcd_server_has_leader 1".to_string(),
        format!("grpc_server_handled_total{{grpc_code=\"InvalidArgument\",{range}}} 1"),
        format!("grpc_server_msg_received_total{{{range}}} 1"),
    ] {
        assert!(page.lines().any(|l| l == line), "{line} is missing");
    }
    let mut families: Vec<&str> = page.lines().filter_map(|l| l.strip_prefix("# TYPE ")).collect();
    let count = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), count, "every family once");
}

/// The token goes where every HTTP client puts one, and a refusal has HTTP's status for its reason.
#[tokio::test]
async fn the_gateway_passes_credentials_on() {
    let server = Harness::start().await;
    for (path, body) in [
        ("/v3/auth/user/add", r#"{"name":"root","password":"pw"}"#),
        ("/v3/auth/user/add", r#"{"name":"guest","password":"pw"}"#),
        ("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("/v3/auth/enable", "{}"),
    ] {
        assert_eq!(server.post(path, body).await.status, 200, "{path}");
    }
    let range = r#"{"key":"YQ=="}"#;
    let refused = server.post("/v3/kv/range", range).await;
    let expected = json!({"code": 3, "message": "etcdserver: user name is empty"});
    assert_eq!((refused.status, parsed(&refused)), (400, expected));
    let wrong = server.post("/v3/auth/authenticate", r#"{"name":"root","password":"no"}"#).await;
    assert_eq!(wrong.status, 400);
    let mut tokens = Vec::new();
    for user in ["root", "guest"] {
        let login = format!(r#"{{"name":"{user}","password":"pw"}}"#);
        let answer = parsed(&server.post("/v3/auth/authenticate", &login).await);
        tokens.push(answer["token"].as_str().unwrap().to_owned());
    }
    for (header, status) in [
        (format!("Authorization: {}\r\n", tokens[0]), 200),
        (format!("Authorization: Bearer {}\r\n", tokens[0]), 200),
        (format!("Grpc-Metadata-Token: {}\r\n", tokens[0]), 200),
        (format!("Authorization: {}\r\n", tokens[1]), 403),
        ("Authorization: nonsense\r\n".to_owned(), 401),
    ] {
        let answer = server.send("POST", "/v3/kv/range", &header, range).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    server.stop().await;
}
