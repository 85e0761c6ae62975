//! Commands other than serving. They write their result to standard output, and progress to
//! standard error.
//!
//! Exit codes are those of etcd's tools: 1 for a failure, 128 for invalid arguments.

pub(crate) mod backup;
pub(crate) mod client;
pub(crate) mod inspect;
pub(crate) mod journal;
pub(crate) mod keygen;
mod look;
mod output;
pub(crate) mod progress;
pub(crate) mod restore;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod top;
mod units;
pub(crate) mod verify;
mod verify_backup;
mod verify_data;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use vetch_encryption::EncryptionKeys;

/// Invalid arguments.
pub(crate) const BAD_ARGUMENTS: u8 = 128;
/// An output format that does not exist.
const BAD_FEATURE: u8 = 4;

/// The exit code, and the message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn bad_arguments(text: impl Into<String>) -> Failure {
        Failure { code: BAD_ARGUMENTS, text: text.into() }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure { code: 1, text: error.to_string() }
    }
}

pub(crate) fn exit(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, text }) => {
            print_message(&format!("Error: {text}"));
            ExitCode::from(code)
        }
    }
}

/// The arguments of a command of this name, or the exit code once its usage was explained.
pub(crate) fn parsed<T: Parser>(
    name: &str,
    arguments: impl Iterator<Item = OsString>,
) -> Result<T, ExitCode> {
    T::try_parse_from(std::iter::once(OsString::from(name)).chain(arguments)).map_err(|error| {
        // If neither output can be written to there is no way left to explain.
        let _ = error.print();
        if error.use_stderr() { ExitCode::from(BAD_ARGUMENTS) } else { ExitCode::SUCCESS }
    })
}

/// The keys of encryption at rest in this file, or none.
pub(crate) fn keys(file: Option<&Path>) -> Result<EncryptionKeys, Failure> {
    Ok(match file {
        Some(path) => EncryptionKeys::new(vetch_encryption::read_key_file(path)?),
        None => EncryptionKeys::none(),
    })
}

/// Prints a line of progress.
pub(crate) fn print_message(text: &str) {
    // If standard error is closed, the line is lost.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The answer.
pub(crate) fn print_result(text: &str) -> Result<(), Failure> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}
