//! The command: starts a migration, or asks a running one to cut over.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use super::flags::{Flags, split};
use crate::commands::client::duration;
use crate::commands::{Failure, exit, parsed, print_message, print_result};
use crate::flags::Command;
use crate::migration_dir;

#[derive(Parser, Debug)]
#[command(
    name = "vetch migrate cut-over",
    about = "Tells a running 'vetch migrate' to cut over",
    disable_version_flag = true
)]
struct CutOver {
    /// The data directory of that migration.
    #[arg(long)]
    data_dir: PathBuf,
    /// How long to wait for it.
    #[arg(long, default_value = "60s", value_parser = duration)]
    timeout: Duration,
}

/// Runs the command; `arguments` are those behind the word `migrate`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<String> = arguments.map(|a| a.to_string_lossy().into_owned()).collect();
    if arguments.first().is_some_and(|word| word == "cut-over") {
        let rest = arguments.into_iter().skip(1).map(OsString::from);
        return match parsed::<CutOver>("vetch migrate cut-over", rest) {
            Ok(command) => exit(command.run()),
            Err(code) => code,
        };
    }
    let (own, rest) = split(arguments);
    let flags: Flags = match parsed("vetch migrate", own.into_iter().map(OsString::from)) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    let variables = std::env::vars_os();
    let variables =
        variables.map(|(k, v)| (k.to_string_lossy().into_owned(), v.to_string_lossy().into_owned()));
    match crate::flags::parse(rest, variables) {
        Ok(Command::Serve(parsed)) => crate::run_server(&parsed, |settings| super::run::run(settings, flags)),
        Ok(Command::Help | Command::Version) => {
            exit(Err(Failure::bad_arguments("see vetch migrate --help, and vetch --help")))
        }
        Err(error) => crate::usage_failure(&error),
    }
}

impl CutOver {
    /// Leaves the request for the other process, and reports its result.
    fn run(&self) -> Result<(), Failure> {
        const POLL_INTERVAL: Duration = Duration::from_millis(50);
        let dir = &self.data_dir;
        if let Some(done) = migration_dir::done(dir)? {
            return print_result(&format!(
                "the migration into {} is done, since revision {}",
                dir.display(),
                done.revision
            ));
        }
        if !migration_dir::is_under_way(dir) {
            let text = format!("no migration is in progress in {}", dir.display());
            return Err(Failure { code: 1, text });
        }
        migration_dir::request(dir)?;
        print_message("waiting for the cut-over");
        let begun = std::time::Instant::now();
        while begun.elapsed() < self.timeout {
            std::thread::sleep(POLL_INTERVAL);
            if let Some(done) = migration_dir::done(dir)? {
                return print_result(&format!(
                    "done: Vetch answers since revision {}; stop the etcd",
                    done.revision
                ));
            }
            if migration_dir::has_failed(dir) {
                let text =
                    "the cut-over failed, the etcd remains the truth; the log of 'vetch migrate' says why";
                return Err(Failure { code: 1, text: text.into() });
            }
        }
        let seen = if migration_dir::is_requested(dir) {
            "no process has taken the request"
        } else {
            "it is still in progress"
        };
        let text = format!("no cut-over in {:?}: {seen}; see the log of 'vetch migrate'", self.timeout);
        Err(Failure { code: 1, text })
    }
}
