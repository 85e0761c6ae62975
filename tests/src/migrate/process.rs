//! A `vetch migrate` as a process, and what it says.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::server::{Kind, free_port};

pub(super) struct Migration {
    from: String,
    flags: Vec<String>,
    pub(super) data_dir: PathBuf,
    port: u16,
    log: PathBuf,
    log_start: usize,
    child: Option<Child>,
}

impl Migration {
    /// Not started yet. Everything is kept in `scratch`.
    pub(super) fn new(from: &str, scratch: &Path, flags: &[&str]) -> Result<Migration> {
        Ok(Migration {
            from: from.to_owned(),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            data_dir: scratch.join("vetch"),
            port: free_port()?,
            log: scratch.join("migrate.log"),
            log_start: 0,
            child: None,
        })
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn start(&mut self) -> Result<()> {
        assert!(self.child.is_none(), "it is running already");
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        self.log_start = usize::try_from(log.metadata()?.len())?;
        let child = self.command()?.stdout(log.try_clone()?).stderr(log).spawn()?;
        self.child = Some(child);
        Ok(())
    }

    fn command(&self) -> Result<Command> {
        let endpoint = self.endpoint();
        let mut command = Command::new(Kind::Vetch.binary()?);
        command.args(["migrate", "--from", &self.from, "--data-dir"]).arg(&self.data_dir);
        command.args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint]);
        command.args(&self.flags).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs it to its end, which is expected to come soon.
    pub(super) fn refusal(&self) -> Result<String> {
        let output = self.command()?.output()?;
        ensure!(!output.status.success(), "'vetch migrate' should have been refused");
        Ok(text(&output))
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("not running")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// What this life of the process has said so far.
    pub(super) fn said(&self) -> Result<String> {
        let all = fs::read(&self.log)?;
        Ok(String::from_utf8_lossy(&all[self.log_start..]).into_owned())
    }

    /// Everything all of its lives have said.
    pub(super) fn story(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.log)?)
    }

    /// Waits until it has said something; returns the line.
    pub(super) async fn hears(&mut self, words: &str) -> Result<String> {
        const LIMIT: Duration = Duration::from_secs(60);
        let begun = Instant::now();
        loop {
            let said = self.said()?;
            if let Some(line) = said.lines().find(|line| line.contains(words)) {
                return Ok(line.to_owned());
            }
            if let Some(status) = self.child.as_mut().context("not running")?.try_wait()? {
                bail!("'vetch migrate' ended with {status} instead of saying {words:?}:\n{said}");
            }
            ensure!(begun.elapsed() < LIMIT, "'vetch migrate' does not say {words:?}:\n{said}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Leaves the request to cut over, as the command does, and does not wait.
    pub(super) fn request(&self) -> Result<()> {
        Ok(fs::write(self.data_dir.join("migration.cut-over"), "")?)
    }

    /// The command that asks for it; returns what it says.
    pub(super) async fn cut_over(&self) -> Result<String> {
        let data_dir = self.data_dir.clone();
        let binary = Kind::Vetch.binary()?;
        let asking =
            move || Command::new(binary).args(["migrate", "cut-over", "--data-dir"]).arg(data_dir).output();
        let output = tokio::task::spawn_blocking(asking).await??;
        ensure!(output.status.success(), "the cut-over failed: {}", text(&output));
        Ok(text(&output))
    }

    pub(super) fn is_done(&self) -> bool {
        self.data_dir.join("migration.done.json").exists()
    }

    /// Asks the process to end, and waits for that.
    pub(super) fn terminate(&mut self) -> Result<()> {
        let mut child = self.child.take().context("not running")?;
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id())?).context("pid 0")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let begun = Instant::now();
        while child.try_wait()?.is_none() {
            ensure!(begun.elapsed() < Duration::from_secs(20), "'vetch migrate' does not end");
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Drop for Migration {
    fn drop(&mut self) {
        if self.child.is_some()
            && let Err(error) = self.kill()
        {
            eprintln!("could not end 'vetch migrate': {error:#}");
        }
    }
}
