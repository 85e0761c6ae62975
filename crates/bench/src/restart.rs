//! A server with much data: how long it takes to come back, and how much memory it needs.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use vetch_api::pb;

use crate::args::{Common, Objects};
use crate::measure::process::Usage;
use crate::report::{Figure, Point, Report};
use crate::session::Session;
use crate::wire::{Happened, Inbox, Method, Wire};
use crate::workloads::read::key_values;
use crate::workloads::{Keys, setup};
use crate::{args, scan, simple};

use prost::Message;

const LIST: Duration = Duration::from_secs(300);

#[derive(Args, Clone, Debug)]
pub(crate) struct Restarting {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// Also list 10,000 keys at a time, and page through everything, for so long each.
    #[arg(long, default_value = "0s", value_parser = args::duration)]
    pub(crate) lists: Duration,
}

pub(crate) fn run(session: &mut Session<'_>, options: &Restarting) -> Result<Report> {
    ensure!(
        session.target.is_ours(),
        "restarting needs --server: only a server that is started here is restarted"
    );
    let begun = Instant::now();
    let keys = setup::keys(session, &options.objects)?;
    let loading = begun.elapsed().as_secs_f64();
    let mut report = session.report("restart")?;
    let mib = |session: &Session<'_>| -> Result<f64> {
        Ok(Usage::of_all(&session.target.pids)?.resident_bytes as f64 / f64::from(1 << 20))
    };
    let mut figures = vec![
        Figure::higher("loading", keys.count as f64 / loading, "/s"),
        Figure::lower("memory after loading", mib(session)?, "MiB"),
    ];
    session.say("restarting");
    figures.push(Figure::lower("restart to first read", session.target.restart()?.as_secs_f64(), "s"));
    let before = mib(session)?;
    figures.push(Figure::lower("memory after the restart", before, "MiB"));
    session.say("listing everything by stream");
    let mut peak = before;
    let listed = list(session, &keys, &mut || peak = peak.max(mib(session).unwrap_or(0.0)))?;
    figures.push(Figure::higher(
        "list of everything by stream",
        listed.bytes as f64 / 1e6 / listed.seconds,
        "MB/s",
    ));
    figures.push(Figure::lower("list of everything by stream, time", listed.seconds, "s"));
    figures.push(Figure::lower("memory during that list, peak less before", (peak - before).max(0.0), "MiB"));
    figures.push(Figure::lower("memory after restart and list", mib(session)?, "MiB"));
    let label = format!("{} keys of {} bytes", keys.count, options.objects.value_size);
    report.points.push(Point { label, figures, ..Point::default() });
    if !options.lists.is_zero() {
        report.points.extend(lists(session, options)?);
    }
    report.interrupted = session.stop.is_raised();
    Ok(report)
}

/// The same data is there for lists and pages.
fn lists(session: &mut Session<'_>, options: &Restarting) -> Result<Vec<Point>> {
    let common = Common { duration: options.lists, ..options.common.clone() };
    let objects = Objects { loaded: true, ..options.objects.clone() };
    let load = args::Load { clients: vec![1], rate: Vec::new(), in_flight: 1, requests: None };
    let simple = args::Simple { common: common.clone(), load, objects };
    let inner = Session { common: &common, target: session.target, stop: session.stop.clone() };
    let listing = args::Listing { simple: simple.clone(), lengths: vec!["10000".to_owned()], stream: false };
    let mut points = simple::list(&inner, &listing)?.points;
    points.extend(simple::pages(&inner, &args::Paging { simple, page: 500 })?.points);
    Ok(points)
}

struct Listed {
    seconds: f64,
    bytes: u64,
}

/// One RangeStream of all keys; `look` is called now and then.
fn list(session: &Session<'_>, keys: &Keys, look: &mut dyn FnMut()) -> Result<Listed> {
    let mut wire: Box<dyn Wire> = session.wire(1)?;
    let (key, range_end) = keys.all();
    let request = pb::RangeRequest { key, range_end, ..Default::default() };
    let begun = Instant::now();
    wire.open(0, 0, Method::RangeStream, &request.encode_to_vec(), true);
    let (mut received, mut bytes) = (0, 0);
    let mut inbox = Inbox::default();
    let mut looked = Instant::now();
    while begun.elapsed() < LIST && !session.stop.is_raised() {
        inbox.clear();
        wire.wait(Instant::now() + Duration::from_millis(50), &mut inbox);
        for (_, _, happened) in inbox.iter() {
            match happened {
                Happened::Message(message) => {
                    let part = scan::bytes(message, 1)?.unwrap_or_default();
                    let (count, size) = key_values(part)?;
                    received += count;
                    bytes += size;
                }
                Happened::End(Some(failure)) => anyhow::bail!("listing everything: {failure}"),
                Happened::End(None) => {
                    ensure!(received == keys.count as u64, "{received} keys were listed of {}", keys.count);
                    return Ok(Listed { seconds: begun.elapsed().as_secs_f64(), bytes });
                }
            }
        }
        if looked.elapsed() > Duration::from_millis(20) {
            looked = Instant::now();
            look();
        }
    }
    anyhow::bail!("the list did not end within {LIST:?}")
}
