//! The commands of `vetch-sim`, and what they share.

use std::fmt::Arguments;
use std::io::Write;
use std::path::PathBuf;

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

/// The command that replays a seed.
pub(crate) fn replay(seed: u64) -> String {
    format!("cargo run --profile fast -p vetch-sim -- seed {seed} -v")
}
