//! `vetch verify`: checks every byte of what it is given, offline. What that is decides who checks it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use super::output::Format;
use super::{exit, parsed, verify_data};

/// Checks every checksum of a data directory, the chain of its journal, and its checkpoints against the journal. Exit code 0:
/// everything is as it was written; 1: something is not, and where.
#[derive(Parser)]
#[command(name = "vetch verify", disable_version_flag = true)]
struct Cli {
    /// The data directory. A server may be running on it.
    path: PathBuf,
    /// Form of the answer: simple or json.
    #[arg(short = 'w', long, default_value = "simple")]
    write_out: String,
    /// The keys of encryption at rest, if there are any.
    #[arg(long)]
    encryption_key_file: Option<PathBuf>,
}

/// Runs the command; `arguments` are those behind the word `verify`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let cli: Cli = match parsed("vetch verify", arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let format = Format::parse(&cli.write_out);
    exit(format.and_then(|format| verify_data::run(&cli.path, format, cli.encryption_key_file.as_deref())))
}
