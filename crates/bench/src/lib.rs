//! `vetch bench`: a load generator for any server with etcd's API, and its reports.
//!
//! It knows the API and nothing of the server. Start reading at `drive`, which sends requests on
//! schedule and measures their responses, and at `wire`, which has two clients: a lean one and an
//! ordinary one.
//!
//! Guarantees: an error is never counted as a success, and answers are checked, not only counted;
//! latency at an offered rate counts from the time at which a request was to be sent; every run is
//! bounded in time.

mod args;
mod cli;
mod compare;
mod drive;
mod expiry;
mod failure;
mod interference;
mod kube;
mod machine;
mod measure;
mod replay;
mod report;
mod restart;
mod scan;
mod session;
mod simple;
mod target;
mod watch;
mod wire;
mod workloads;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use args::Common;
use cli::{Cli, Command};
use measure::Stop;
use report::{Report, html, table};
use session::Session;
use target::Target;

/// Arguments that make no sense.
const BAD_ARGUMENTS: u8 = 128;

/// Runs the command line after `vetch bench`. Exit code 1 if anything failed, errors among the
/// answers included.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(std::iter::once("vetch bench".into()).chain(arguments)) {
        Ok(cli) => cli,
        Err(error) => {
            // If neither output is open there is no one to report to.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(BAD_ARGUMENTS) } else { ExitCode::SUCCESS };
        }
    };
    match dispatch(&cli.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("Error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well.
fn dispatch(command: &Command) -> Result<bool> {
    measure::processors();
    let stop = Stop::on_signals()?;
    match command {
        Command::Compare(options) => compare::run(options, &stop),
        Command::Machine(options) => {
            let report = machine::run(options, &stop)?;
            publish(&report, options.json.as_deref(), options.html.as_deref())
        }
        _ => {
            let common = common(command).context("a workload has common options")?;
            common.check()?;
            let has_process = common.server.is_some() || !common.pid.is_empty();
            ensure!(common.pin.is_none() || has_process, "--pin needs --server or --pid");
            let mut target = match &common.server {
                Some(line) => Target::start(line, &common.data_root, common.pin)?,
                None => Target::endpoint(common.endpoints.clone(), common.pid.clone(), common.pin)?,
            };
            let report = execute(command, common, &mut target, &stop)?;
            publish(&report, common.json.as_deref(), common.html.as_deref())
        }
    }
}

/// The options that all workloads have.
fn common(command: &Command) -> Option<&Common> {
    Some(match command {
        Command::Put(options) | Command::Cas(options) | Command::Churn(options) => &options.common,
        Command::Read(options) => &options.simple.common,
        Command::List(options) => &options.simple.common,
        Command::Pages(options) => &options.simple.common,
        Command::Watch(options) => &options.common,
        Command::Keepalive(options) => &options.common,
        Command::Expiry(options) => &options.common,
        Command::Kube(options) => &options.common,
        Command::Replay(options) => &options.common,
        Command::Restart(options) => &options.common,
        Command::Interference(options) => &options.common,
        Command::Machine(_) | Command::Compare(_) => return None,
    })
}

/// Runs a workload against a server that is there.
fn execute(command: &Command, common: &Common, target: &mut Target, stop: &Stop) -> Result<Report> {
    let session = &mut Session { common, target, stop: stop.clone() };
    let report = match command {
        Command::Put(options) => simple::put(session, options),
        Command::Cas(options) => simple::cas(session, options),
        Command::Churn(options) => simple::churn(session, options),
        Command::Read(options) => simple::read(session, options),
        Command::List(options) => simple::list(session, options),
        Command::Pages(options) => simple::pages(session, options),
        Command::Watch(options) => watch::run(session, options),
        Command::Keepalive(options) => simple::keepalive(session, options),
        Command::Expiry(options) => expiry::run(session, options),
        Command::Kube(options) => kube::run(session, options),
        Command::Replay(options) => replay::run(session, options),
        Command::Restart(options) => restart::run(session, options),
        Command::Interference(options) => interference::run(session, options),
        Command::Machine(_) | Command::Compare(_) => anyhow::bail!("no workload"),
    }?;
    if common.clean {
        workloads::setup::clean(session)?;
    }
    Ok(report)
}

fn publish(report: &Report, json: Option<&Path>, page: Option<&Path>) -> Result<bool> {
    if json.is_none_or(|path| path.as_os_str() != "-") {
        print(&table::render(report))?;
    }
    if let Some(path) = json {
        write(path, &serde_json::to_string_pretty(report)?)?;
    }
    if let Some(path) = page {
        write(path, &html::render(&[(report.server_version.clone(), report)]))?;
    }
    Ok(!report.failed())
}

fn print(text: &str) -> Result<()> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// To a file, or to standard output if its name is a dash.
fn write(path: &Path, text: &str) -> Result<()> {
    if path.as_os_str() == "-" {
        return print(&format!("{text}\n"));
    }
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Writes a line of progress to standard error, which may be closed.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
