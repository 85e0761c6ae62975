//! `vetch bench kube`: what a Kubernetes cluster of N nodes requires of its store.
//!
//! Everything is offered at its rate, whether or not the store keeps up. With `--search` N grows
//! until the store no longer does: until the 99th percentile of a class of writes, point reads or
//! consistent reads is 10 ms or more, or that of the time from a write to its events 100 ms. Lists
//! (pages, and the filling of caches when an API server restarts) run all the time and are
//! reported, but have no limit.

mod cluster;
mod mix;
mod resources;
mod restarts;
mod run;
mod watches;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;

use crate::args::Common;
use crate::measure::tally::{Tally, histogram};
use crate::report::{Figure, Latency, Point, Report};
use crate::session::Session;
use cluster::Cluster;
use mix::Rates;

const FAST: f64 = 10_000.0;
const EVENT_LATENCY_MAX: f64 = 100_000.0;
/// Answers that make a 99th percentile.
const ENOUGH: u64 = 100;
/// Measurements of one search, at most.
const PROBES: usize = 16;

#[derive(Args, Clone, Debug)]
pub(crate) struct Kube {
    #[command(flatten)]
    pub(crate) common: Common,
    #[arg(long, default_value_t = 100)]
    pub(crate) nodes: usize,
    #[arg(long, default_value_t = 3)]
    pub(crate) apiservers: usize,
    #[arg(long, default_value_t = 30)]
    pub(crate) pods_per_node: usize,
    /// Time between two compactions.
    #[arg(long, default_value = "10s", value_parser = crate::args::duration)]
    pub(crate) compaction: Duration,
    /// API servers that restart during the measured time.
    #[arg(long, default_value_t = 1)]
    pub(crate) restarts: usize,
    /// Find the largest number of nodes that the server is fast enough for, beginning with --nodes.
    #[arg(long)]
    pub(crate) search: bool,
    /// Do not try more nodes than this.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) most_nodes: usize,
    /// End the search when the answer is known to this part of itself.
    #[arg(long, default_value_t = 0.15)]
    pub(crate) precision: f64,
}

pub(crate) fn run(session: &Session<'_>, options: &Kube) -> Result<Report> {
    ensure!((1..=64).contains(&options.apiservers), "between one and 64 API servers");
    ensure!((1..=1_000_000).contains(&options.nodes), "between one node and a million");
    ensure!(options.pods_per_node > 0, "at least one pod on a node");
    let mut report = session.report("kube")?;
    let root = format!("{}kube/", session.common.prefix);
    let mut cluster = Cluster::new(&root, options.pods_per_node, session.common.seed);
    if options.search {
        search(session, options, &mut cluster, &mut report)?;
    } else {
        let (point, _) = probe(session, options, &mut cluster, options.nodes)?;
        report.points.push(point);
    }
    report.interrupted = session.stop.is_raised();
    Ok(report)
}

/// Doubles the nodes until it is too much, then halves the distance.
fn search(session: &Session<'_>, options: &Kube, cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    let (mut good, mut bad) = (0, None::<usize>);
    let mut nodes = options.nodes;
    let mut points = Vec::new();
    for _ in 0..PROBES {
        let (point, fits) = probe(session, options, cluster, nodes)?;
        session.say(&format!("  {nodes} nodes: {}", if fits { "fast enough" } else { "too slow" }));
        points.push(point);
        if session.stop.is_raised() {
            break;
        }
        if fits {
            good = nodes;
        } else {
            bad = Some(nodes);
        }
        nodes = match bad {
            None if nodes >= options.most_nodes => break,
            None => (nodes * 2).min(options.most_nodes),
            Some(bad) if bad - good <= ((good as f64 * options.precision) as usize).max(1) => break,
            Some(bad) => (good + bad) / 2,
        };
        if nodes == 0 {
            break;
        }
    }
    let mut answer = Point { label: "largest cluster that is fast enough".to_owned(), ..Point::default() };
    answer.figures.push(Figure::higher("nodes", good as f64, ""));
    // Then it may be able to do more.
    answer.figures.push(Figure::higher("no larger one was tried", f64::from(u8::from(bad.is_none())), ""));
    // Errors of clusters that were too large are part of the search, not of the answer.
    report.points = vec![answer];
    for mut point in points {
        let failed: u64 = point.errors();
        point.figures.push(Figure::lower("errors and unanswered", failed as f64, ""));
        for class in &mut point.classes {
            (class.errors, class.unanswered) = (0, 0);
        }
        report.points.push(point);
    }
    Ok(())
}

/// One measurement, and whether everything was fast enough.
fn probe(
    session: &Session<'_>,
    options: &Kube,
    cluster: &mut Cluster,
    nodes: usize,
) -> Result<(Point, bool)> {
    cluster.grow(session, nodes)?;
    session.say(&format!("kube: {nodes} nodes, {} API servers", options.apiservers));
    let rates = Rates { nodes, apiservers: options.apiservers, compaction: options.compaction };
    let mut runner = run::Run::new(session, cluster, rates, options.restarts)?;
    let (tally, seen) = runner.run(session)?;
    let mut point = Point::new(format!("{nodes} nodes"), &tally, seen);
    for filled in &runner.restarts.done {
        let rate = filled.bytes as f64 / 1e6 / filled.seconds.max(1e-9);
        point.figures.push(Figure::lower(
            "API server restart until all caches are filled",
            filled.seconds,
            "s",
        ));
        point.figures.push(Figure::higher("API server restart, lists", rate, "MB/s"));
    }
    let fits = judge(&tally, &point);
    point.figures.push(Figure::higher("fast enough", f64::from(u8::from(fits)), ""));
    Ok((point, fits))
}

/// A percentile says something if there are enough of what it is of. Classes with fewer answers are
/// judged together: otherwise the single slowest of them would decide, and small clusters, which
/// have few of each, would be refused by chance.
fn judge(tally: &Tally, point: &Point) -> bool {
    let p99 = |latency: &Histogram<u64>| Latency::of(latency).p99;
    let judged = tally.classes[..mix::JUDGED].iter().map(|class| &class.latency);
    let (rare, frequent): (Vec<_>, Vec<_>) = judged.partition(|latency| latency.len() < ENOUGH);
    let mut together = histogram();
    for latency in rare {
        together.add(latency).expect("all histograms have the same bounds");
    }
    let is_fast = frequent.into_iter().chain([&together]).all(|latency| p99(latency) < FAST);
    let is_delivered = p99(&tally.classes[mix::EVENT].latency) < EVENT_LATENCY_MAX;
    is_fast && is_delivered && tally.done() > 0 && point.errors() == 0 && point.unsent == 0
}
