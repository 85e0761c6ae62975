//! The commands of `vetch-sim`, and what they share.

use std::fmt::Arguments;
use std::io::Write;
use std::path::PathBuf;

use vetch_seeded_bugs::Bug;
use vetch_sim::Report;
use vetch_sim::run::Out;

pub(crate) mod bugs;
mod histories;
mod plant;
pub(crate) mod pool;
pub(crate) mod run;
pub(crate) mod same;
pub(crate) mod seed;
pub(crate) mod worker;

/// One line for the user.
pub(crate) fn say(line: Arguments<'_>) {
    // A closed pipe is no reason to fail.
    writeln!(std::io::stdout().lock(), "{line}").ok();
}

/// Where histories of failed seeds go.
pub(crate) fn default_histories() -> PathBuf {
    PathBuf::from("target/sim")
}

/// What is simulated.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The rules of a replicated log, on a log in memory that misbehaves.
    Log,
    /// The members of built-in replication, on model disks.
    Raft,
    /// One whole node on its disk.
    Node,
    /// Several whole nodes on one log.
    Cluster,
}

#[derive(clap::Args, Clone, Copy)]
pub(crate) struct LevelOption {
    #[arg(long = "level", value_enum, default_value_t = Level::Node)]
    pub(crate) level: Level,
}

impl Level {
    pub(crate) fn run(self, seed: u64, out: Option<Out>) -> Report {
        match self {
            Level::Log => vetch_sim::log::run(seed, out),
            Level::Raft => vetch_sim::raft::run(seed, out),
            Level::Node => vetch_sim::run(seed, out),
            Level::Cluster => vetch_sim::cluster::run(seed, out),
        }
    }

    /// The level at which a bug is looked for.
    pub(crate) fn of_bug(bug: Bug) -> Level {
        match bug {
            bug if bug.is_of_the_log() => Level::Log,
            bug if bug.is_of_the_cluster() => Level::Cluster,
            bug if bug.is_of_raft() => Level::Raft,
            _ => Level::Node,
        }
    }

    /// Seeds that found something once.
    pub(crate) fn regressions(self) -> &'static str {
        match self {
            Level::Log | Level::Raft => "",
            Level::Node => include_str!("../../seeds.txt"),
            Level::Cluster => include_str!("../../cluster-seeds.txt"),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Log => "log",
            Level::Raft => "raft",
            Level::Node => "node",
            Level::Cluster => "cluster",
        }
    }

    /// As it is given to another process.
    pub(crate) fn arguments(self) -> [&'static str; 2] {
        ["--level", self.name()]
    }

    /// Whether there are clients whose history can be judged and kept.
    pub(crate) fn has_histories(self) -> bool {
        matches!(self, Level::Node | Level::Cluster)
    }

    /// The command that replays a seed.
    pub(crate) fn replay(self, seed: u64) -> String {
        format!("cargo run --profile fast -p vetch-sim -- seed {seed} -v --level {}", self.name())
    }
}
