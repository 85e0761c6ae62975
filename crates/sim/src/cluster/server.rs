//! A server of several: its disk, and while it runs its node, whose parts the world steps.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use vetch_base::Epoch;
use vetch_cluster::{OrderedLog, ReplicaId};
use vetch_journal::MemDisk;
use vetch_node::Node;
use vetch_node::cluster::ClusterConfig;
use vetch_node::config::NodeConfig;
use vetch_node::stepped::{self, ReplicatedParts};
use vetch_node::types::Progress;

use super::directory::Serving;
use super::life::Life;
use super::plan::{ClusterPlan, identity};
use super::wire::Wire;
use crate::coverage::Rare;
use crate::disk::SimDisk;
use crate::env::Env;
use crate::part::{Part, Which};
use crate::time::{MILLI, SECOND};
use crate::trace::say;
use vetch_testkit::random::Rng;

pub(super) struct Server {
    pub(super) at: usize,
    pub(super) disk: SimDisk,
    pub(super) running: Option<Running>,
    /// It is started then, unless it runs.
    pub(super) starts_at: u64,
    /// It stopped for good, and said why.
    pub(super) halted: Option<String>,
    lives: u64,
}

pub(super) struct Running {
    pub(super) node: Node,
    pub(super) life: Rc<Life>,
    pub(super) parts: [Part; 5],
    pub(super) looks: [u64; 5],
    pub(super) wakeful: [u64; 5],
    pub(super) visible: i64,
    /// It has read the log to its end once, and is known to clients.
    pub(super) serves: bool,
    pub(super) stopping: bool,
    pub(super) epoch: Epoch,
    /// Batches that it took back.
    pub(super) rewound: u64,
    pub(super) author: ReplicaId,
}

impl Server {
    pub(super) fn new(env: &Env, at: usize, rng: &mut Rng) -> Server {
        let disk =
            SimDisk::new(MemDisk::new(), rng.fork(50 + at as u64), env.trace.clone(), env.coverage.clone());
        Server { at, disk, running: None, starts_at: rng.below(SECOND), halted: None, lives: 0 }
    }

    /// A new life. It serves once it has caught up.
    pub(super) fn start(&mut self, env: &Env, plan: &ClusterPlan, wire: &Wire, rng: &mut Rng) {
        self.lives += 1;
        let at = self.at;
        say!(env.trace, "server {at} starts, life {}", self.lives);
        let replica = ReplicaId { member: identity(at).member_id, incarnation: rng.draw() };
        let (time, steady) = (env.clock.for_node(), env.clock.for_node());
        let node_env = stepped::Env {
            disk: Arc::new(self.disk.clone()),
            time,
            steady,
            incarnation: replica.incarnation,
        };
        let config = NodeConfig { proposed: identity(at), ..env.plan.node.clone() };
        let cluster = ClusterConfig {
            name: format!("server-{at}"),
            client_urls: vec![format!("http://server-{at}")],
            peer_urls: Vec::new(),
        };
        let coverage = env.coverage.clone();
        let engine = Box::new(OrderedLog::new(wire.connect(at), plan.replication.clone()));
        let opened = stepped::open_replicated(node_env, config, cluster, engine, |progress| {
            if let Progress::Checkpoint { bytes_total, .. } = progress
                && bytes_total > 0
            {
                coverage.hit(Rare::RestartedFromCheckpoint);
            }
        });
        match opened {
            Ok((node, parts)) => self.running = Some(Running::new(node, parts, replica, rng)),
            // The power went while it started.
            Err(_) if self.disk.power_lost() => {}
            Err(error) => env.violation(format!("server {at} refused to start: {error}")),
        }
    }

    /// Ends this life at once. The disk is what the next one finds.
    pub(super) fn end(&mut self, rng: &mut Rng, power: bool, starts_at: u64) {
        if let Some(running) = self.running.take() {
            running.life.over.set(true);
        }
        let rng = rng.fork(4);
        self.disk = if power { self.disk.after_power_loss(rng) } else { self.disk.after_kill(rng) };
        self.starts_at = starts_at;
    }

    pub(super) fn is_leader(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| running.node.cluster().is_some_and(|cluster| cluster.borrow().is_leader))
    }
}

impl Running {
    fn new(node: Node, parts: ReplicatedParts, author: ReplicaId, rng: &mut Rng) -> Running {
        let ReplicatedParts { mut sequencer, mut journal, mut housekeeping, mut fan_out, mut lease_thread } =
            parts;
        let parts = [
            Part::on_root(move || sequencer.step()),
            Part::on_root(move || journal.step(Duration::ZERO)),
            Part::on_root(move || housekeeping.step()),
            Part::on_root(move || fan_out.step()),
            Part::on_root(move || lease_thread.step()),
        ];
        let looks = [
            50 * MILLI,
            *rng.pick(&[2 * MILLI, 10 * MILLI]),
            *rng.pick(&[20 * MILLI, 200 * MILLI]),
            200 * MILLI,
            200 * MILLI,
        ];
        let lazy = rng.percent(30);
        let wakeful = std::array::from_fn(|_| if lazy { *rng.pick(&[100, 100, 25, 5]) } else { 100 });
        let visible = node.revision();
        let life = Rc::default();
        let (serves, stopping, epoch, rewound) = (false, false, Epoch::ZERO, 0);
        Running { node, life, parts, looks, wakeful, visible, serves, stopping, epoch, rewound, author }
    }

    pub(super) fn serving(&self) -> Serving {
        Serving { node: self.node.clone(), life: Rc::clone(&self.life) }
    }

    pub(super) fn poke(&mut self, which: Which, rng: &mut Rng) {
        if rng.percent(self.wakeful[which as usize]) {
            self.parts[which as usize].poked = true;
        }
    }
}
