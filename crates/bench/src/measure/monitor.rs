//! A second thread that watches the server's process during a run and says every second how things
//! go.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::process::Usage;
use super::tally::Window;

const POLL_INTERVAL: Duration = Duration::from_millis(50);
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Counted by the threads that generate load, read by the monitor.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) done: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// What was seen in the measured time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// None if no process was to be watched, or it ended.
    pub(crate) server: Option<Server>,
    pub(crate) client_cpu_seconds: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_start: u64,
    pub(crate) resident_peak: u64,
    pub(crate) resident_end: u64,
}

pub(crate) struct Monitor {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Monitor {
    pub(crate) fn start(pids: Vec<u32>, window: Window, counters: Arc<Counters>, quiet: bool) -> Monitor {
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let thread = std::thread::spawn(move || watch(&pids, window, &counters, quiet, &ended));
        Monitor { over, thread }
    }

    /// What was seen until the end of the measured time, or until now if that is sooner.
    pub(crate) fn finish(self) -> Seen {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(pids: &[u32], window: Window, counters: &Counters, quiet: bool, over: &AtomicBool) -> Seen {
    let look = || Usage::of_all(pids).ok().filter(|_| !pids.is_empty());
    sleep_until(window.start, over);
    let begun = Instant::now();
    let (first, client) = (look(), Usage::of_this_process());
    let mut last = first;
    let mut peak = first.map_or(0, |usage| usage.resident_bytes);
    let (mut reported, mut done) = (Instant::now(), counters.done.load(Ordering::Relaxed));
    while Instant::now() < window.end && !over.load(Ordering::Relaxed) {
        std::thread::sleep(POLL_INTERVAL.min(window.end.saturating_duration_since(Instant::now())));
        last = look().or(last);
        peak = peak.max(last.map_or(0, |usage| usage.resident_bytes));
        if reported.elapsed() >= REPORT_INTERVAL && !quiet {
            let now = counters.done.load(Ordering::Relaxed);
            let rate = (now - done) as f64 / reported.elapsed().as_secs_f64();
            let errors = counters.errors.load(Ordering::Relaxed);
            report(begun.elapsed(), rate, errors, last.map(|usage| usage.resident_bytes));
            (reported, done) = (Instant::now(), now);
        }
    }
    let server = first.zip(last).map(|(first, last)| Server {
        cpu_seconds: last.cpu_seconds - first.cpu_seconds,
        resident_start: first.resident_bytes,
        resident_peak: peak,
        resident_end: last.resident_bytes,
    });
    Seen { server, client_cpu_seconds: Usage::of_this_process().cpu_seconds - client.cpu_seconds }
}

fn report(since: Duration, rate: f64, errors: u64, resident: Option<u64>) {
    let memory = resident.map_or(String::new(), |bytes| format!(", server {} MiB", bytes >> 20));
    let errors = if errors > 0 { format!(", {errors} errors") } else { String::new() };
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "  {:>3}s  {rate:.0}/s{errors}{memory}", since.as_secs());
}

fn sleep_until(when: Instant, over: &AtomicBool) {
    while Instant::now() < when && !over.load(Ordering::Relaxed) {
        std::thread::sleep(POLL_INTERVAL.min(when.saturating_duration_since(Instant::now())));
    }
}
