//! `vetch-sim worker`: a process that runs the seeds it reads, one a line, and answers each with a
//! line of JSON.
//!
//! A process of its own, because a panic in shipped code ends it, as it would end the server.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vetch_sim::watchdog;

use super::{LevelOption, default_histories, say};

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    level: LevelOption,
    #[arg(long, default_value_os_t = default_histories())]
    histories: PathBuf,
    #[arg(long)]
    bug: Option<String>,
}

/// What came of a seed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) seed: u64,
    pub(crate) violations: Vec<String>,
    pub(crate) coverage: Vec<u64>,
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) operations: u64,
    pub(crate) virtual_nanos: u64,
    /// Where its history is, if it failed.
    pub(crate) history: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> io::Result<bool> {
    super::plant::plant(options.bug.as_deref())?;
    watch_for_hangs();
    for line in io::stdin().lock().lines() {
        let seed = line?.trim().parse().map_err(io::Error::other)?;
        let level = options.level.level;
        let report = level.run(seed, None);
        // At the levels of the log there are no clients, and so no history.
        let failed = !report.violations.is_empty() && level.has_histories();
        let history = if failed { Some(super::histories::store(&report, &options.histories)?) } else { None };
        let answer = Answer {
            seed,
            operations: report.history.operations.len() as u64,
            violations: report.violations,
            coverage: report.coverage,
            counts: report.counts,
            virtual_nanos: report.virtual_nanos,
            history,
        };
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(true)
}

/// Ends this process if the simulation does not move any more.
pub(crate) fn watch_for_hangs() {
    watchdog::start(|whom, seed| {
        say(format_args!("seed {seed} hangs in {whom}: it waits for the disk with a lock held, or loops"));
        std::process::abort();
    });
}
