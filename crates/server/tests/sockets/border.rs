//! A whole process with the panic hook of the server: which bugs end a connection, and which end
//! the process.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::{HeaderMap, Request};
use http_body_util::Empty;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use vetch_base::Epoch;
use vetch_http2::frame::{HEADER_LEN, Header, PREFACE, flag, kind};
use vetch_http2::{
    Answer, Boxed, Budget, Call, Connection, Head, Incoming, Limits, Reply, Service, Weight, border,
};
use vetch_sync::Mutex;

/// Says which bug the process below has.
const BUG: &str = "VETCH_TEST_PANIC";
const ABORTED: i32 = 6;

/// Panics on the path `/bug`, in the task of the connection; answers everything else.
struct Buggy {
    bug: String,
    shared: Arc<Mutex<Bytes>>,
}

impl Buggy {
    fn panic(&self) {
        match self.bug.as_str() {
            "edge" => panic!("a bug of the edge"),
            // The panic is in a file of `bytes`.
            "library" => Bytes::from_static(b"x").advance(2),
            "library-locked" => self.shared.lock().advance(2),
            "edge-locked" => {
                let _held = self.shared.lock();
                panic!("a bug of the edge");
            }
            "core" => drop(Epoch::new(u64::MAX).next()),
            other => unreachable!("{other}"),
        }
    }
}

impl Service for Buggy {
    type Plan = ();
    type Place = ();
    type Body = Empty<Bytes>;

    fn plan(&self, head: &Head) -> Option<()> {
        if head.path == "/bug" {
            self.panic();
        }
        Some(())
    }

    fn admit(&self, _: &Arc<()>, _: usize) -> Result<(), Reply> {
        Err(Reply::Refused(HeaderMap::new()))
    }

    fn share(&self) -> usize {
        1
    }

    fn longest_message(&self) -> usize {
        1
    }

    fn unary(&self, _: &Arc<()>, (): (), _: Bytes) -> Call {
        unreachable!("no call is admitted")
    }

    fn weight(&self, _: &Head) -> Weight {
        Weight::Light
    }

    fn call(&self, _: Request<Incoming>, _: usize) -> Boxed<Answer<Empty<Bytes>>> {
        unreachable!("every call has a plan")
    }
}

struct Client(TcpStream);

impl Client {
    async fn connect(listener: &TcpListener, service: &Arc<Buggy>) -> Client {
        let address = listener.local_addr().expect("it is bound");
        let mut client = Client(TcpStream::connect(address).await.expect("it listens"));
        let (socket, _) = listener.accept().await.expect("a connection");
        let budget = Budget::new(1 << 20, 1 << 20);
        border::spawn(Connection::new(socket, Arc::clone(service), Limits::default(), budget));
        client.send(PREFACE).await;
        client.send(&frame(kind::SETTINGS, 0, 0, &[])).await;
        client
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("it is open");
    }

    /// Whether there is an answer; the connection has ended if there is none.
    async fn asks(&mut self, stream: u32, path: &str) -> bool {
        let fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x")];
        let field = |(name, value): (&str, &str)| {
            [&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
        };
        let block: Vec<u8> = fields.into_iter().flat_map(field).collect();
        self.send(&frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block)).await;
        loop {
            let mut head = [0; HEADER_LEN];
            if self.0.read_exact(&mut head).await.is_err() {
                return false;
            }
            let header = Header::parse(&head).expect("it is whole");
            let mut payload = vec![0; header.len];
            self.0.read_exact(&mut payload).await.expect("a whole frame");
            if header.kind == kind::HEADERS && header.stream == stream {
                return true;
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&Header { len: payload.len(), kind, flags, stream }.encode(), payload].concat()
}

/// The process that has the bug.
#[test]
#[ignore = "it may abort the process: the tests below start it"]
fn a_server_with_a_bug() {
    let bug = std::env::var(BUG).expect("the name of a bug");
    vetch_server::guard_process();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let service = Arc::new(Buggy { bug, shared: Arc::new(Mutex::new(Bytes::from_static(b"x"))) });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let mut victim = Client::connect(&listener, &service).await;
        let mut other = Client::connect(&listener, &service).await;
        assert!(other.asks(1, "/fine").await && victim.asks(1, "/fine").await);
        assert!(!victim.asks(3, "/bug").await, "the connection ends");
        assert!(other.asks(3, "/fine").await, "another one goes on");
        assert!(Client::connect(&listener, &service).await.asks(1, "/fine").await, "new ones are served");
        #[expect(clippy::print_stdout, reason = "its parent reads it")]
        {
            println!("contained: {}", border::contained());
        }
    });
}

fn run(bug: &str) -> Output {
    let itself = std::env::current_exe().expect("the test's own binary");
    Command::new(itself)
        .args(["--exact", "border::a_server_with_a_bug", "--ignored", "--nocapture"])
        .env(BUG, bug)
        .output()
        .expect("a process")
}

#[test]
fn a_bug_that_faces_one_client_ends_its_connection_only_and_is_counted() {
    for bug in ["edge", "library"] {
        let output = run(bug);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{bug}: {:?} {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(said.contains("contained: 1"), "{bug}: {said}");
    }
}

#[test]
fn a_bug_that_may_concern_others_ends_the_process() {
    for bug in ["library-locked", "edge-locked", "core"] {
        let status = run(bug).status;
        assert_eq!(status.signal(), Some(ABORTED), "{bug}: {status:?}");
    }
}
