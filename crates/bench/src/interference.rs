//! Does a write notice what else the server does? Updates at a fixed rate, first alone, then while
//! everything is listed by stream again and again and the history is compacted every second.
//!
//! What a server does by itself, such as writing checkpoints, happens meanwhile as it would anyway.
//! Whatever lists gives way to whatever measures, where both share a processor: it is the server
//! that is asked whether it lets small requests through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use prost::Message;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use vetch_api::pb;

use crate::args::{Common, Objects};
use crate::drive::Pace;
use crate::measure::Stop;
use crate::report::{Figure, Point, Report};
use crate::session::Session;
use crate::wire::{Happened, Inbox, Method, Wire, blocking};
use crate::workloads::cas::Cas;
use crate::workloads::{Keys, Values, setup};

/// The priority of the thread that lists.
const LOWEST: i32 = 19;

#[derive(Args, Clone, Debug)]
pub(crate) struct Interfering {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// Updates per second, all the time.
    #[arg(long, default_value_t = 500.0)]
    pub(crate) rate: f64,
    #[arg(long, default_value_t = 512)]
    pub(crate) in_flight: usize,
}

pub(crate) fn run(session: &Session<'_>, options: &Interfering) -> Result<Report> {
    ensure!(options.rate > 0.0, "a rate is needed");
    ensure!(options.objects.keys > options.in_flight, "more keys than --in-flight are needed");
    let keys = setup::keys(session, &options.objects)?;
    let mut report = session.report("interference")?;
    let quiet = phase(session, options, &keys, "quiet")?;
    let background = Background::start(session, &keys)?;
    let busy = phase(session, options, &keys, "while listing and compacting");
    let (lists, compactions) = background.finish();
    let (quiet, mut busy) = (quiet, busy?);
    let p999 = |point: &Point| point.classes.first().map_or(0.0, |class| class.latency.p999);
    busy.figures.push(Figure::higher("lists of everything meanwhile", lists as f64, ""));
    busy.figures.push(Figure::higher("compactions meanwhile", compactions as f64, ""));
    let ratio = p999(&busy) / p999(&quiet).max(1e-9);
    busy.figures.push(Figure::lower("p99.9 busy / quiet", ratio, ""));
    report.points = vec![quiet, busy];
    report.interrupted = session.stop.is_raised();
    Ok(report)
}

fn phase(session: &Session<'_>, options: &Interfering, keys: &Keys, label: &str) -> Result<Point> {
    session.say(&format!("interference: {label}"));
    let revisions = setup::revisions(session.wire(1)?.as_mut(), keys)?;
    let (tally, seen) =
        session.measure(Pace::Open(options.rate), options.in_flight, None, &|worker, workers, slots| {
            let values = Values::new(options.objects.value_size, session.common.seed);
            Box::new(Cas::new(keys.clone(), values, &revisions, (worker, workers), slots))
        })?;
    let mut point = Point::new(label.to_owned(), &tally, seen);
    point.offered_per_second = Some(options.rate);
    Ok(point)
}

/// Lists and compacts on a thread of its own until it is stopped.
struct Background {
    over: Arc<AtomicBool>,
    lists: Arc<AtomicU64>,
    compactions: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Background {
    fn start(session: &Session<'_>, keys: &Keys) -> Result<Background> {
        let mut wire = session.wire(2)?;
        let (over, lists, compactions) = (Arc::<AtomicBool>::default(), Arc::default(), Arc::default());
        let (keys, stop) = (keys.clone(), session.stop.clone());
        let (ended, listed, compacted) = (over.clone(), Arc::clone(&lists), Arc::clone(&compactions));
        let thread = std::thread::spawn(move || {
            // On Linux this takes a thread for a process; to step back is always allowed.
            let _ = setpriority_process(Some(gettid()), LOWEST);
            disturb(wire.as_mut(), &keys, &stop, &ended, &listed, &compacted);
        });
        Ok(Background { over, lists, compactions, thread })
    }

    fn finish(self) -> (u64, u64) {
        self.over.store(true, Ordering::Relaxed);
        // Whatever it did not do shows in the counts.
        let _ = self.thread.join();
        (self.lists.load(Ordering::Relaxed), self.compactions.load(Ordering::Relaxed))
    }
}

fn disturb(
    wire: &mut dyn Wire,
    keys: &Keys,
    stop: &Stop,
    over: &AtomicBool,
    lists: &AtomicU64,
    compactions: &AtomicU64,
) {
    let (key, range_end) = keys.all();
    let request = pb::RangeRequest { key, range_end, ..Default::default() }.encode_to_vec();
    let mut inbox = Inbox::default();
    let mut listing = false;
    let mut compacted = Instant::now();
    let ended = || over.load(Ordering::Relaxed) || stop.is_raised();
    while !ended() {
        if !listing {
            wire.open(1, 0, Method::RangeStream, &request, true);
            listing = true;
        }
        inbox.clear();
        wire.wait(Instant::now() + Duration::from_millis(50), &mut inbox);
        for (_, _, happened) in inbox.iter() {
            if let Happened::End(failure) = happened {
                listing = false;
                lists.fetch_add(u64::from(failure.is_none()), Ordering::Relaxed);
            }
        }
        // Between two lists, because a call that waits would take the list's messages.
        if !listing && compacted.elapsed() >= Duration::from_secs(1) {
            compacted = Instant::now();
            if let Ok(revision) = blocking::revision(wire) {
                let request = pb::CompactionRequest { revision, physical: false };
                let done = blocking::ask::<pb::CompactionResponse>(wire, Method::Compact, &request);
                compactions.fetch_add(u64::from(done.is_ok()), Ordering::Relaxed);
            }
        }
    }
}
