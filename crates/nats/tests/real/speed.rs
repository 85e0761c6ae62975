//! How long appends take, and how many there are in a second. Measures, judges nothing.
//!
//! `VETCH_NATS=$(scripts/nats.sh) cargo test -p vetch-nats --profile fast --test real -- --ignored
//! --nocapture speed`

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use vetch_cluster::{Config, Driver, ReplicaEvent, ReplicaId, ReplicatedLog};

use crate::cluster::{Cluster, Setup};
use crate::replica_threads::{entry, start};

const RUN: Duration = Duration::from_secs(4);

#[test]
#[ignore = "measures: see the head of this file"]
fn speed_of_appends() {
    let cluster = Cluster::start(Setup { sync_always: true });
    for (in_flight, size) in [(1, 1 << 10), (8, 1 << 10), (1, 256 << 10), (8, 256 << 10)] {
        let stream = cluster.new_stream();
        let config = Config { max_in_flight: in_flight, ..Config::default() };
        let mut driver =
            Driver::new(cluster.open(&stream), config, ReplicaId { member: 1, incarnation: 1 }, start());
        let now = driver.now();
        driver.replica_mut().campaign(now);
        while !driver.replica().is_leader() {
            driver.step_replica(Duration::from_millis(10));
        }
        let mut times = measure(&mut driver, &vec![7; size]);
        times.sort_unstable();
        let count = times.len();
        let rate = count as f64 / RUN.as_secs_f64();
        eprintln!(
            "{in_flight} in flight, {size} bytes: {rate:.0}/s, {:.1} MB/s, p50 {:.2?}, p99 {:.2?}",
            rate * size as f64 / 1e6,
            times[count / 2],
            times[count * 99 / 100],
        );
    }
}

fn measure(driver: &mut Driver<vetch_nats::NatsLog>, payload: &[u8]) -> Vec<Duration> {
    let begun = Instant::now();
    let (mut pending, mut times) = (BTreeMap::new(), Vec::new());
    while begun.elapsed() < RUN {
        let mut tip = driver.replica().head();
        let entry = entry(&mut tip, payload);
        let now = driver.now();
        if let Ok(ticket) = driver.replica_mut().propose(now, &[entry]) {
            pending.insert(ticket, Instant::now());
            // Sends at once.
            take(driver.step_replica(Duration::ZERO), &mut pending, &mut times);
            continue;
        }
        take(driver.step_replica(Duration::from_millis(10)), &mut pending, &mut times);
    }
    times
}

fn take(
    events: Vec<ReplicaEvent>,
    pending: &mut BTreeMap<vetch_cluster::Ticket, Instant>,
    times: &mut Vec<Duration>,
) {
    for event in events {
        if let ReplicaEvent::Committed { ticket, .. } = event
            && let Some(since) = pending.remove(&ticket)
        {
            times.push(since.elapsed());
        }
    }
}
