//! `vetch snapshot save|status|restore`, with the flags and the output of etcdctl and etcdutl.

mod restore;
mod save;
mod status;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use super::{Failure, exit};

#[derive(Parser)]
#[command(name = "vetch snapshot", about = "Manages snapshots in etcd's format", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    global: Global,
}

#[derive(Args)]
struct Global {
    /// Output format: simple, fields, json or table.
    #[arg(short = 'w', long, global = true, default_value = "simple")]
    write_out: String,
}

#[derive(Subcommand)]
enum Command {
    /// Stores a snapshot of a running Vetch or etcd in a file.
    Save(save::Save),
    /// Shows what a snapshot holds, and verifies all of it.
    Status(status::StatusCommand),
    /// Makes a data directory of Vetch from a snapshot, or from the data directory of an etcd that
    /// is not running.
    Restore(Box<restore::RestoreCommand>),
}

/// Runs the command; `arguments` are those behind the word `snapshot`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let cli: Cli = match super::parsed("vetch snapshot", arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let format = super::output::Format::parse(&cli.global.write_out);
    let outcome: Result<(), Failure> = format.and_then(|format| match cli.command {
        Command::Save(save) => save.run(),
        Command::Status(status) => status.run(format),
        Command::Restore(restore) => restore.run(),
    });
    exit(outcome)
}
