//! `vetch-fence-sim`: the protocol of a shared log, simulated, seed by seed.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::{Parser, Subcommand};
use vetch_conformance::sim::{self, Report};
#[cfg(feature = "seeded")]
use vetch_seeded_bugs::Bug;

#[derive(Parser)]
#[command(about = "Simulates servers on a shared log that misbehaves")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Many seeds; the first that fails ends it.
    Run {
        #[arg(long, default_value_t = 1)]
        from: u64,
        #[arg(long, default_value_t = 2000)]
        seeds: u64,
        #[arg(long, default_value_t = 2)]
        jobs: u64,
    },
    /// One seed, with a trace.
    Seed { seed: u64 },
    /// Plants one bug after the other and tells which seed shows it.
    Bugs {
        #[arg(long, default_value_t = 6000)]
        seeds: u64,
        only: Vec<String>,
    },
}

fn main() -> ExitCode {
    let good = match Cli::parse().command {
        Command::Run { from, seeds, jobs } => run(from, seeds, jobs),
        Command::Seed { seed } => one(seed),
        Command::Bugs { seeds, only } => bugs(seeds, &only),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn say(line: impl std::fmt::Display) {
    // A closed pipe is no reason to fail.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn run(from: u64, seeds: u64, jobs: u64) -> bool {
    let begun = Instant::now();
    let (failed, coverage) = search(from, seeds, jobs);
    for (what, times) in coverage {
        say(format_args!("{times:>12} {what}"));
    }
    if let Some(report) = &failed {
        say(format_args!("seed {} FAILED: {}", report.seed, report.violation.as_deref().unwrap_or_default()));
        say(format_args!("replay: vetch-fence-sim seed {}", report.seed));
        return false;
    }
    say(format_args!("{seeds} seeds from {from} clean in {:.1?}", begun.elapsed()));
    true
}

/// Runs seeds until one fails: the lowest that was seen to, and how often rare things happened.
fn search(from: u64, seeds: u64, jobs: u64) -> (Option<Report>, BTreeMap<&'static str, u64>) {
    let next = AtomicU64::new(from);
    let mut failed: Option<Report> = None;
    let mut coverage = BTreeMap::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(|| worker(&next, from + seeds))).collect();
        for worker in workers {
            let (found, counted) = worker.join().expect("a worker panics only if the simulation does");
            counted.into_iter().for_each(|(what, times)| *coverage.entry(what).or_default() += times);
            if found
                .as_ref()
                .is_some_and(|found| failed.as_ref().is_none_or(|failed| found.seed < failed.seed))
            {
                failed = found;
            }
        }
    });
    (failed, coverage)
}

fn worker(next: &AtomicU64, end: u64) -> (Option<Report>, BTreeMap<&'static str, u64>) {
    let mut coverage = BTreeMap::new();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return (None, coverage);
        }
        let mut report = sim::run(seed, false);
        for (what, times) in std::mem::take(&mut report.coverage) {
            *coverage.entry(what).or_default() += times;
        }
        if report.violation.is_some() {
            next.store(end, Ordering::Relaxed);
            return (Some(report), coverage);
        }
    }
}

fn one(seed: u64) -> bool {
    let report = sim::run(seed, true);
    report.trace.iter().for_each(say);
    report.coverage.iter().for_each(|(what, times)| say(format_args!("{times:>12} {what}")));
    say(format_args!("seed {seed}: {}", report.violation.as_deref().unwrap_or("clean")));
    report.violation.is_none()
}

#[cfg(not(feature = "seeded"))]
fn bugs(_: u64, _: &[String]) -> bool {
    say("this build has no bugs to plant; build it with --features seeded");
    false
}

#[cfg(feature = "seeded")]
fn bugs(seeds: u64, only: &[String]) -> bool {
    let mut missed = 0;
    let chosen =
        |bug: &&Bug| bug.is_of_the_fence() && (only.is_empty() || only.iter().any(|name| name == bug.name()));
    for bug in Bug::ALL.iter().filter(chosen) {
        vetch_seeded_bugs::plant(Some(*bug));
        match search(1, seeds, 2).0 {
            Some(found) => {
                let violation = found.violation.unwrap_or_default();
                say(format_args!("{:20} found by seed {}: {violation}", bug.name(), found.seed));
            }
            None => {
                missed += 1;
                say(format_args!("{:20} NOT FOUND in {seeds} seeds: {}", bug.name(), bug.what()));
            }
        }
    }
    missed == 0
}
