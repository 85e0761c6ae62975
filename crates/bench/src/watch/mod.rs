//! Watch fan-out: writes at a rate, watchers on prefixes, and the time from a write to each event
//! that tells of it.
//!
//! The time counts from the moment at which the write was to be sent. Every watcher is checked:
//! revisions in order, previous values where they belong, and in the end exactly as many events as
//! writes were acknowledged in its prefix.

pub(crate) mod events;
mod run;
mod watchers;

use anyhow::{Result, ensure};
use clap::Args;

use crate::args::Common;
use crate::measure::tally::Tally;
use crate::report::{Figure, Point, Report};
use crate::session::Session;

#[derive(Args, Clone, Debug)]
pub(crate) struct Watching {
    #[command(flatten)]
    pub(crate) common: Common,
    #[arg(long, default_value_t = 100)]
    pub(crate) watchers: usize,
    /// Prefixes that are written to and watched, in turn.
    #[arg(long, default_value_t = 1)]
    pub(crate) prefixes: usize,
    /// Streams that the watchers are spread over.
    #[arg(long, default_value_t = 10)]
    pub(crate) streams: usize,
    /// Connections that the streams are spread over; 0: one for each, as in Kubernetes.
    #[arg(long, default_value_t = 0)]
    pub(crate) stream_connections: usize,
    /// Further watchers, with a stream and a connection each, that read only a tenth of the time.
    #[arg(long, default_value_t = 0)]
    pub(crate) slow: usize,
    /// Writes per second.
    #[arg(long, default_value_t = 100.0, conflicts_with = "writers")]
    pub(crate) rate: f64,
    /// Writers instead that wait for their answers: as many writes as it takes.
    #[arg(long)]
    pub(crate) writers: Option<usize>,
    /// Keys of each prefix.
    #[arg(long, default_value_t = 100)]
    pub(crate) keys: usize,
    #[arg(long, default_value_t = 400)]
    pub(crate) value_size: usize,
    /// Events without the previous value.
    #[arg(long)]
    pub(crate) without_previous: bool,
}

pub(crate) fn run(session: &Session<'_>, options: &Watching) -> Result<Report> {
    ensure!(options.prefixes > 0 && options.keys > 0, "at least one prefix and one key are needed");
    ensure!(
        options.streams > 0 && options.streams <= options.watchers,
        "each stream has at least one watcher"
    );
    ensure!(options.watchers <= 1_000_000 && options.slow <= 1000, "so many watchers are a mistake");
    ensure!(options.writers.is_some() || options.rate > 0.0, "a rate or a number of writers is needed");
    let mut report = session.report("watch")?;
    let mut runner = run::Run::prepare(session, options)?;
    let label = format!(
        "{} watchers on {} prefixes over {} streams{}",
        options.watchers,
        options.prefixes,
        options.streams,
        if options.slow > 0 { format!(", {} slow ones", options.slow) } else { String::new() }
    );
    session.say(&format!("watch: {label}"));
    let (tally, seen) = runner.run(session)?;
    let mut point = Point::new(label, &tally, seen);
    point.offered_per_second = options.writers.is_none().then_some(options.rate);
    add_figures(&mut point, &tally, seen);
    report.points.push(point);
    report.interrupted = session.stop.is_raised();
    Ok(report)
}

fn add_figures(point: &mut Point, tally: &Tally, seen: crate::measure::monitor::Seen) {
    let delivered: u64 = tally.classes[run::EVENT..].iter().map(|class| class.done).sum();
    point.figures.push(Figure::higher("events delivered", delivered as f64 / point.seconds.max(1e-9), "/s"));
    if let Some(server) = seen.server
        && server.cpu_seconds > 0.0
    {
        let each = delivered as f64 / server.cpu_seconds;
        point.figures.push(Figure::higher("events per server CPU second", each, ""));
    }
}
