//! Plan: which faults a seed has. Drawn once, so that most seeds have many of some kinds and none
//! of others.

use std::time::Duration;

use vetch_raft::Config;
use vetch_testkit::random::Rng;

/// What happens to messages, in percent.
#[derive(Clone, Debug)]
pub struct Network {
    pub lost: u64,
    /// They arrive twice.
    pub doubled: u64,
    /// They are very late.
    pub late: u64,
    /// Orders to campaign that come again, much later.
    pub orders: u64,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub voters: u64,
    pub config: Config,
    /// How fast the members' clocks run, in percent.
    pub paces: Vec<u32>,
    pub network: Network,
    /// Percent of writes to a disk that take very long.
    pub slow: u64,
    /// Mean time between faults, in milliseconds; zero for none.
    pub crashes: u64,
    pub blackouts: u64,
    pub pauses: u64,
    pub cuts: u64,
    /// The same for a member that is killed and comes back at once, several times.
    pub flaps: u64,
    /// Percent of writes of votes, and of entries that replace others, at which the power goes.
    pub strikes: u64,
    /// The same for what operators and members themselves do.
    pub changes: u64,
    pub transfers: u64,
    pub checkpoints: u64,
    /// Time between requests of clients, in milliseconds.
    pub writes: u64,
    pub reads: u64,
    /// Bytes of a value at most.
    pub value: u64,
    /// When the faults end, and how long the members may then take to recover.
    pub trouble: Duration,
    pub grace: Duration,
}

impl Plan {
    pub fn draw(rng: &mut Rng) -> Plan {
        let often = |rng: &mut Rng, chance: u64, low: u64, high: u64| {
            if rng.percent(chance) { rng.between(low, high) } else { 0 }
        };
        let lease = if rng.percent(70) { 333 } else { 0 };
        let config = Config {
            lease_duration: Duration::from_millis(lease),
            max_message: *rng.pick(&[64, 400, 4096, 4 << 20]),
            max_messages: *rng.pick(&[1, 2, 8]),
            max_uncommitted: *rng.pick(&[600, 64 << 20, 64 << 20]),
            recent_bytes: *rng.pick(&[0, 500, 16 << 20]),
            checkpoint_retry: Duration::from_millis(rng.between(200, 2000)),
            ..Config::default()
        };
        let paces = if rng.percent(50) { vec![100] } else { vec![65, 155, 100] };
        Plan {
            voters: rng.between(1, 5),
            paces,
            network: Network {
                lost: often(rng, 60, 1, 20),
                doubled: often(rng, 50, 1, 30),
                late: often(rng, 60, 1, 25),
                orders: often(rng, 50, 30, 90),
            },
            slow: often(rng, 50, 1, 20),
            crashes: often(rng, 60, 300, 4000),
            blackouts: often(rng, 25, 1500, 6000),
            pauses: often(rng, 50, 400, 4000),
            cuts: often(rng, 60, 400, 4000),
            flaps: often(rng, 30, 1000, 4000),
            strikes: often(rng, 40, 5, 40),
            changes: often(rng, 60, 200, 3000),
            transfers: often(rng, 40, 200, 3000),
            checkpoints: often(rng, 70, 200, 3000),
            // So that followers which get one entry a message can catch up in peace.
            writes: if config.max_message < 1000 { rng.between(30, 120) } else { rng.between(4, 120) },
            reads: rng.between(10, 200),
            value: *rng.pick(&[8, 8, 200]),
            trouble: Duration::from_millis(rng.between(3000, 15_000)),
            grace: Duration::from_secs(30),
            config,
        }
    }
}
