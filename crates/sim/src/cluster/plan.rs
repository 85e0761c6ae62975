//! The plan of a run of several servers: how many, what troubles them how much, and when peace
//! comes.

use std::path::PathBuf;
use std::time::Duration;

use vetch_checkpoint::identity::Identity;
use vetch_cluster::Config;
use vetch_node::config::NodeConfig;

use crate::plan::Plan;
use crate::time::{MILLI, SECOND};
use vetch_testkit::random::Rng;

/// How the log breaks its contract, if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breach {
    None,
    Fork,
    TailLoss,
}

/// What is wrong with the wire and the log. Chances are in percent.
#[derive(Debug, Clone)]
pub(super) struct Troubles {
    /// The log refuses what is not sent behind its last record.
    pub(super) checks_position: bool,
    pub(super) lost: u64,
    pub(super) answer_lost: u64,
    pub(super) doubled: u64,
    pub(super) late: u64,
    pub(super) lagging: u64,
    pub(super) pushed: u64,
    /// What a message takes at most that is not late.
    pub(super) slowest: u64,
}

/// How a server and the log are cut off from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Both,
    /// The log does not hear the server.
    Mute,
    /// The server does not hear the log.
    Deaf,
}

/// Something that happens to one server, or to the log.
#[derive(Debug, Clone)]
pub(super) enum Trouble {
    Kill(usize),
    LosePower(usize),
    /// The power goes in the middle of one of the next operations of the disk.
    LosePowerSoon(usize, u64),
    Stop(usize),
    Pause(usize, u64),
    /// Pauses the server that leads then.
    PauseLeader(u64),
    CutFromLog(usize, Cut, u64),
    CutFromPeer(usize, usize, u64),
    Reconnect(usize),
    /// The leader of that time transfers its leadership to this server. With `true` its connection
    /// to the log is lost just before, so that it has to begin an epoch of its own first.
    TransferLeadership(usize, bool),
    Full(usize),
    Room,
    Breach,
}

#[derive(Debug, Clone)]
pub(super) struct ClusterPlan {
    pub(super) servers: usize,
    pub(super) replication: Config,
    pub(super) wire: Troubles,
    pub(super) breach: Breach,
    /// In order of time.
    pub(super) troubles: Vec<(u64, Trouble)>,
    pub(super) load_nanos: u64,
}

impl ClusterPlan {
    pub(super) fn draw(rng: &mut Rng) -> ClusterPlan {
        let often = |rng: &mut Rng, chance: u64, low: u64, high: u64| match rng.percent(chance) {
            true => rng.between(low, high),
            false => 0,
        };
        let servers = *rng.pick(&[1, 2, 3, 3, 3, 5]);
        let wire = Troubles {
            checks_position: rng.percent(70),
            lost: often(rng, 50, 1, 20),
            answer_lost: often(rng, 50, 1, 20),
            doubled: often(rng, 50, 1, 25),
            late: often(rng, 40, 1, 15),
            lagging: often(rng, 40, 1, 50),
            pushed: *rng.pick(&[0, 50, 95, 100]),
            slowest: *rng.pick(&[MILLI, 8 * MILLI, 40 * MILLI]),
        };
        let none = Breach::None;
        let breach = *rng.pick(&[none, none, none, none, none, none, Breach::Fork, Breach::TailLoss]);
        let load_nanos = rng.between(3 * SECOND, 12 * SECOND);
        let mut troubles = Vec::new();
        for _ in 0..rng.below(9) {
            troubles.extend(episode(rng, servers, load_nanos));
        }
        if breach != Breach::None {
            for _ in 0..rng.between(1, 3) {
                troubles.push((rng.between(load_nanos / 4, load_nanos), Trouble::Breach));
            }
        }
        troubles.sort_by_key(|(at, _)| *at);
        let mut replication = Config { max_in_flight: *rng.pick(&[1, 2, 4, 8]), ..Config::default() };
        if rng.percent(30) {
            replication.lease_duration = Duration::ZERO;
        }
        ClusterPlan { servers, replication, wire, breach, troubles, load_nanos }
    }
}

fn episode(rng: &mut Rng, servers: usize, nanos: u64) -> Vec<(u64, Trouble)> {
    let (at, server) = (rng.below(nanos), rng.below(servers));
    let long = rng.skewed(10 * MILLI, 5 * SECOND);
    let one = |trouble| vec![(at, trouble)];
    match rng.below(18) {
        0..=2 => one(Trouble::Kill(server)),
        3 => one(Trouble::LosePower(server)),
        4 => one(Trouble::LosePowerSoon(server, rng.skewed(0, 60))),
        5 => one(Trouble::Stop(server)),
        6 | 7 => one(Trouble::Pause(server, long)),
        8 | 9 => one(Trouble::PauseLeader(rng.between(SECOND, 5 * SECOND))),
        10..=12 => {
            let cut = *rng.pick(&[Cut::Both, Cut::Both, Cut::Mute, Cut::Deaf]);
            one(Trouble::CutFromLog(server, cut, long))
        }
        13 => one(Trouble::CutFromPeer(server, rng.below(servers), long)),
        14 => one(Trouble::Reconnect(server)),
        15 | 16 => one(Trouble::TransferLeadership(server, rng.percent(60))),
        _ => {
            let until = at + rng.below(4 * SECOND);
            vec![(at, Trouble::Full(rng.below(20) as usize)), (until, Trouble::Room)]
        }
    }
}

/// What clients ask, and how servers are built: as for one server, but for what a shared journal
/// does not have.
pub(super) fn workload(rng: &mut Rng) -> Plan {
    let mut plan = Plan::draw(rng);
    plan.in_cluster = true;
    plan.encrypted = false;
    plan.node.keys = NodeConfig::new(PathBuf::from("/data"), identity(0)).keys;
    plan.node.quota_bytes = 0;
    plan.node.request_timeout = Duration::from_millis(*rng.pick(&[1000, 3000, 7000]));
    plan.requests = rng.between(150, 900);
    plan.think_nanos = *rng.pick(&[10 * MILLI, 60 * MILLI, 200 * MILLI]);
    plan
}

/// A server's, by its place.
pub(super) fn identity(at: usize) -> Identity {
    Identity { cluster_id: 7, member_id: 1 + at as u64 }
}
