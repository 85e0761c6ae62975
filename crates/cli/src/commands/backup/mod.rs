//! `vetch backup now|list|prune`: makes, lists and prunes backups.

mod list;
mod now;
mod prune;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use vetch_backup::{BackupError, Location};

pub(crate) use list::range;

use super::{exit, parsed};

#[derive(Parser)]
#[command(
    name = "vetch backup",
    about = "Manages backups that a server makes with --backup-location",
    disable_version_flag = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Brings the backup of a running server up to date, and waits for it. With authentication on,
    /// it needs the root role.
    Now(now::Now),
    /// Lists the revisions and times that can be restored, and the backups that they are in.
    List(list::List),
    /// Removes what is not needed to restore any point of a time span.
    Prune(prune::Prune),
}

/// The location of a backup, and its credentials.
#[derive(Args, Clone)]
pub(crate) struct Source {
    /// A directory, or s3://bucket/prefix with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    /// AWS_REGION, AWS_ENDPOINT_URL and the like in the environment.
    location: String,
    /// A file with lines of AWS_...=value, in addition to the environment.
    #[arg(long)]
    credentials_file: Option<PathBuf>,
}

impl Source {
    pub(crate) fn location(&self) -> Result<Location, BackupError> {
        Location::parse(&self.location, self.credentials_file.as_deref())
    }
}

/// Runs the command; `arguments` are those behind the word `backup`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match parsed::<Cli>("vetch backup", arguments) {
        Ok(Cli { command: Command::Now(now) }) => exit(now.run()),
        Ok(Cli { command: Command::List(list) }) => exit(list.run()),
        Ok(Cli { command: Command::Prune(prune) }) => exit(prune.run()),
        Err(code) => code,
    }
}
