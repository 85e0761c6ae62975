//! Mass expiry: very many leases with a key each, granted one after the other, that end in the same
//! order.
//!
//! Measured are the time from the first end that was due until the last key is gone, and how much
//! later than due each key was gone. That is seen by one watch of all keys.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;
use vetch_api::pb::watch_request::RequestUnion;

use crate::args::Common;
use crate::drive::{Asked, Work};
use crate::failure::WrongAnswer;
use crate::measure::tally::{self, Yield};
use crate::report::{Figure, Latency, Point, Report};
use crate::scan;
use crate::session::Session;
use crate::watch::events;
use crate::wire::{Happened, Inbox, Method, Wire};
use crate::workloads::setup::Granted;
use crate::workloads::{Keys, Values, setup};

#[derive(Args, Clone, Debug)]
pub(crate) struct Expiring {
    #[command(flatten)]
    pub(crate) common: Common,
    #[arg(long, default_value_t = 10_000)]
    pub(crate) leases: usize,
    /// Seconds; all leases have to be granted within them.
    #[arg(long, default_value_t = 20)]
    pub(crate) ttl: i64,
    #[arg(long, default_value_t = 100)]
    pub(crate) value_size: usize,
    /// Give up that long after the last end was due.
    #[arg(long, default_value = "5m", value_parser = crate::args::duration)]
    pub(crate) limit: Duration,
}

/// Puts one key for each lease.
struct Attach {
    leases: Vec<Granted>,
    keys: Keys,
    values: Values,
    next: usize,
}

impl Work for Attach {
    fn classes(&self) -> &'static [&'static str] {
        &["put"]
    }

    fn next(&mut self, _slot: usize, message: &mut Vec<u8>) -> Asked {
        let request = pb::PutRequest {
            key: self.keys.key(self.next),
            value: self.values.value(),
            lease: self.leases[self.next].id,
            ..Default::default()
        };
        self.next += 1;
        request.encode(message).expect("a vector grows");
        Asked { method: Method::Put, class: 0 }
    }

    fn message(&mut self, _slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer> {
        scan::revision(message)?;
        Ok(Yield::default())
    }
}

pub(crate) fn run(session: &Session<'_>, options: &Expiring) -> Result<Report> {
    ensure!(
        options.leases > 0 && options.leases <= 10_000_000 && options.ttl > 0,
        "leases and a time are needed"
    );
    let mut report = session.report("expiry")?;
    let keys = Keys::new(&format!("{}expiry/", session.common.prefix), options.leases);
    let mut wire = session.wire(1)?;
    watch(wire.as_mut(), &keys);
    let leases = setup::leases(session, options.leases, options.ttl)?;
    session.say("putting a key for each lease");
    let mut ends: Vec<Instant> = leases.iter().map(|lease| lease.ends).collect();
    let values = Values::new(options.value_size, session.common.seed);
    setup::run(session, &mut Attach { leases, keys, values, next: 0 }, options.leases as u64)?;
    ends.sort_unstable();
    let (first, last) = (ends[0], ends[options.leases - 1]);
    ensure!(Instant::now() < first, "the first leases ended before the last had a key: --ttl is too short");
    let window = session.window_of(Duration::ZERO, last + options.limit - Instant::now());
    let monitor = session.monitor(window, &std::sync::Arc::default());
    let gone = follow(session, wire.as_mut(), options.leases, last + options.limit)?;
    let seen = monitor.finish();
    let complete = gone.len() == options.leases;
    ensure!(
        complete || session.stop.is_raised(),
        "after {:?} only {} of {} keys are gone",
        options.limit,
        gone.len(),
        options.leases
    );

    let mut late = tally::histogram();
    let mut early = 0;
    for (at, due) in gone.iter().zip(&ends) {
        // Keys go in the order of their ends, or nearly so.
        early += u64::from(*at + Duration::from_millis(1500) < *due);
        tally::record(&mut late, at.saturating_duration_since(*due));
    }
    let lateness = Latency::of(&late);
    let mut point = Point { label: format!("{} leases", options.leases), ..Point::default() };
    point.seconds = gone.last().map_or(0.0, |at| at.saturating_duration_since(first).as_secs_f64());
    point.figures = vec![
        Figure::lower("first due to last gone", point.seconds, "s"),
        Figure::lower(
            "last due to last gone",
            gone.last().map_or(0.0, |at| at.saturating_duration_since(last).as_secs_f64()),
            "s",
        ),
        Figure::lower("due to gone, p50", lateness.p50 / 1e3, "ms"),
        Figure::lower("due to gone, p99", lateness.p99 / 1e3, "ms"),
        Figure::lower("keys gone more than 1.5 s early", early as f64, ""),
    ];
    if let Some(server) = seen.server {
        point.figures.push(Figure::lower("server CPU", server.cpu_seconds, "s"));
    }
    report.points.push(point);
    report.interrupted = session.stop.is_raised();
    Ok(report)
}

fn watch(wire: &mut dyn Wire, keys: &Keys) {
    let (key, range_end): (Bytes, Bytes) = keys.all();
    let create = pb::WatchCreateRequest { key, range_end, ..Default::default() };
    let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    wire.open(0, 0, Method::Watch, &request.encode_to_vec(), false);
}

/// When each key was gone.
fn follow(
    session: &Session<'_>,
    wire: &mut dyn Wire,
    count: usize,
    deadline: Instant,
) -> Result<Vec<Instant>> {
    let mut gone = Vec::with_capacity(count);
    let mut inbox = Inbox::default();
    let mut reported = Instant::now();
    while gone.len() < count && Instant::now() < deadline && !session.stop.is_raised() {
        inbox.clear();
        wire.wait(Instant::now() + Duration::from_millis(100), &mut inbox);
        for (_, at, happened) in inbox.iter() {
            match happened {
                Happened::Message(message) => {
                    for event in events::events(message) {
                        let event = event?;
                        if event.deleted {
                            gone.push(at);
                        }
                    }
                }
                Happened::End(failure) => anyhow::bail!("the watch ended: {failure:?}"),
            }
        }
        if reported.elapsed() > Duration::from_secs(2) {
            reported = Instant::now();
            session.say(&format!("  {} of {count} keys are gone", gone.len()));
        }
    }
    Ok(gone)
}
