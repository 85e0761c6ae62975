//! Plan: which faults a seed has. Drawn once, so that most seeds have many of some kinds and none
//! of others.

use std::time::Duration;

use vetch_cluster::Config;

use vetch_testkit::random::Rng;

/// How the log breaks its contract, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    None,
    /// Two histories, each with some of the servers, which change sides.
    Fork,
    /// Acknowledged records at the end are gone.
    TailLoss,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub servers: usize,
    pub config: Config,
    pub checks_position: bool,
    pub breach: Breach,
    /// Percent of appends that never arrive, whose answer is lost, that arrive twice.
    pub lost: u64,
    pub answer_lost: u64,
    pub doubled: u64,
    /// Percent of messages that are very late.
    pub late: u64,
    /// Percent of reads that see an old end.
    pub lagging: u64,
    /// Percent of new records that are pushed to a server.
    pub pushed: u64,
    /// Mean time between faults, in milliseconds; zero for none.
    pub crashes: u64,
    pub pauses: u64,
    pub trims: u64,
    pub full: u64,
    /// Mean time between leadership transfers, in milliseconds; zero for none.
    pub transfers: u64,
    /// Time between requests of clients, in milliseconds.
    pub writes: u64,
    pub reads: u64,
    /// When the faults end, and how long the servers may then take to recover.
    pub trouble: Duration,
    pub grace: Duration,
}

impl Plan {
    pub fn draw(rng: &mut Rng) -> Plan {
        let often = |rng: &mut Rng, chance: u64, low: u64, high: u64| {
            if rng.percent(chance) { rng.between(low, high) } else { 0 }
        };
        Plan {
            servers: rng.between(1, 5) as usize,
            config: Config {
                max_in_flight: *rng.pick(&[1, 2, 4, 8]),
                max_record: 1 << 16,
                ..Config::default()
            },
            checks_position: rng.percent(60),
            breach: *rng.pick(&[
                Breach::None,
                Breach::None,
                Breach::None,
                Breach::None,
                Breach::Fork,
                Breach::TailLoss,
            ]),
            lost: often(rng, 60, 1, 30),
            answer_lost: often(rng, 60, 1, 30),
            doubled: often(rng, 50, 1, 30),
            late: often(rng, 60, 1, 25),
            lagging: often(rng, 50, 1, 60),
            pushed: *rng.pick(&[0, 50, 95, 100]),
            crashes: often(rng, 50, 500, 4000),
            pauses: often(rng, 50, 500, 4000),
            trims: often(rng, 50, 300, 2000),
            full: often(rng, 20, 1000, 4000),
            transfers: 0,
            writes: rng.between(4, 120),
            reads: rng.between(10, 200),
            trouble: Duration::from_millis(rng.between(3000, 15_000)),
            grace: Duration::from_secs(30),
        }
    }
}
