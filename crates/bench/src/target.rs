//! The server that is measured: an endpoint that is there already, or a process that is started for
//! it.
//!
//! A command line may name `{data}`, `{client}` and `{peer}`: a fresh directory, and the URLs to
//! listen on. A server that was started here is killed, and its directory removed, when it is
//! dropped.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::measure::pin::{self, Pin};
use crate::wire::blocking;
use crate::wire::lean::Lean;

const START: Duration = Duration::from_secs(180);
const END: Duration = Duration::from_secs(60);

pub(crate) struct Target {
    pub(crate) endpoints: Vec<String>,
    pub(crate) pids: Vec<u32>,
    started: Option<Started>,
}

struct Started {
    command: String,
    pin: Option<Pin>,
    child: Child,
    port: u16,
    scratch: TempDir,
}

impl Target {
    pub(crate) fn endpoint(endpoints: Vec<String>, pids: Vec<u32>, pin: Option<Pin>) -> Result<Target> {
        if let Some(pin) = pin {
            pids.iter().try_for_each(|&pid| pin::process(pid, pin.server))?;
        }
        Ok(Target { endpoints, pids, started: None })
    }

    /// Starts a command line with a fresh directory below `root` and waits until it answers.
    pub(crate) fn start(command: &str, root: &Path, pin: Option<Pin>) -> Result<Target> {
        let scratch = tempfile::Builder::new()
            .prefix("vetch-bench-")
            .tempdir_in(root)
            .with_context(|| format!("making a directory in {}", root.display()))?;
        let (port, peer) = (free_port()?, free_port()?);
        let command = command
            .replace("{data}", &scratch.path().join("data").display().to_string())
            .replace("{client}", &format!("http://127.0.0.1:{port}"))
            .replace("{peer}", &format!("http://127.0.0.1:{peer}"));
        let child = spawn(&command, scratch.path(), pin)?;
        let pids = vec![child.id()];
        let endpoints = vec![format!("http://127.0.0.1:{port}")];
        let mut target =
            Target { endpoints, pids, started: Some(Started { command, pin, child, port, scratch }) };
        target.wait_ready()?;
        Ok(target)
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.started.is_some()
    }

    /// Ends the process politely and starts it again on the same data; answers the time from start
    /// to the first linearizable read that is answered.
    pub(crate) fn restart(&mut self) -> Result<Duration> {
        let started =
            self.started.as_mut().context("only a server that was started here can be restarted")?;
        let pid = i32::try_from(started.child.id()).ok().and_then(Pid::from_raw).context("an odd pid")?;
        kill_process(pid, Signal::TERM)?;
        let deadline = Instant::now() + END;
        while started.child.try_wait()?.is_none() {
            ensure!(Instant::now() < deadline, "the server did not end within {END:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let begun = Instant::now();
        started.child = spawn(&started.command, started.scratch.path(), started.pin)?;
        self.pids = vec![started.child.id()];
        self.wait_ready()?;
        Ok(begun.elapsed())
    }

    fn wait_ready(&mut self) -> Result<()> {
        let started = self.started.as_mut().context("not started here")?;
        let address = SocketAddr::from(([127, 0, 0, 1], started.port));
        let deadline = Instant::now() + START;
        loop {
            if let Some(status) = started.child.try_wait()? {
                bail!("{} ended with {status}:\n{}", started.command, tail(started.scratch.path()));
            }
            let accepts = TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
            if accepts
                && let Ok(mut wire) = Lean::connect(&[format!("127.0.0.1:{}", started.port)], 1)
                && blocking::revision(&mut wire).is_ok()
            {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{} does not answer within {START:?}:\n{}",
                started.command,
                tail(started.scratch.path())
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child inherits the processor of the thread that starts it, so that all its threads are there
/// from the first on.
fn spawn(command: &str, scratch: &Path, pin: Option<Pin>) -> Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(scratch.join("log"))?;
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {command}")]).process_group(0).current_dir(scratch);
    shell.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let child = std::thread::scope(|scope| {
        let starter = scope.spawn(|| -> Result<Child> {
            if let Some(pin) = pin {
                pin::this_thread(pin.server)?;
            }
            Ok(shell.spawn()?)
        });
        starter.join().map_err(|_| anyhow::anyhow!("the thread that starts servers panicked"))?
    });
    child.with_context(|| format!("starting {command}"))
}

fn tail(scratch: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(mut log) = File::open(scratch.join("log")) {
        let length = log.metadata().map_or(0, |metadata| metadata.len());
        let _ = log.seek(std::io::SeekFrom::Start(length.saturating_sub(2000)));
        let _ = log.read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Below the range that the kernel hands out, so that no outgoing connection takes it meanwhile.
fn free_port() -> Result<u16> {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let offset = (std::process::id() % 97) as u16 * 10;
    for _ in 0..1000 {
        let port = 15_000 + (offset + NEXT.fetch_add(1, Ordering::Relaxed)) % 1000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from 15000 on")
}
