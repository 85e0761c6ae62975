//! A server under trial: etcd or Vetch as a child process on loopback, or on a host of a simulated
//! network, with a data directory of its own.
//!
//! Both kinds take the same flags, so nothing here asks which one it is, apart from where the
//! binary lies. Guarantees: `start` returns only when the server says it is ready and accepts
//! connections; a dropped server is killed and, unless the directory was given from outside, its
//! files are removed.

use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// What both servers write to their log once clients may come.
pub(crate) const READY: &str = "ready to serve client requests";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Etcd,
    Vetch,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Etcd => "etcd",
            Kind::Vetch => "vetch",
        }
    }

    /// etcd comes from the peers' cache, Vetch from beside this very program, so one `cargo build`
    /// makes both agree. `ETCD_BIN` and `VETCH_BIN` override.
    pub(crate) fn binary(self) -> Result<PathBuf> {
        let path = match self {
            Kind::Etcd => match std::env::var_os("ETCD_BIN") {
                Some(path) => PathBuf::from(path),
                None => peers()?.join("etcd"),
            },
            Kind::Vetch => match std::env::var_os("VETCH_BIN") {
                Some(path) => PathBuf::from(path),
                None => std::env::current_exe()?.with_file_name("vetch"),
            },
        };
        ensure!(path.exists(), "{} is not built: {} does not exist", self.name(), path.display());
        Ok(path)
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Kind> {
        match text {
            "etcd" => Ok(Kind::Etcd),
            "vetch" => Ok(Kind::Vetch),
            other => bail!("unknown server kind {other:?}: etcd or vetch"),
        }
    }
}

/// Where `scripts/peers.sh` left etcd's binaries.
pub(crate) fn peers() -> Result<PathBuf> {
    let cache = match (std::env::var_os("VETCH_CACHE"), std::env::var_os("XDG_CACHE_HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(xdg)) => Path::new(&xdg).join("vetch"),
        (None, None) => Path::new(&std::env::var_os("HOME").context("no HOME")?).join(".cache/vetch"),
    };
    let bin = cache.join("etcd-3.7.1/bin");
    ensure!(bin.join("etcd").exists(), "etcd 3.7.1 is not built: run scripts/peers.sh first");
    Ok(bin)
}

/// How to start one server; the default is a fresh temporary directory and no flags beyond the
/// addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Flags after the common ones.
    pub(crate) flags: Vec<String>,
    /// A directory that outlives the server; none means a temporary one.
    pub(crate) data_dir: Option<PathBuf>,
}

/// Where a server runs.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) address: Ipv4Addr,
    /// The program that starts a process there, with its arguments; none starts it here.
    pub(crate) enter: Vec<String>,
}

impl Site {
    /// This host.
    pub(crate) fn here() -> Site {
        Site { address: Ipv4Addr::LOCALHOST, enter: Vec::new() }
    }

    /// A command that runs `program` there.
    pub(crate) fn command(&self, program: &Path) -> Command {
        match self.enter.as_slice() {
            [] => Command::new(program),
            [enter, arguments @ ..] => {
                let mut command = Command::new(enter);
                command.args(arguments).arg(program);
                command
            }
        }
    }
}

pub(crate) struct Server {
    pub(crate) kind: Kind,
    scheme: &'static str,
    site: Site,
    pub(crate) port: u16,
    pub(crate) data_dir: PathBuf,
    flags: Vec<String>,
    peer_port: u16,
    child: Option<Child>,
    log: PathBuf,
    /// How far into the log the present life of the server begins.
    log_start: u64,
    scratch: TempDir,
}

impl Server {
    pub(crate) fn start(kind: Kind) -> Result<Server> {
        Server::start_with(kind, Options::default())
    }

    /// On a TLS port. The flags say with what certificates.
    pub(crate) fn start_secure(kind: Kind, flags: Vec<String>) -> Result<Server> {
        Server::start_secure_on(kind, flags, free_port()?)
    }

    /// On a given one, because the flags name it.
    pub(crate) fn start_secure_on(kind: Kind, flags: Vec<String>, port: u16) -> Result<Server> {
        Server::launch(kind, Options { flags, data_dir: None }, "https", port)
    }

    pub(crate) fn start_with(kind: Kind, options: Options) -> Result<Server> {
        Server::launch(kind, options, "http", free_port()?)
    }

    fn launch(kind: Kind, options: Options, scheme: &'static str, port: u16) -> Result<Server> {
        let mut server = Server::prepare(kind, options, scheme, Site::here(), port)?;
        server.run()?;
        Ok(server)
    }

    /// On a host of its own, where ports are free. It does not run yet.
    pub(crate) fn on_host(kind: Kind, options: Options, site: Site, port: u16) -> Result<Server> {
        Server::prepare(kind, options, "http", site, port)
    }

    fn prepare(kind: Kind, options: Options, scheme: &'static str, site: Site, port: u16) -> Result<Server> {
        let scratch = tempfile::Builder::new().prefix("vetch-trial-").tempdir()?;
        let data_dir = options.data_dir.unwrap_or_else(|| scratch.path().join("data"));
        let log = scratch.path().join("log");
        Ok(Server {
            kind,
            scheme,
            site,
            port,
            peer_port: free_port()?,
            data_dir,
            flags: options.flags,
            child: None,
            log,
            log_start: 0,
            scratch,
        })
    }

    /// Starts the process on the data directory as it is and waits until it serves; answers how
    /// long that took.
    pub(crate) fn run(&mut self) -> Result<Duration> {
        self.run_under(&[])
    }

    /// The same through another program, such as `strace -D` or `taskset`, that becomes the
    /// server's process.
    pub(crate) fn run_under(&mut self, wrapper: &[String]) -> Result<Duration> {
        let begun = Instant::now();
        self.spawn_under(wrapper)?;
        self.wait_ready(Duration::from_secs(120))?;
        Ok(begun.elapsed())
    }

    /// Starts the process and does not wait for anything.
    pub(crate) fn spawn_under(&mut self, wrapper: &[String]) -> Result<()> {
        assert!(self.child.is_none(), "the server is already running");
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        self.log_start = log.metadata()?.len();
        let binary = self.kind.binary()?;
        let mut command = match wrapper {
            [] => self.site.command(&binary),
            [program, arguments @ ..] => {
                let mut command = self.site.command(Path::new(program));
                command.args(arguments).arg(&binary);
                command
            }
        };
        command.args(self.arguments()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        self.child = Some(child);
        Ok(())
    }

    /// Leaves log and data where they are when the trial is over, and says where that is.
    pub(crate) fn keep_files(&mut self) -> PathBuf {
        self.scratch.disable_cleanup(true);
        self.scratch.path().to_owned()
    }

    fn arguments(&self) -> Vec<String> {
        let client = self.endpoint();
        let peer = format!("http://{}:{}", self.site.address, self.peer_port);
        let mut arguments = vec!["--data-dir".into(), self.data_dir.display().to_string()];
        for (flag, value) in [
            ("--name", "default".to_owned()),
            ("--listen-client-urls", client.clone()),
            ("--advertise-client-urls", client),
            ("--listen-peer-urls", peer.clone()),
            ("--initial-advertise-peer-urls", peer.clone()),
            ("--initial-cluster", format!("default={peer}")),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        arguments.extend(self.flags.iter().cloned());
        arguments
    }

    pub(crate) fn wait_ready(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            if self.log_of_this_life()?.contains(READY) && self.accepts() {
                return Ok(());
            }
            if let Some(status) = self.child.as_mut().context("not running")?.try_wait()? {
                self.child = None;
                bail!("{} ended with {status} before it was ready:\n{}", self.kind.name(), self.log_tail()?);
            }
            ensure!(
                Instant::now() < deadline,
                "{} is not ready in {limit:?}:\n{}",
                self.kind.name(),
                self.log_tail()?
            );
            sleep(Duration::from_millis(10));
        }
    }

    fn accepts(&self) -> bool {
        let address = SocketAddr::from((self.site.address, self.port));
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("{}://{}:{}", self.scheme, self.site.address, self.port)
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        Ok(self.child.as_ref().context("not running")?.id())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()?)?;
        kill_process(Pid::from_raw(pid).context("pid 0")?, signal)?;
        Ok(())
    }

    /// The process is gone without a chance to say goodbye; the data directory stays.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("not running")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// SIGTERM and the exit status that follows.
    pub(crate) fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait_exit(Duration::from_secs(60))
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.as_mut().context("not running")?.try_wait()? {
                self.child = None;
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "{} did not end in {limit:?}", self.kind.name());
            sleep(Duration::from_millis(5));
        }
    }

    /// Is the process still there?
    pub(crate) fn alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
        Ok(kib * 1024)
    }

    /// CPU seconds the process has used so far, user and system together.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid()?))?;
        let fields: Vec<&str> = stat.rsplit_once(") ").context("odd stat")?.1.split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(ticks / 100.0)
    }

    /// Bytes the data directory occupies on disk (blocks, not lengths).
    pub(crate) fn disk_use(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        fn walk(path: &Path) -> u64 {
            // Files come and go beneath a running server: what has vanished counts nothing.
            let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
            let mut sum = metadata.blocks() * 512;
            if metadata.is_dir()
                && let Ok(entries) = fs::read_dir(path)
            {
                sum += entries.flatten().map(|entry| walk(&entry.path())).sum::<u64>();
            }
            sum
        }
        walk(&self.data_dir)
    }

    /// Everything the present process has logged.
    pub(crate) fn log_of_this_life(&self) -> Result<String> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.log_start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The last lines of the log, for reports of failure.
    pub(crate) fn log_tail(&self) -> Result<String> {
        let log = self.log_of_this_life()?;
        let lines: Vec<&str> = log.lines().collect();
        Ok(lines[lines.len().saturating_sub(15)..].join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some()
            && let Err(error) = self.kill()
        {
            eprintln!("could not end {}: {error:#}", self.kind.name());
        }
    }
}

/// A free port: below those that the kernel gives to outgoing connections, which could take it
/// between this check and the server's start, and from a block that belongs to this process.
pub(crate) fn free_port() -> Result<u16> {
    const FIRST: u16 = 13_000;
    // Up to 23,000: trials that begin at a fixed port begin above.
    const BLOCKS: u32 = 100;
    const COUNT: u16 = 100;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let block = FIRST + (std::process::id() % BLOCKS) as u16 * COUNT;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = block + step % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from {block} on")
}
