//! Several servers, one workload, in turn: so that whatever the machine does meanwhile happens to
//! all of them.
//!
//! A target is an endpoint, or a command line that is started with a fresh directory in every
//! round. Each round begins with another target. The report has the median and the extremes of
//! every number over all rounds, and the median of the ratios to the reference: a ratio compares
//! measurements from the same minute or so.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde::Serialize;

use crate::args::Compare;
use crate::cli::{Cli, Command};
use crate::measure::Stop;
use crate::report::{Better, Report, html, table};
use crate::target::Target;

#[derive(Serialize)]
struct Outcome<'a> {
    command: String,
    targets: Vec<String>,
    reference: &'a str,
    rounds: usize,
    rows: Vec<Row>,
    reports: &'a [Round],
    failures: &'a [String],
    interrupted: bool,
}

/// All that was measured of one target in one round.
#[derive(Serialize)]
struct Round {
    round: usize,
    target: String,
    report: Report,
}

#[derive(Serialize)]
struct Row {
    name: String,
    unit: &'static str,
    better: Better,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    target: String,
    median: f64,
    least: f64,
    most: f64,
    values: Vec<f64>,
    /// To the reference, round by round; the reference has none.
    ratio: Option<Ratio>,
}

#[derive(Serialize)]
struct Ratio {
    median: f64,
    least: f64,
    most: f64,
}

pub(crate) fn run(options: &Compare, stop: &Stop) -> Result<bool> {
    ensure!(options.targets.len() >= 2, "at least two targets are compared");
    ensure!((1..=1000).contains(&options.rounds), "between one round and a thousand");
    let words = std::iter::once("vetch bench").chain(options.workload.iter().map(String::as_str));
    let cli = Cli::try_parse_from(words)?;
    ensure!(!matches!(cli.command, Command::Compare(_) | Command::Machine(_)), "that cannot be compared");
    let targets: Vec<(&str, &str)> =
        options.targets.iter().map(|target| named(target)).collect::<Result<_>>()?;
    let mut rounds: Vec<Round> = Vec::new();
    let mut failures = Vec::new();
    'rounds: for round in 0..options.rounds {
        for turn in 0..targets.len() {
            let (name, target) = targets[(round + turn) % targets.len()];
            crate::say(&format!("round {} of {}: {name}", round + 1, options.rounds));
            // What the one before has left to be written is not to be paid for by this one.
            rustix::fs::sync();
            match once(&cli.command, target, stop) {
                Ok(report) => rounds.push(Round { round, target: name.to_owned(), report }),
                Err(error) => {
                    crate::say(&format!("{name} failed: {error:#}"));
                    failures.push(format!("round {}: {name}: {error:#}", round + 1));
                }
            }
            if stop.is_raised() {
                break 'rounds;
            }
            std::thread::sleep(options.pause);
        }
    }
    ensure!(!rounds.is_empty(), "nothing was measured: {}", failures.join("; "));
    let names: Vec<&str> = targets.iter().map(|(name, _)| *name).collect();
    let outcome = Outcome {
        command: options.workload.join(" "),
        targets: names.iter().map(|name| (*name).to_owned()).collect(),
        reference: names[0],
        rounds: options.rounds,
        rows: rows(&names, &rounds),
        reports: &rounds,
        failures: &failures,
        interrupted: stop.is_raised(),
    };
    crate::print(&render(&outcome))?;
    if let Some(path) = &options.json {
        crate::write(path, &serde_json::to_string_pretty(&outcome)?)?;
    }
    if let Some(path) = &options.html {
        let last = |name: &&str| rounds.iter().rfind(|round| round.target == **name);
        let pages: Vec<_> =
            names.iter().filter_map(|name| Some(((*name).to_owned(), &last(name)?.report))).collect();
        crate::write(path, &html::render(&pages))?;
    }
    Ok(failures.is_empty() && !rounds.iter().any(|round| round.report.failed()))
}

fn named(target: &str) -> Result<(&str, &str)> {
    target
        .split_once('=')
        .filter(|(name, rest)| !name.is_empty() && !rest.is_empty())
        .with_context(|| format!("{target:?} is neither NAME=URL nor NAME=COMMAND"))
}

fn once(command: &Command, target: &str, stop: &Stop) -> Result<Report> {
    let common = crate::common(command).context("that cannot be compared")?;
    common.check()?;
    let is_url = target.starts_with("http://") || target.starts_with("https://");
    let mut target = if is_url {
        Target::endpoint(vec![target.to_owned()], common.pid.clone(), common.pin)?
    } else {
        Target::start(target, &common.data_root, common.pin)?
    };
    crate::execute(command, common, &mut target, stop)
}

/// One row for each number that any of the reports has: a slow server may not have come to all of
/// them.
fn rows(names: &[&str], rounds: &[Round]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for metric in rounds.iter().flat_map(|round| round.report.metrics()) {
        if rows.iter().any(|row| row.name == metric.name) {
            continue;
        }
        let of = |target: &str, round: usize| {
            let report = rounds.iter().find(|r| r.target == target && r.round == round)?;
            report.report.metrics().into_iter().find(|m| m.name == metric.name).map(|m| m.value)
        };
        let last = rounds.iter().map(|r| r.round).max().unwrap_or(0);
        let mut cells = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let values: Vec<f64> = (0..=last).filter_map(|round| of(name, round)).collect();
            let pairs = (0..=last).filter_map(|round| Some((of(name, round)?, of(names[0], round)?)));
            let ratios: Vec<f64> =
                pairs.filter(|(_, base)| *base != 0.0).map(|(mine, base)| mine / base).collect();
            let ratio = (index > 0 && !ratios.is_empty()).then(|| {
                let (least, median, most) = spread(&ratios);
                Ratio { median, least, most }
            });
            if !values.is_empty() {
                let (least, median, most) = spread(&values);
                cells.push(Cell { target: (*name).to_owned(), median, least, most, values, ratio });
            }
        }
        rows.push(Row { name: metric.name, unit: metric.unit, better: metric.better, cells });
    }
    rows
}

fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    (sorted[0], (low + high) / 2.0, sorted[sorted.len() - 1])
}

fn render(outcome: &Outcome<'_>) -> String {
    let mut out = format!("{}\n", outcome.command);
    if let Some(round) = outcome.reports.first() {
        let report = &round.report;
        let _ =
            writeln!(out, "client: {}; {}; {} processors", report.client, report.pinned, report.processors);
    }
    let _ = writeln!(out, "median of the rounds (least to most); x: ratio to {}\n", outcome.reference);
    for row in &outcome.rows {
        let better = if row.better == Better::Higher { "higher is better" } else { "lower is better" };
        let _ = writeln!(out, "{} [{}] ({better})", row.name, row.unit);
        for cell in &row.cells {
            let _ = write!(
                out,
                "  {:<12} {:>10} ({} to {})",
                cell.target,
                table::number(cell.median),
                table::number(cell.least),
                table::number(cell.most)
            );
            if let Some(ratio) = &cell.ratio {
                let _ = write!(out, "   x {:.2} ({:.2} to {:.2})", ratio.median, ratio.least, ratio.most);
            }
            out.push('\n');
        }
    }
    for failure in outcome.failures {
        let _ = writeln!(out, "FAILED: {failure}");
    }
    if outcome.interrupted {
        out.push_str("Interrupted: these are the figures until then.\n");
    }
    out
}
