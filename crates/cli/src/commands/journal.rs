//! `vetch journal refill`: begins a shared journal with the state of a data directory.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use vetch_offline::refill::{Refilled, refill};

use super::{Failure, exit, parsed, print_message};
use crate::engine::LogPlace;

/// Manages a journal that several servers share.
#[derive(Parser)]
#[command(name = "vetch journal", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fills an empty journal from the data directory of a stopped server, which becomes the first
    /// server on it. All others start with empty directories.
    Refill(Refill),
}

#[derive(Parser)]
struct Refill {
    /// The data directory: of a single server, of `vetch snapshot restore`, or of a server whose
    /// journal is lost.
    #[arg(long)]
    data_dir: PathBuf,
    /// nats://host:port,...
    #[arg(long)]
    journal: String,
    /// The stream, which is created if it does not exist.
    #[arg(long, default_value = "vetch")]
    journal_stream: String,
    /// Two lines of NAME:PASSWORD, to use the stream, and for the system account.
    #[arg(long)]
    journal_login_file: Option<PathBuf>,
    /// Use the stream although its settings may lose acknowledged writes, or cannot be checked.
    #[arg(long)]
    unsafe_journal: bool,
}

/// Runs the command; `arguments` are those behind the word `journal`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match parsed::<Cli>("vetch journal", arguments) {
        Ok(Cli { command: Command::Refill(refill) }) => exit(refill.run()),
        Err(code) => code,
    }
}

impl Refill {
    fn run(&self) -> Result<(), Failure> {
        let login = self.journal_login_file.as_deref();
        let place = LogPlace::parse(&self.journal, &self.journal_stream, login, self.unsafe_journal)?;
        let mut log = place.connect()?;
        let Refilled { revision, keys, index, was_seeded } = refill(&self.data_dir, log.as_mut())?;
        let done = if was_seeded { "had been refilled, and is" } else { "is refilled" };
        print_message(&format!(
            "the journal {} {done}: it goes on behind revision {revision}, with {keys} keys, in epoch {}. Start a server with \
             --data-dir {} and --journal first, then all others with empty data directories",
            self.journal_stream,
            index.tip.epoch,
            self.data_dir.display()
        ));
        Ok(())
    }
}
