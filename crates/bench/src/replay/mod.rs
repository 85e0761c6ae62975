//! `vetch bench replay FILE`: sends what a recorded client sent, when it sent it, and compares what
//! it comes to.
//!
//! Revisions and leases are translated from the recording to this store. A transaction is sent so
//! that it comes to the recorded decision: with the revision this store has if it succeeded, with
//! another if it failed. Values have the recorded length. Requests for the same key keep their
//! order, so one may have to wait for another; its time counts from when it was due.

mod run;
mod trace;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use crate::args::Common;
use crate::report::{Figure, Point, Report};
use crate::session::Session;
use crate::wire::blocking;

#[derive(Args, Clone, Debug)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The recording; it may be compressed with gzip.
    pub(crate) file: PathBuf,
    /// So many times as fast.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) speed: f64,
    /// Begin at this second of the recording. What was written before is not there then, so some
    /// requests will come to something else.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) from: f64,
    /// End at this second of the recording; --duration ends it too.
    #[arg(long, default_value_t = f64::MAX)]
    pub(crate) to: f64,
}

pub(crate) fn run(session: &Session<'_>, options: &Replay) -> Result<Report> {
    ensure!(options.speed > 0.0 && options.speed <= 1e6, "a speed of {} is not possible", options.speed);
    let steps = trace::read(&options.file, options.from, options.to)?;
    let mut wire = session.wire(1)?;
    let before = blocking::count(wire.as_mut(), b"/registry/", b"/registry0")?;
    ensure!(
        before == 0,
        "there are {before} keys below /registry/ already: a recording needs a store without them"
    );
    let mut report = session.report("replay")?;
    session.say(&format!("replaying {} requests at {} times their speed", steps.len(), options.speed));
    let mut runner = run::Run::new(session, &steps, options.speed)?;
    let (tally, seen) = runner.run(session)?;
    let mut point = Point::new(format!("{} times as fast", options.speed), &tally, seen);
    point.figures.push(Figure::higher("requests sent", runner.sent as f64, ""));
    point.figures.push(Figure::lower("updates that had to be repeated", runner.repeated as f64, ""));
    report.points.push(point);
    report.interrupted = session.stop.is_raised();
    Ok(report)
}
