//! Vetch's own commands on a backup.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::store::Store;
use crate::server::Kind;

/// How a command ended.
pub(super) struct Ended {
    pub(super) is_success: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// `vetch WORDS LOCATION ARGUMENTS`, with what opens the store.
pub(super) fn run(store: &Store, words: &[&str], arguments: &[&str]) -> Result<Ended> {
    let mut command = Command::new(Kind::Vetch.binary()?);
    command.args(words).arg(store.location()).args(arguments);
    if let Some(path) = store.credentials()? {
        command.arg("--credentials-file").arg(path);
    }
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    Ok(Ended {
        is_success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

fn must(store: &Store, words: &[&str], arguments: &[&str]) -> Result<Ended> {
    let ended = run(store, words, arguments)?;
    ensure!(ended.is_success, "vetch {words:?} {arguments:?} failed:\n{}{}", ended.stdout, ended.stderr);
    Ok(ended)
}

/// Restores into `to`, with the revisions as they were.
pub(super) fn restore(store: &Store, to: &Path, at: &[&str]) -> Result<()> {
    let to = to.to_str().context("a path that is text")?;
    must(store, &["restore"], &[&["--data-dir", to, "--no-bump"], at].concat())?;
    Ok(())
}

/// Restores what is newest although an object is damaged: there is another way, and the damage is
/// named.
pub(super) fn restored_without(store: &Store, to: &Path, damaged: &str) -> Result<()> {
    let dir = to.to_str().context("a path that is text")?;
    let ended = must(store, &["restore"], &["--data-dir", dir, "--no-bump"])?;
    let said = &ended.stderr;
    ensure!(
        said.contains(damaged) && said.contains("did not need it"),
        "the damage was not reported: {said}"
    );
    fs::remove_dir_all(to)?;
    Ok(())
}

/// The same where it must be refused; what was said about it.
pub(super) fn refused(store: &Store, to: &Path, at: &[&str]) -> Result<String> {
    let dir = to.to_str().context("a path that is text")?;
    let ended = run(store, &["restore"], &[&["--data-dir", dir, "--no-bump"], at].concat())?;
    ensure!(!ended.is_success, "a restore {at:?} that must be refused was done: {}", ended.stderr);
    ensure!(!to.join("member").exists(), "a refused restore left a data directory");
    Ok(ended.stderr)
}

/// Verifies; the line that says how much there was.
pub(super) fn verify(store: &Store) -> Result<String> {
    Ok(must(store, &["verify"], &[])?.stdout.trim().replace('\n', "; "))
}

pub(super) fn list(store: &Store) -> Result<serde_json::Value> {
    Ok(serde_json::from_str(&must(store, &["backup", "list"], &["-w", "json"])?.stdout)?)
}

pub(super) fn prune(store: &Store, arguments: &[&str]) -> Result<String> {
    Ok(must(store, &["backup", "prune"], arguments)?.stdout.trim().to_owned())
}

/// First and last revision of each stretch that can be restored.
pub(super) fn ranges(store: &Store) -> Result<Vec<(i64, i64)>> {
    let listed = list(store)?;
    let ranges = listed["restorable"].as_array().context("a list of ranges")?;
    let number = |value: &serde_json::Value| value.as_i64().context("a revision");
    ranges
        .iter()
        .map(|range| Ok((number(&range["first_revision"])?, number(&range["last_revision"])?)))
        .collect()
}

/// Asks a running server for a full backup; what it says.
pub(super) fn now(endpoint: &str) -> Result<String> {
    let mut command = Command::new(Kind::Vetch.binary()?);
    command.args(["backup", "now", "--full", "--endpoints", endpoint]);
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "vetch backup now: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
