//! A cluster of three nats-server processes, which can be killed, paused and started again.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vetch_nats::{Login, NatsLog, Options};

pub(crate) const SERVERS: usize = 3;

pub(crate) struct Cluster {
    dir: tempfile::TempDir,
    servers: Vec<Server>,
    password: String,
    streams: AtomicU64,
}

struct Server {
    port: u16,
    process: Option<Child>,
}

/// How a cluster is set up.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) sync_always: bool,
}

impl Cluster {
    pub(crate) fn start(setup: Setup) -> Cluster {
        let dir = tempfile::tempdir().expect("a directory");
        let ports = free_ports(2 * SERVERS);
        let random = std::collections::hash_map::RandomState::new();
        let password = format!("{:x}", std::hash::BuildHasher::hash_one(&random, dir.path()));
        let servers = (0..SERVERS).map(|at| Server { port: ports[at], process: None }).collect();
        let mut cluster = Cluster { dir, servers, password, streams: AtomicU64::new(0) };
        for at in 0..SERVERS {
            let config = cluster.config(at, &ports[SERVERS..], setup);
            fs::write(cluster.path(at, "conf"), config).expect("written");
        }
        (0..SERVERS).for_each(|at| cluster.run(at));
        cluster
    }

    fn config(&self, at: usize, routes: &[u16], setup: Setup) -> String {
        let urls: Vec<String> = routes.iter().map(|port| format!("nats-route://127.0.0.1:{port}")).collect();
        let sync = if setup.sync_always { "always" } else { "2m" };
        format!(
            "server_name: n{at}\nlisten: 127.0.0.1:{port}\nmax_payload: 8MB\n\
             jetstream {{ store_dir: \"{store}\", sync_interval: {sync} }}\n\
             accounts {{ SYS {{ users: [{{user: sys, password: \"{password}\"}}] }}\n\
             APP {{ jetstream: enabled, users: [{{user: app, password: \"{password}\"}}] }} }}\n\
             system_account: SYS\n\
             cluster {{ name: vetch, listen: 127.0.0.1:{route}, routes: [{urls}] }}\n",
            port = self.servers[at].port,
            store = self.path(at, "data").display(),
            password = self.password,
            route = routes[at],
            urls = urls.join(", "),
        )
    }

    fn path(&self, at: usize, what: &str) -> PathBuf {
        self.dir.path().join(format!("n{at}.{what}"))
    }

    pub(crate) fn run(&mut self, at: usize) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path(at, "log")).expect("a log");
        let mut command = Command::new(binary());
        command.arg("-c").arg(self.path(at, "conf")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.servers[at].process = Some(command.spawn().expect("nats-server starts"));
    }

    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.servers[at].process.take() {
            process.kill().expect("it was running");
            process.wait().expect("it ends");
        }
    }

    /// SIGSTOP and SIGCONT.
    pub(crate) fn signal(&self, at: usize, signal: &str) {
        let process = self.servers[at].process.as_ref().expect("it runs");
        let sent = Command::new("kill").arg(signal).arg(process.id().to_string()).status();
        assert!(sent.expect("kill runs").success());
    }

    pub(crate) fn options(&self, stream: &str) -> Options {
        let urls = self.servers.iter().map(|server| format!("nats://127.0.0.1:{}", server.port)).collect();
        let login = |name: &str| Login::User { name: name.into(), password: self.password.clone() };
        Options { login: login("app"), system: Some(login("sys")), ..Options::new(urls, stream) }
    }

    pub(crate) fn new_stream(&self) -> String {
        format!("s{}", self.streams.fetch_add(1, Ordering::Relaxed))
    }

    /// Opens a stream, waiting until the cluster can make one.
    pub(crate) fn open(&self, stream: &str) -> NatsLog {
        let begun = Instant::now();
        loop {
            match NatsLog::open(&self.options(stream)) {
                Ok(log) => return log,
                Err(error) if begun.elapsed() > Duration::from_secs(40) => panic!("{error}\n{}", self.logs()),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// Which server leads the stream now.
    pub(crate) fn leader(&self, stream: &str) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let Options { urls, .. } = self.options(stream);
        let begun = Instant::now();
        loop {
            let leader = runtime.block_on(async {
                let login =
                    async_nats::ConnectOptions::new().user_and_password("app".into(), self.password.clone());
                let servers: Vec<async_nats::ServerAddr> =
                    urls.iter().map(|url| url.parse().expect("an address")).collect();
                let client = login.connect(servers).await.ok()?;
                let stream = async_nats::jetstream::new(client).get_stream(stream).await.ok()?;
                let leader = stream.cached_info().cluster.as_ref()?.leader.clone()?;
                leader.strip_prefix('n')?.parse::<usize>().ok()
            });
            if let Some(leader) = leader {
                return leader;
            }
            assert!(begun.elapsed() < Duration::from_secs(40), "no leader\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn logs(&self) -> String {
        (0..SERVERS).map(|at| last_lines(&self.path(at, "log"))).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for server in &mut self.servers {
            if let Some(mut process) = server.process.take() {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

fn last_lines(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n") + "\n"
}

fn binary() -> PathBuf {
    let home = std::env::var("VETCH_NATS")
        .expect("VETCH_NATS names the directory of nats-server: run scripts/test nats");
    Path::new(&home).join("nats-server")
}

fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("bound").port()).collect()
}
