//! A server on a free port, and a client that shows every byte.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use vetch_checkpoint::identity::Identity;
use vetch_metrics::ServerMetrics;
use vetch_node::Node;
use vetch_node::config::NodeConfig;
use vetch_server::grpc;
use vetch_server::http::listen;
use vetch_server::http::url::Url;
use vetch_server::http::{ListenerConfig, Security, Server, ServerState, Serves, Settings};

pub(crate) struct Harness {
    node: Node,
    server: Server,
    pub(crate) address: String,
    _dir: tempfile::TempDir,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

impl Harness {
    pub(crate) async fn start() -> Harness {
        Harness::start_with(Security::Plain).await
    }

    pub(crate) async fn start_with(security: Security) -> Harness {
        Harness::start_as(security, Settings::default()).await
    }

    pub(crate) async fn start_as(security: Security, settings: Settings) -> Harness {
        let dir = tempfile::tempdir().unwrap();
        let mut config = NodeConfig::new(dir.path().into(), Identity { cluster_id: 1, member_id: 2 });
        config.unsafe_no_fsync = true;
        let opening = tokio::task::spawn_blocking(move || Node::open(config, |_| {}));
        let node = opening.await.unwrap().unwrap();
        let listener = listen::bind(&Url::parse("http://127.0.0.1:0").unwrap(), false).await.unwrap();
        let address = listener.address();
        let metrics = Arc::new(ServerMetrics::new(false, Duration::MAX));
        let routes = grpc::routes(node.clone(), Arc::default(), Arc::clone(&metrics));
        let shared = ServerState::new(node.clone(), routes, metrics, settings);
        let config = ListenerConfig { serves: Serves::GrpcAndHttp, security };
        let server = Server::start(Arc::new(shared), vec![(listener, config)]);
        Harness { node, server, address, _dir: dir }
    }

    pub(crate) async fn stop(mut self) {
        self.server.drain(Duration::from_millis(200)).await;
        self.node.shutdown().await;
        self.server.drain(Duration::from_secs(1)).await;
        self.server.stop().await;
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.send("POST", path, "", body).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut connection = TcpStream::connect(&self.address).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        // A server that refuses a long body may close before all of it is sent.
        let _ = connection.write_all(body.as_bytes()).await;
        let mut text = Vec::new();
        let _ = connection.read_to_end(&mut text).await;
        parse(&String::from_utf8(text).unwrap())
    }

    /// The value of a metric without labels.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let page = self.get("/metrics").await.body;
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("there is no {name}")).parse::<f64>().unwrap() as u64
    }

    /// Waits until a metric has this value.
    pub(crate) async fn until_metric(&self, name: &str, value: u64) {
        self.until(name, |found| found == value).await;
    }

    pub(crate) async fn until(&self, name: &str, is_it: impl Fn(u64) -> bool) {
        let mut last = 0;
        for _ in 0..1000 {
            last = self.metric(name).await;
            if is_it(last) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{name} stays {last}");
    }

    /// A connection on which the test writes and reads what it likes, and for which the kernel
    /// keeps little.
    pub(crate) async fn raw(&self, first: &[u8]) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut connection = socket.connect(self.address.parse().unwrap()).await.unwrap();
        // A server that refuses may close before all of it is sent.
        let _ = connection.write_all(first).await;
        connection
    }

    /// A POST over HTTP/2 whose body is sent part by part, on a connection of its own.
    pub(crate) async fn open_http2(&self, path: &str) -> Http2 {
        let mut connection = TcpStream::connect(&self.address).await.unwrap();
        let mut opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        opening.extend(frame(4, 0, 0, b""));
        opening.extend(frame(1, 4, 1, &fields(path, &[])));
        connection.write_all(&opening).await.unwrap();
        Http2 { connection }
    }

    /// gRPC calls with an empty message each, on a connection that lets no answer through.
    pub(crate) async fn open_unread(&self, path: &str, calls: u32) -> TcpStream {
        let mut connection = TcpStream::connect(&self.address).await.unwrap();
        let mut opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // The initial window of streams.
        opening.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
        let fields = fields(path, &[("content-type", "application/grpc"), ("te", "trailers")]);
        for call in 0..calls {
            opening.extend(frame(1, 4, 2 * call + 1, &fields));
            opening.extend(frame(0, 1, 2 * call + 1, &[0; 5]));
        }
        connection.write_all(&opening).await.unwrap();
        connection
    }

    pub(crate) async fn open_websocket(&self, path: &str) -> WebSocketStream<TcpStream> {
        let connection = TcpStream::connect(&self.address).await.unwrap();
        let url = format!("ws://{}{path}", self.address);
        tokio_tungstenite::client_async(url, connection).await.unwrap().0
    }

    /// A POST whose body is sent chunk by chunk.
    pub(crate) async fn open_stream(&self, path: &str) -> Stream {
        let mut connection = TcpStream::connect(&self.address).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        Stream { connection: BufReader::new(connection) }
    }
}

/// The header block of a POST. Every field is a literal without indexing, as it is.
fn fields(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let first = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x")];
    let mut fields = Vec::new();
    for (name, value) in first.iter().chain(more) {
        fields.extend([0, name.len() as u8]);
        fields.extend(name.as_bytes());
        fields.push(value.len() as u8);
        fields.extend(value.as_bytes());
    }
    fields
}

fn parse(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.map(|l| l.split_once(": ").unwrap()).map(|(n, v)| (n.into(), v.into())).collect();
    Answer { status, headers, body: body.into() }
}

pub(crate) struct Stream {
    connection: BufReader<TcpStream>,
}

impl Stream {
    pub(crate) async fn send_chunk(&mut self, data: &str) {
        let chunk = format!("{:x}\r\n{data}\r\n", data.len());
        self.connection.get_mut().write_all(chunk.as_bytes()).await.unwrap();
    }

    /// Ends the body, and sends the beginning of another request behind it.
    pub(crate) async fn end_and_ask_more(&mut self) {
        self.connection.get_mut().write_all(b"0\r\n\r\nGET /version HTTP/1.1\r\n").await.unwrap();
    }

    /// The next line of JSON, past headers and chunk lengths.
    pub(crate) async fn line(&mut self) -> Value {
        loop {
            let mut line = String::new();
            let reading = self.connection.read_line(&mut line);
            let read = tokio::time::timeout(Duration::from_secs(10), reading).await.expect("a line in time");
            assert_ne!(read.unwrap(), 0, "the stream ended");
            if line.starts_with('{') {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }
}

/// One stream of HTTP/2, of which the test sees what it reads.
pub(crate) struct Http2 {
    connection: TcpStream,
}

impl Http2 {
    pub(crate) async fn send_data(&mut self, data: &str) {
        self.connection.write_all(&frame(0, 0, 1, data.as_bytes())).await.unwrap();
    }

    pub(crate) async fn send_reset(&mut self) {
        self.connection.write_all(&frame(3, 0, 1, &8u32.to_be_bytes())).await.unwrap();
    }

    /// The payload of the next frame with data.
    pub(crate) async fn received(&mut self) -> String {
        let reading = async {
            loop {
                let mut head = [0; 9];
                self.connection.read_exact(&mut head).await.unwrap();
                let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let mut payload = vec![0; len];
                self.connection.read_exact(&mut payload).await.unwrap();
                if head[3] == 0 {
                    return String::from_utf8(payload).unwrap();
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), reading).await.expect("an answer in time")
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}
