//! Both servers' flags, as they list them themselves.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::server::Kind;

/// Still in etcd's help, and no longer among its flags.
const ONLY_IN_ETCDS_HELP: [&str; 2] = ["discovery", "discovery-proxy"];

/// Ours, and what etcd knows and does not list.
const ONLY_HERE: [&str; 20] = [
    "backup-credentials-file",
    "backup-full-interval",
    "backup-interval",
    "backup-journal-bytes",
    "backup-location",
    "backup-retention",
    "checkpoint-bytes",
    "checkpoint-interval",
    "encryption-key-file",
    "journal",
    "journal-login-file",
    "journal-read-lease",
    "journal-segment-bytes",
    "journal-stream",
    "max-client-bytes",
    "max-connection-bytes",
    "max-connection-watch-bytes",
    "max-watch-bytes",
    "scrub-interval",
    "unsafe-journal",
];

/// Every flag etcd lists is one of ours, and the other way round. The table in
/// docs/compatibility.md is held against ours by a test of its own.
pub(super) fn compare() -> Result<()> {
    let (mut etcd, mut vetch) = (listed(Kind::Etcd)?, listed(Kind::Vetch)?);
    ensure!(etcd.len() > 100, "etcd lists only {} flags", etcd.len());
    for name in ONLY_IN_ETCDS_HELP {
        ensure!(etcd.remove(name), "etcd's help no longer has --{name}");
    }
    for name in ONLY_HERE {
        ensure!(vetch.remove(name), "the help has no --{name}");
    }
    let missing: Vec<&String> = etcd.difference(&vetch).collect();
    let surplus: Vec<&String> = vetch.difference(&etcd).collect();
    ensure!(missing.is_empty(), "etcd has flags that are missing here: {missing:?}");
    ensure!(surplus.is_empty(), "etcd does not have these flags: {surplus:?}");
    println!("{} flags in both servers' help", etcd.len());
    Ok(())
}

/// The names behind two dashes that begin a line, or a usage line.
fn listed(kind: Kind) -> Result<BTreeSet<String>> {
    let output = Command::new(kind.binary()?).arg("--help").output()?;
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).join("\n");
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let line = line.trim_start();
        let line = line.strip_prefix(kind.name()).map_or(line, str::trim_start);
        if let Some(rest) = line.strip_prefix("--") {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
            names.insert(rest[..end].to_owned());
        }
    }
    Ok(names)
}
