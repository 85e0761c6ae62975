//! `vetch-sim run`: many seeds, a table of rare things, and one command for each seed that failed.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use vetch_sim::coverage::{Coverage, Rare};

use super::pool::{self, Setup};
use super::worker::Answer;
use super::{Level, LevelOption, default_histories, say};

const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    level: LevelOption,
    /// Fresh seeds, after the regression seeds.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them; random unless given.
    #[arg(long)]
    from: Option<u64>,
    /// Processes at once.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Fail if a rare thing never happened.
    #[arg(long)]
    require_coverage: bool,
    /// Where histories of failed seeds go.
    #[arg(long, default_value_os_t = default_histories())]
    histories: PathBuf,
}

/// What a run came to.
#[derive(Default)]
struct Tally {
    coverage: Coverage,
    counts: BTreeMap<String, u64>,
    passed: u64,
    failed: Vec<u64>,
    operations: u64,
    virtual_nanos: u64,
}

pub(crate) fn run(options: &Options) -> io::Result<bool> {
    // Large enough that two runs hardly ever meet, small enough to be typed.
    let base = options.from.unwrap_or_else(|| RandomState::new().hash_one("seeds") >> 24);
    let level = options.level.level;
    let regressions = regressions(level);
    say(format_args!("{} regression seeds, then {} from {base} on", regressions.len(), options.seeds));
    let seeds = regressions.into_iter().chain(base..base + options.seeds);
    let began = Instant::now();
    let mut reported = began;
    let mut tally = Tally::default();
    let setup = Setup { level, histories: &options.histories, bug: None };
    pool::feed(&setup, options.jobs, seeds, |answer| {
        take(&mut tally, &answer, level);
        if reported.elapsed() > PROGRESS_INTERVAL {
            reported = Instant::now();
            say(format_args!("{} passed, {} failed", tally.passed, tally.failed.len()));
        }
        true
    })?;
    Ok(conclude(&tally, began.elapsed(), options))
}

fn regressions(level: Level) -> Vec<u64> {
    let lines = level.regressions().lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

fn take(tally: &mut Tally, answer: &Answer, level: Level) {
    tally.coverage.add(&answer.coverage);
    for (what, times) in &answer.counts {
        *tally.counts.entry(what.clone()).or_default() += times;
    }
    tally.operations += answer.operations;
    tally.virtual_nanos += answer.virtual_nanos;
    if answer.violations.is_empty() {
        tally.passed += 1;
        return;
    }
    let seed = answer.seed;
    tally.failed.push(seed);
    say(format_args!("seed {seed} failed; replay with: {}", level.replay(seed)));
    for violation in &answer.violations {
        say(format_args!("  {violation}"));
    }
    if let Some(history) = &answer.history {
        say(format_args!("  history: {}", history.display()));
    }
}

fn conclude(tally: &Tally, took: Duration, options: &Options) -> bool {
    let mut missing = 0;
    let level = options.level.level;
    for (what, times) in &tally.counts {
        say(format_args!("{times:9}  {what}"));
    }
    let counted = Rare::ALL.iter().zip(tally.coverage.counts());
    let of_level = |rare: &Rare| level.has_histories() && rare.is_of_cluster() == (level == Level::Cluster);
    for (rare, count) in counted.filter(|(rare, _)| of_level(rare)) {
        say(format_args!("{count:9}  {}", rare.text()));
        missing += usize::from(count == 0);
    }
    let seeds = tally.passed + tally.failed.len() as u64;
    let per_minute = seeds as f64 * 60.0 / took.as_secs_f64();
    let hours = tally.virtual_nanos as f64 / 3.6e12;
    say(format_args!(
        "{} operations in {hours:.1} h of virtual time; {per_minute:.0} seeds per minute",
        tally.operations
    ));
    if missing > 0 {
        say(format_args!("{missing} rare things never happened"));
    }
    for seed in &tally.failed {
        say(format_args!("failed: {}", level.replay(*seed)));
    }
    say(format_args!("{} passed, {} failed", tally.passed, tally.failed.len()));
    tally.failed.is_empty() && tally.passed > 0 && !(options.require_coverage && missing > 0)
}
