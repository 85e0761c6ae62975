//! The world of several servers: their parts, the wire and the clients, in the order that the seed
//! chooses.

use std::rc::Rc;

use vetch_node::stepped::{self, Step};

use super::carrier;
use super::directory::{Directory, Serving};
use super::plan::{Breach, ClusterPlan, Trouble};
use super::server::{Running, Server};
use super::wire::Wire;
use crate::coverage::Rare;
use crate::env::Env;
use crate::executor::{Executor, TaskId};
use crate::part::{Did, Part, Which};
use crate::time::{MICRO, MILLI, SECOND};
use crate::trace::say;
use crate::watchdog;
use vetch_testkit::random::Rng;

/// Steps after which a run is taken to be stuck.
const MOST_STEPS: u64 = 4_000_000;

pub(super) struct World {
    pub(super) env: Rc<Env>,
    pub(super) plan: ClusterPlan,
    pub(super) wire: Wire,
    pub(super) directory: Rc<Directory>,
    pub(super) servers: Vec<Server>,
    pub(super) executor: Executor,
    pub(super) rng: Rng,
    /// Tasks that belong to servers and not to clients.
    carriers: Vec<TaskId>,
    steps: u64,
}

/// Who runs next.
enum Turn {
    Task(TaskId),
    Part(usize, Which),
}

impl World {
    pub(super) fn new(env: Rc<Env>, plan: ClusterPlan, mut rng: Rng) -> World {
        let wire = Wire::new(
            plan.servers,
            env.clock.for_node(),
            rng.fork(1),
            plan.wire.clone(),
            env.trace.clone(),
            env.coverage.clone(),
        );
        let directory = Rc::new(Directory::new(rng.fork(2)));
        let servers = (0..plan.servers).map(|at| Server::new(&env, at, &mut rng)).collect();
        let (executor, carriers) = (Executor::default(), Vec::new());
        World { env, plan, wire, directory, servers, executor, rng, carriers, steps: 0 }
    }

    /// Runs until `done` says so, or for `nanos`. True if it was done in time.
    pub(super) fn run_until(&mut self, nanos: u64, done: impl Fn(&World) -> bool) -> bool {
        let deadline = self.env.now() + nanos;
        loop {
            if done(self) {
                return true;
            }
            if self.env.now() >= deadline || !self.env.is_sound() {
                return false;
            }
            self.steps += 1;
            if self.steps > MOST_STEPS {
                self.env.violation("a run has too many steps".to_owned());
                return false;
            }
            self.step(deadline);
        }
    }

    /// Tasks of clients that have not ended.
    pub(super) fn busy(&self) -> usize {
        let carriers = self.carriers.iter().filter(|task| self.executor.is_alive(**task));
        self.executor.len() - carriers.count()
    }

    /// Runs `future` to its end, with everything else going on. None if it does not come within
    /// `nanos`.
    pub(super) fn complete<T: 'static>(
        &mut self,
        nanos: u64,
        future: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let slot = Rc::new(std::cell::RefCell::new(None));
        let result = Rc::clone(&slot);
        let task = self.executor.spawn(async move {
            let output = future.await;
            *result.borrow_mut() = Some(output);
        });
        self.run_until(nanos, |world| !world.executor.is_alive(task));
        slot.take()
    }

    /// One turn of one task or part; or time passes until there is one.
    fn step(&mut self, deadline: u64) {
        self.start_servers();
        for at in self.wire.deliver() {
            if let Some(running) = &mut self.servers[at].running {
                running.poke(Which::Journal, &mut self.rng);
            }
        }
        let now = self.env.now();
        let mut turns: Vec<Turn> = self.executor.ready().into_iter().map(Turn::Task).collect();
        let mut next = deadline.min(now + 20 * MILLI);
        for server in &self.servers {
            let Some(running) = &server.running else {
                if server.halted.is_none() {
                    next = next.min(server.starts_at);
                }
                continue;
            };
            let asleep = running.life.paused_until.get();
            for which in Which::ALL {
                match running.parts[which as usize].due().map(|due| due.max(asleep)) {
                    Some(due) if due <= now => turns.push(Turn::Part(server.at, which)),
                    Some(due) => next = next.min(due),
                    None => {}
                }
            }
        }
        if turns.is_empty() {
            let others = self.env.clock.next_deadline().into_iter().chain(self.wire.next_due());
            let until = others.fold(next, u64::min).max(now + MICRO);
            self.env.clock.advance(until - now);
            return;
        }
        let chosen = self.rng.below(turns.len());
        match turns.swap_remove(chosen) {
            Turn::Task(id) => {
                watchdog::about("a client");
                self.executor.poll(id);
                self.poke_touched();
            }
            Turn::Part(at, which) => self.run_part(at, which),
        }
        self.env.clock.advance(self.rng.below(10 * MICRO));
    }

    fn poke_touched(&mut self) {
        for running in self.servers.iter_mut().filter_map(|server| server.running.as_mut()) {
            if running.life.touched.replace(false) {
                running.poke(Which::Sequencer, &mut self.rng);
                running.poke(Which::Journal, &mut self.rng);
            }
        }
    }

    fn start_servers(&mut self) {
        let now = self.env.now();
        for server in &mut self.servers {
            let is_due = server.running.is_none() && server.halted.is_none() && server.starts_at <= now;
            if !is_due {
                continue;
            }
            watchdog::about("a start");
            server.start(&self.env, &self.plan, &self.wire, &mut self.rng);
            if server.disk.power_lost() {
                server.end(&mut self.rng, true, now + 10 * MILLI);
            }
        }
    }

    fn run_part(&mut self, at: usize, which: Which) {
        let now = self.env.now();
        watchdog::about(match which {
            Which::Sequencer => "the sequencer",
            Which::Journal => "the journal",
            Which::Housekeeping => "housekeeping",
            Which::FanOut => "fan-out",
            Which::LeaseThread => "the clock",
        });
        let Some(running) = &mut self.servers[at].running else { return };
        let look = running.looks[which as usize];
        let part = &mut running.parts[which as usize];
        part.poked = false;
        part.next_look = now + look;
        let did = part.run(now);
        // The journal's part always has worked; it is looked at when there is news.
        if did == Did::Step(Step::Worked) && which != Which::Journal {
            part.poked = true;
            say!(self.env.trace, "server {at}: {which:?} worked");
        }
        poke_others(running, which, did, &mut self.rng);
        self.look_around(at);
    }

    /// What a server has become, after one of its parts ran.
    fn look_around(&mut self, at: usize) {
        let now = self.env.now();
        let server = &mut self.servers[at];
        let Some(running) = &mut server.running else { return };
        let revision = running.node.revision();
        if revision < running.visible {
            let before = running.visible;
            self.env.violation(format!(
                "server {at}: the visible revision went back from {before} to {revision}"
            ));
        }
        running.visible = revision;
        let status = running.node.cluster().map(|cluster| cluster.borrow().clone()).unwrap_or_default();
        if status.caught_up && !running.serves {
            running.serves = true;
            let Serving { node, life } = running.serving();
            if let Some(batches) = node.read_index_batches() {
                let (env, directory) = (Rc::clone(&self.env), Rc::clone(&self.directory));
                self.carriers
                    .push(self.executor.spawn(carrier::carry(env, directory, at, node, life, batches)));
            }
            self.directory.enter(at, running.serving());
        }
        if status.is_leader && status.epoch > running.epoch {
            running.epoch = status.epoch;
            self.env.hit(Rare::Elected);
        }
        let rewound = running.node.metrics().proposals.rewound.get();
        if rewound > std::mem::replace(&mut running.rewound, rewound) {
            say!(self.env.trace, "server {at} was replaced, and took back {rewound} batches so far");
            self.env.hit(Rare::Rewound);
        }
        let ended = running.parts[Which::Journal as usize].has_ended();
        let stopped = running.stopping && running.parts.iter().take(3).all(Part::has_ended);
        if stopped {
            stepped::end(&running.node);
        }
        if server.disk.power_lost() {
            self.env.hit(Rare::ServerLostPower);
            self.end(at, true, now + 50 * MILLI);
        } else if stopped {
            self.env.hit(Rare::CleanStop);
            self.end(at, false, now + 50 * MILLI);
        } else if ended && !self.servers[at].running.as_ref().is_some_and(|running| running.stopping) {
            self.ended_by_itself(at);
        }
    }

    fn ended_by_itself(&mut self, at: usize) {
        let Some(running) = &self.servers[at].running else { return };
        let why = crate::executor::block_on(running.node.stopped());
        let why = why.err().map_or_else(|| "nothing said why".to_owned(), |cause| cause.to_string());
        say!(self.env.trace, "server {at} stopped: {why}");
        if self.plan.breach == Breach::None {
            self.env.violation(format!("server {at} stopped on an honest log: {why}"));
        }
        self.env.hit(Rare::ServerHalted);
        self.end(at, false, 0);
        self.servers[at].halted = Some(why);
    }

    pub(super) fn end(&mut self, at: usize, power: bool, starts_at: u64) {
        self.directory.leave(at);
        self.servers[at].end(&mut self.rng, power, starts_at);
    }

    pub(super) fn suffer(&mut self, trouble: &Trouble) {
        say!(self.env.trace, "nemesis {trouble:?}");
        let now = self.env.now();
        let soon = now + self.rng.skewed(MILLI, 3 * SECOND);
        match *trouble {
            Trouble::Kill(at) => {
                self.env.hit(Rare::ServerCrashed);
                self.end(at, false, soon);
            }
            Trouble::LosePower(at) => {
                self.env.hit(Rare::ServerLostPower);
                self.end(at, true, soon);
            }
            Trouble::LosePowerSoon(at, spares) => {
                use crate::disk::{Armed, Blow, Target};
                self.servers[at].disk.arm(Armed { target: Target::Any, spares, blow: Blow::PowerLoss });
            }
            Trouble::Stop(at) => self.stop(at),
            Trouble::Pause(at, nanos) => self.pause(at, nanos),
            Trouble::PauseLeader(nanos) => {
                if let Some(at) = self.leader() {
                    self.env.hit(Rare::LeaderPaused);
                    self.pause(at, nanos);
                }
            }
            Trouble::CutFromLog(at, cut, nanos) => self.wire.cut(at, cut, nanos),
            Trouble::CutFromPeer(one, other, nanos) => {
                if one != other {
                    self.env.hit(Rare::CutFromPeer);
                    self.directory.cut(one, other, now + nanos);
                }
            }
            Trouble::Reconnect(at) => self.wire.reconnect(at),
            Trouble::TransferLeadership(to, shaken) => self.transfer_leadership(to, shaken),
            Trouble::Full(more) => self.wire.fill_up(Some(more)),
            Trouble::Room => self.wire.fill_up(None),
            Trouble::Breach => match self.plan.breach {
                Breach::None => {}
                Breach::Fork => self.wire.fork(),
                Breach::TailLoss => self.wire.lose_tail(),
            },
        }
    }

    fn leader(&self) -> Option<usize> {
        (0..self.servers.len()).find(|at| self.servers[*at].is_leader())
    }

    fn transfer_leadership(&mut self, to: usize, shaken: bool) {
        let Some(to) = self.servers[to].running.as_ref().map(|running| running.author) else { return };
        let Some(at) = self.leader() else { return };
        if shaken {
            self.wire.reconnect(at);
        }
        let Some(running) = &mut self.servers[at].running else { return };
        if running.author != to && stepped::transfer_leadership(&running.node, to) {
            self.env.hit(Rare::LeadershipTransferred);
            running.poke(Which::Sequencer, &mut self.rng);
        }
    }

    fn pause(&mut self, at: usize, nanos: u64) {
        if let Some(running) = &self.servers[at].running {
            self.env.hit(Rare::ServerPaused);
            running.life.paused_until.set(self.env.now() + nanos);
        }
    }

    /// An orderly stop. A queue without room makes it a kill.
    fn stop(&mut self, at: usize) {
        let Some(running) = &mut self.servers[at].running else { return };
        running.stopping = stepped::begin_stop(&running.node);
        if !running.stopping {
            let now = self.env.now();
            self.end(at, false, now + MILLI);
        }
    }
}

/// Wakes the parts that may have work after what this part did.
fn poke_others(running: &mut Running, which: Which, did: Did, rng: &mut Rng) {
    let idle = did == Did::Step(Step::Idle);
    match which {
        Which::Sequencer if !idle => running.poke(Which::Journal, rng),
        Which::Journal => {
            running.poke(Which::Sequencer, rng);
            running.poke(Which::FanOut, rng);
            if rng.one_in(4) {
                running.poke(Which::Housekeeping, rng);
            }
        }
        Which::Housekeeping => {
            running.poke(Which::Sequencer, rng);
            running.poke(Which::Journal, rng);
        }
        Which::LeaseThread => running.poke(Which::Sequencer, rng),
        _ => {}
    }
}
