//! The watchdog: ends a process whose simulation has stopped moving in real time.
//!
//! That happens when a part gives control back while it holds a lock, which shipped code promises
//! never to do across a disk operation, or when it loops for ever. Either is a finding.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static MOVES: AtomicU64 = AtomicU64::new(0);
static ABOUT: Mutex<(&str, u64)> = Mutex::new(("nothing", 0));

const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Checks without progress after which the run is given up.
const IDLE_CHECKS_MAX: u32 = 30;

/// Notes which part is about to run.
pub(crate) fn about(whom: &'static str) {
    MOVES.fetch_add(1, Ordering::Relaxed);
    ABOUT.lock().expect("nothing panics under this lock").0 = whom;
}

pub(crate) fn seed(seed: u64) {
    MOVES.fetch_add(1, Ordering::Relaxed);
    *ABOUT.lock().expect("nothing panics under this lock") = ("a new run", seed);
}

/// Starts watching this process. `hung` gets the part that runs and its seed, and should end the
/// process.
pub fn start(hung: impl Fn(&str, u64) + Send + 'static) {
    let watch = move || {
        let (mut last, mut still) = (u64::MAX, 0);
        loop {
            std::thread::sleep(CHECK_INTERVAL);
            let moves = MOVES.load(Ordering::Relaxed);
            still = if moves == last { still + 1 } else { 0 };
            last = moves;
            if still == IDLE_CHECKS_MAX {
                let (whom, seed) = *ABOUT.lock().expect("nothing panics under this lock");
                if seed != 0 {
                    hung(whom, seed);
                }
            }
        }
    };
    std::thread::Builder::new()
        .name("sim-watchdog".to_owned())
        .spawn(watch)
        .expect("the operating system gives a process its threads");
}
