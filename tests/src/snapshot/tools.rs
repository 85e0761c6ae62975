//! The tools on the way: etcdctl, etcdutl and Vetch's own commands.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::server::{Kind, peers};

/// How a tool ended.
pub(super) struct Ended {
    pub(super) is_success: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) took: Duration,
    /// The most memory it had, in bytes.
    pub(super) peak: u64,
}

fn run(program: &Path, arguments: &[&str]) -> Result<Ended> {
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let pid = child.id();
    let waiting = std::thread::spawn(move || child.wait_with_output());
    let mut peak = 0;
    while !waiting.is_finished() {
        // Gone is fine: it has ended between two looks.
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        peak = peak.max(kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = waiting.join().ok().context("the waiting thread failed")??;
    Ok(Ended {
        is_success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: begun.elapsed(),
        peak,
    })
}

fn must(program: PathBuf, arguments: &[&str]) -> Result<Ended> {
    let ended = run(&program, arguments)?;
    ensure!(
        ended.is_success,
        "{} {} failed:\n{}{}",
        program.display(),
        arguments.join(" "),
        ended.stdout,
        ended.stderr
    );
    Ok(ended)
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// Copies a directory that no process writes to.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    must("cp".into(), &["-a", text(from), text(to)])?;
    Ok(())
}

pub(super) fn etcdctl_save(endpoint: &str, path: &Path) -> Result<Ended> {
    must(peers()?.join("etcdctl"), &["--endpoints", endpoint, "snapshot", "save", text(path)])
}

pub(super) fn vetch_save(endpoint: &str, path: &Path) -> Result<Ended> {
    must(Kind::Vetch.binary()?, &["snapshot", "save", text(path), "--endpoints", endpoint])
}

/// What `etcdutl snapshot status` says, after Vetch's own command has said the same in every form.
pub(super) fn status(path: &Path) -> Result<String> {
    let mut last = String::new();
    for format in ["simple", "fields", "table", "json"] {
        let arguments = ["snapshot", "status", text(path), "-w", format];
        let theirs = must(peers()?.join("etcdutl"), &arguments)?.stdout;
        let ours = must(Kind::Vetch.binary()?, &arguments)?.stdout;
        ensure!(theirs == ours, "snapshot status -w {format}: etcdutl says\n{theirs}and vetch says\n{ours}");
        last = theirs;
    }
    Ok(last.trim().to_owned())
}

pub(super) fn etcdutl_restore(path: &Path, data_dir: &Path, flags: &[&str]) -> Result<Ended> {
    let fixed = ["snapshot", "restore", text(path), "--data-dir", text(data_dir)];
    must(peers()?.join("etcdutl"), &[&fixed[..], flags].concat())
}

pub(super) fn vetch_restore(source: &Path, data_dir: &Path, flags: &[&str]) -> Result<Ended> {
    let fixed = ["snapshot", "restore", text(source), "--data-dir", text(data_dir)];
    let restored = must(Kind::Vetch.binary()?, &[&fixed[..], flags].concat())?;
    vetch(&["verify", text(data_dir)])?;
    Ok(restored)
}

/// A command of vetch that must succeed.
pub(super) fn vetch(arguments: &[&str]) -> Result<Ended> {
    must(Kind::Vetch.binary()?, arguments)
}

/// A restore that may be refused.
pub(super) fn try_restore(source: &Path, data_dir: &Path, flags: &[&str]) -> Result<Ended> {
    let fixed = ["snapshot", "restore", text(source), "--data-dir", text(data_dir)];
    run(&Kind::Vetch.binary()?, &[&fixed[..], flags].concat())
}

/// What a restore that must be refused says.
pub(super) fn vetch_refuses(source: &Path, data_dir: &Path, flags: &[&str]) -> Result<String> {
    let ended = try_restore(source, data_dir, flags)?;
    ensure!(!ended.is_success, "vetch snapshot restore {} should have been refused", source.display());
    Ok(ended.stderr)
}
