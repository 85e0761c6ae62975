//! Faults of single system calls, injected by strace: the n-th one fails, or the process is killed
//! in it.
//!
//! strace counts for each thread by itself, so that the n-th write is the journal's in one run and
//! a checkpoint's in another. It steps aside (`-D`): the server stays this program's own child,
//! with its own exit status.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Case, rest};
use crate::fault_trial::FaultTrial;
use crate::server::Server;

pub(super) struct Injection {
    /// The system calls, as strace names them.
    calls: &'static str,
    /// What happens in them, without the number.
    what: &'static str,
    /// The number of the call that is hit lies between these.
    when: (i64, i64),
    end: Expected,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The process is killed.
    Killed,
    /// It stops by itself with an error in its log, which it must if the call was about the
    /// journal. It may go on if it can do without: checkpoints and segments in preparation are
    /// tried again.
    StopsOrLives,
}

impl Injection {
    pub(super) fn of(case: Case) -> Injection {
        let kill = "signal=SIGKILL";
        let (calls, what, when, end) = match case {
            Case::SyncError => ("fdatasync", "error=EIO", (2, 300), Expected::StopsOrLives),
            Case::WriteError => ("pwrite64", "error=EIO", (2, 300), Expected::StopsOrLives),
            Case::WriteNoSpace => ("pwrite64", "error=ENOSPC", (2, 300), Expected::StopsOrLives),
            Case::DirectorySyncError => ("fsync", "error=EIO", (2, 15), Expected::StopsOrLives),
            Case::KillAtSync => ("fdatasync", kill, (1, 200), Expected::Killed),
            Case::KillAtWrite => ("pwrite64", kill, (1, 200), Expected::Killed),
            Case::KillAtRename => ("rename", kill, (1, 6), Expected::Killed),
            Case::KillAtDirectorySync => ("fsync", kill, (1, 20), Expected::Killed),
            _ => ("unlink", kill, (1, 6), Expected::Killed),
        };
        Injection { calls, what, when, end }
    }
}

/// The program in front of the server that makes these calls misbehave.
pub(crate) fn wrapper(calls: &str, inject: &str) -> Vec<String> {
    wrapper_with_log(calls, inject, "/dev/null")
}

/// The same, with a record of all these calls.
fn wrapper_with_log(calls: &str, inject: &str, log: &str) -> Vec<String> {
    let mut wrapper = ["strace", "-D", "-f", "-y", "-qq", "-o", log].map(str::to_owned).to_vec();
    // Lets all other calls pass without a stop, but forgets about signals on the way.
    if !inject.contains("signal") {
        wrapper.push("--seccomp-bpf".to_owned());
    }
    wrapper.extend(["-e".to_owned(), format!("trace={calls}")]);
    wrapper.extend(["-e".to_owned(), format!("inject={calls}:{inject}")]);
    wrapper
}

/// Installs strace where it is missing and this is allowed; else says what is missing.
pub(crate) fn require() -> Result<()> {
    let works = || Command::new("strace").arg("--version").output().is_ok_and(|run| run.status.success());
    if works() {
        return Ok(());
    }
    println!("  strace is missing; installing it");
    // A fresh machine has no list of packages yet; if this fails, the next one says why.
    let _ = Command::new("apt-get").args(["update", "-qq"]).output();
    let installed = Command::new("apt-get").args(["install", "-y", "-qq", "strace"]).output();
    ensure!(works(), "strace is missing and could not be installed: {installed:?}");
    Ok(())
}

pub(super) async fn run(trial: &mut FaultTrial, injection: &Injection, rounds: usize) -> Result<()> {
    require()?;
    let mut hits = 0;
    for round in 1..=rounds + EXTRA_ROUNDS {
        if round > rounds && hits > 0 {
            break;
        }
        let done = trial.work(100, 400, 20).await?;
        trial.server.kill()?;
        // On a busy machine a late call may not come in time, but one of the first does.
        let last = if round > rounds { injection.when.0 + 1 } else { injection.when.1 };
        let when = trial.rng.between(injection.when.0, last);
        let log = tempfile::NamedTempFile::new()?;
        let path = log.path().to_str().context("a path that is not text")?;
        let wrapper = wrapper_with_log(injection.calls, &format!("{}:when={when}", injection.what), path);
        let begun = Instant::now();
        trial.server.spawn_under(&wrapper)?;
        let end = wait_for_end(&mut trial.server).await?;
        let took = begun.elapsed().as_millis();
        let said = check_end(trial, injection, end)?;
        let calls = std::fs::read_to_string(log.path())?;
        let injected = calls.lines().find(|call| call.contains("(INJECTED)"));
        hits += usize::from(end.is_some() || injected.is_some());
        if let Some(call) = injected.filter(|call| call.contains(".journal>")) {
            ensure!(end.is_some(), "the server went on although its journal had failed: {call}");
        }
        println!(
            "  round {round}: {done} writes, then at {} number {when}: {said} ({took} ms)",
            injection.calls
        );
        trial.server.run()?;
    }
    trial.work(200, 300, 20).await?;
    ensure!(hits > 0, "the fault was never hit: nothing was tried");
    Ok(())
}

/// Rounds that are added until the fault has been hit once.
const EXTRA_ROUNDS: usize = 8;
/// How long the injected call may take to come.
const LIMIT: Duration = Duration::from_secs(5);

/// Waits until the process has ended, and ends it if it does not: none then, as the fault did not
/// end it.
async fn wait_for_end(server: &mut Server) -> Result<Option<ExitStatus>> {
    let begun = Instant::now();
    while server.alive() {
        if begun.elapsed() > LIMIT {
            server.kill()?;
            return Ok(None);
        }
        rest(5).await;
    }
    server.wait_exit(Duration::from_secs(1)).map(Some)
}

fn check_end(trial: &FaultTrial, injection: &Injection, end: Option<ExitStatus>) -> Result<String> {
    let Some(status) = end else { return Ok("it went on".to_owned()) };
    if injection.end == Expected::Killed {
        ensure!(status.signal() == Some(9), "the process ended with {status} instead of being killed");
        return Ok("killed".to_owned());
    }
    let log = trial.server.log_of_this_life()?;
    ensure!(status.code() == Some(1), "the process ended with {status}:\n{}", trial.server.log_tail()?);
    ensure!(!log.contains("panicked"), "it panicked:\n{}", trial.server.log_tail()?);
    let reason =
        log.lines().rfind(|line| line.contains(r#""level":"error""#)).context("no error in its log")?;
    if !reason.contains("error") {
        bail!("its last error does not say what happened: {reason}");
    }
    Ok(format!("stopped: {}", reason.chars().take(200).collect::<String>()))
}
