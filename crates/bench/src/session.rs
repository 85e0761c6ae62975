//! One server and everything a workload needs to measure it: wires, time, a monitor, and the way
//! from tallies to points.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::args::{Client, Common, Load};
use crate::drive::{Pace, Plan, Work, drive};
use crate::measure::monitor::{Counters, Monitor};
use crate::measure::tally::{Tally, Window};
use crate::measure::{Stop, pin};
use crate::report::{Point, Report};
use crate::target::Target;
use crate::wire::lean::Lean;
use crate::wire::ordinary::Ordinary;
use crate::wire::{Wire, blocking};

pub(crate) struct Session<'a> {
    pub(crate) common: &'a Common,
    pub(crate) target: &'a mut Target,
    pub(crate) stop: Stop,
}

/// Makes the work of one thread: which of how many it is, and how many slots it has.
pub(crate) type Make<'a> = dyn Fn(usize, usize, usize) -> Box<dyn Work> + 'a;

impl Session<'_> {
    pub(crate) fn wire(&self, connections: usize) -> Result<Box<dyn Wire>> {
        Ok(match self.common.client {
            Client::Lean => Box::new(Lean::connect(&self.addresses()?, connections)?),
            Client::Tonic => {
                Box::new(Ordinary::connect(&self.target.endpoints, connections, &self.common.access)?)
            }
        })
    }

    fn addresses(&self) -> Result<Vec<String>> {
        let plain = |endpoint: &String| {
            let address =
                endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/').to_owned();
            ensure!(!address.contains("://"), "{endpoint}: the lean client speaks plain http:// only");
            Ok(if address.contains(':') { address } else { format!("{address}:2379") })
        };
        self.target.endpoints.iter().map(plain).collect()
    }

    pub(crate) fn say(&self, text: &str) {
        if !self.common.quiet {
            crate::say(text);
        }
    }

    /// Pins the calling thread and those it starts, if that was asked for.
    pub(crate) fn pin_client(&self) -> Result<()> {
        self.common.pin.map_or(Ok(()), |pin| pin::this_thread(pin.client))
    }

    /// The measured time, beginning after the warm-up.
    pub(crate) fn window(&self) -> Window {
        self.window_of(self.common.warmup, self.common.duration)
    }

    pub(crate) fn window_of(&self, warmup: Duration, duration: Duration) -> Window {
        let start = Instant::now() + warmup;
        Window { start, end: start + duration }
    }

    pub(crate) fn monitor(&self, window: Window, counters: &Arc<Counters>) -> Monitor {
        Monitor::start(self.target.pids.clone(), window, counters.clone(), self.common.quiet)
    }

    /// A report with nothing in it yet.
    pub(crate) fn report(&self, workload: &str) -> Result<Report> {
        let mut wire = self.wire(1)?;
        let server_version =
            blocking::status(wire.as_mut()).map_or_else(|_| "unknown".to_owned(), |status| status.version);
        Ok(Report {
            workload: workload.to_owned(),
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            endpoints: self.target.endpoints.clone(),
            server_version,
            client: self.common.client.describe().to_owned(),
            pinned: self
                .common
                .pin
                .map_or_else(|| "nothing pinned".to_owned(), |pin| format!("pinned: {pin}")),
            processors: crate::measure::processors(),
            points: Vec::new(),
            interrupted: false,
        })
    }

    /// One point for each number of clients or each rate.
    pub(crate) fn sweep(&self, report: &mut Report, load: &Load, label: &str, make: &Make<'_>) -> Result<()> {
        let closed = load.clients.iter().map(|clients| (Pace::Closed, *clients));
        let open = load.rate.iter().map(|rate| (Pace::Open(*rate), load.in_flight));
        let steps: Vec<(Pace, usize)> = if load.rate.is_empty() { closed.collect() } else { open.collect() };
        for (pace, slots) in steps {
            let (kind, clients, rate) = match pace {
                Pace::Closed => (format!("{slots} clients"), Some(slots), None),
                Pace::Open(rate) => {
                    ensure!(rate > 0.0 && rate < 1e8, "a rate of {rate} is not possible");
                    (format!("{rate}/s offered"), None, Some(rate))
                }
            };
            let label = if label.is_empty() { kind } else { format!("{label}, {kind}") };
            self.say(&format!("{}: {label}", report.workload));
            let (tally, seen) = self.measure(pace, slots, load.requests, make)?;
            let mut point = Point::new(label, &tally, seen);
            point.clients = clients;
            point.offered_per_second = rate;
            report.points.push(point);
            if self.stop.is_raised() {
                report.interrupted = true;
                break;
            }
        }
        Ok(())
    }

    /// Drives the work with as many threads as were asked for.
    pub(crate) fn measure(
        &self,
        pace: Pace,
        slots: usize,
        requests: Option<u64>,
        make: &Make<'_>,
    ) -> Result<(Tally, crate::measure::monitor::Seen)> {
        ensure!(slots > 0, "at least one client is needed");
        self.pin_client()?;
        let threads = self.common.threads.min(slots);
        let each = slots.div_ceil(threads);
        let connections = self.common.connections.min(slots).div_ceil(threads);
        let mut parts = Vec::new();
        for thread in 0..threads {
            parts.push((self.wire(connections)?, make(thread, threads, each)));
        }
        let counters = Arc::new(Counters::default());
        let window = self.window();
        let plan = Plan {
            pace: match pace {
                Pace::Open(rate) => Pace::Open(rate / threads as f64),
                Pace::Closed => Pace::Closed,
            },
            slots: each,
            window,
            requests: requests.map(|requests| requests.div_ceil(threads as u64)),
            stop: self.stop.clone(),
            counters: counters.clone(),
        };
        let monitor = self.monitor(window, &counters);
        let tallies = std::thread::scope(|scope| {
            let start = |(mut wire, mut work): (Box<dyn Wire>, Box<dyn Work>)| {
                let plan = &plan;
                scope.spawn(move || drive(plan, wire.as_mut(), work.as_mut()))
            };
            let running: Vec<_> = parts.into_iter().map(start).collect();
            running.into_iter().map(|thread| thread.join()).collect::<Result<Vec<Tally>, _>>()
        });
        let tallies = tallies.map_err(|_| anyhow::anyhow!("a thread that generates load panicked"))?;
        let mut tallies = tallies.into_iter();
        let mut sum = tallies.next().context("no thread ran")?;
        tallies.for_each(|tally| sum.merge(&tally));
        Ok((sum, monitor.finish()))
    }
}
