//! `vetch-sim`: runs seeds of the simulation, replays one, and proves that replays are exact.

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Deterministic simulation of a node: disk faults, crashes, clients, all from one seed.
#[derive(Parser)]
#[command(name = "vetch-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the regression seeds and then fresh ones.
    Run(cli::run::Options),
    /// Runs one seed.
    Seed(cli::seed::Options),
    /// Runs each seed twice, in two processes, and compares their traces.
    Same(cli::same::Options),
    /// Plants each known bug and tells how many seeds it takes to find it. Needs a build with
    /// `--features seeded`.
    Bugs(cli::bugs::Options),
    /// Runs the seeds that it reads, for `run` and `bugs`.
    #[command(hide = true)]
    Worker(cli::worker::Options),
}

fn main() -> ExitCode {
    // A panic in any thread or task is a failure, also of those that are waited for by none.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{info}\n{}", std::backtrace::Backtrace::capture());
        std::process::abort();
    }));
    let sound = match Arguments::parse().command {
        Command::Run(options) => cli::run::run(&options),
        Command::Seed(options) => cli::seed::run(&options),
        Command::Same(options) => cli::same::run(&options),
        Command::Bugs(options) => cli::bugs::run(&options),
        Command::Worker(options) => cli::worker::run(&options),
    };
    match sound {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            cli::say(format_args!("vetch-sim: {error}"));
            ExitCode::from(2)
        }
    }
}
