//! The commands of `vetch-sim`, and what they share.

use std::fmt::Arguments;
use std::io::Write;
use std::path::PathBuf;

use vetch_sim::Report;
use vetch_sim::run::Out;

pub(crate) mod bugs;
pub(crate) mod pool;
pub(crate) mod run;
pub(crate) mod same;
pub(crate) mod seed;
pub(crate) mod worker;

/// One line for the user.
pub(crate) fn say(line: Arguments<'_>) {
    // A reader that has gone away is no reason to fail.
    writeln!(std::io::stdout().lock(), "{line}").ok();
}

/// Where histories of failed seeds go.
pub(crate) fn default_histories() -> PathBuf {
    PathBuf::from("target/sim")
}

/// What is simulated.
#[derive(clap::Args, Clone, Copy, Default)]
pub(crate) struct Stage {
    /// Several servers on one log that they share, instead of one on its disk.
    #[arg(long)]
    pub(crate) cluster: bool,
}

impl Stage {
    pub(crate) fn run(self, seed: u64, out: Option<Out>) -> Report {
        if self.cluster { vetch_sim::cluster::run(seed, out) } else { vetch_sim::run(seed, out) }
    }

    /// As it is given to another process.
    pub(crate) fn flag(self) -> Option<&'static str> {
        self.cluster.then_some("--cluster")
    }

    /// The command that replays a seed.
    pub(crate) fn replay(self, seed: u64) -> String {
        let flag = if self.cluster { " --cluster" } else { "" };
        format!("cargo run --profile fast -p vetch-sim -- seed {seed} -v{flag}")
    }
}
