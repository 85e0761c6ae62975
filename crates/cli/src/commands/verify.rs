//! `vetch verify`: checks every byte of a data directory or a backup, offline.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use vetch_backup::format::OWNER;

use super::backup::Source;
use super::output::Format;
use super::{Failure, exit, parsed, verify_backup, verify_data};

/// Checks every checksum of a data directory, the chain of its journal, and its checkpoints against
/// the journal; or every hash and checksum of a backup, and the chain of the journal in it. Exit
/// code 0: no damage; 1: damage, with its place. A server may run on either meanwhile.
#[derive(Parser)]
#[command(name = "vetch verify", disable_version_flag = true)]
struct Cli {
    #[command(flatten)]
    source: Source,
    /// Output format: simple or json.
    #[arg(short = 'w', long, default_value = "simple")]
    write_out: String,
    /// The key file of an encrypted data directory. A backup is checked without keys.
    #[arg(long)]
    encryption_key_file: Option<PathBuf>,
}

/// Runs the command; `arguments` are those behind the word `verify`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match parsed::<Cli>("vetch verify", arguments) {
        Ok(cli) => exit(cli.run()),
        Err(code) => code,
    }
}

impl Cli {
    fn run(&self) -> Result<(), Failure> {
        let format = Format::simple_or_json(&self.write_out)?;
        let location = self.source.location()?;
        if verify_backup::is_backup(&location) {
            return verify_backup::run(&location, format);
        }
        let path = location.directory().unwrap_or(Path::new(""));
        if !path.join("member").is_dir() {
            return Err(Failure::bad_arguments(format!(
                "{} is neither a data directory, which has member/, nor a backup, which has {OWNER}",
                path.display()
            )));
        }
        verify_data::run(path, format, self.encryption_key_file.as_deref())
    }
}
