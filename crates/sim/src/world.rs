//! The world: one life of the server, its parts, its disk and its clients, in the order that the
//! seed chooses.

use std::rc::Rc;

use vetch_node::Node;
use vetch_node::stepped::{self, Parts, Step};

use crate::client;
use crate::coverage::Rare;
use crate::disk::SimDisk;
use crate::env::Env;
use crate::executor::{Executor, TaskId};
use crate::part::{Did, Part, Which};
use crate::time::{MICRO, MILLI, SECOND};
use crate::trace::say;
use crate::users;
use crate::watchdog;
use crate::watcher;
use crate::workload;
use vetch_testkit::random::Rng;

/// The numbers of clients that act as users, from here on.
const USERS: u32 = 80;

/// Steps after which a life is taken to be stuck.
const MOST_STEPS: u64 = 2_000_000;

pub(crate) struct World {
    pub(crate) env: Rc<Env>,
    pub(crate) node: Node,
    pub(crate) disk: SimDisk,
    pub(crate) rng: Rng,
    pub(crate) executor: Executor,
    parts: [Part; 5],
    /// How long a part that was not poked is left alone.
    looks: [u64; 5],
    /// The chance, in percent, that a part notices a poke.
    wakeful: [u64; 5],
    /// The highest revision that could be read so far.
    visible: i64,
    steps: u64,
    /// An orderly stop has begun, so a part that ends is no surprise.
    pub(crate) stopping: bool,
}

/// Why `run_until` came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// What was waited for has happened.
    Done,
    /// The time is over.
    Time,
    PowerLost,
    /// The journal gave up.
    Failed,
    /// A violation was found, or nothing moves any more.
    Broken,
}

/// Who runs next.
enum Turn {
    Task(TaskId),
    Part(Which),
}

impl World {
    pub(crate) fn new(env: Rc<Env>, node: Node, parts: Parts, disk: SimDisk, mut rng: Rng) -> World {
        let Parts { mut sequencer, journal, mut housekeeping, mut fan_out, mut lease_thread } = parts;
        let parts = [
            Part::on_fiber("sequencer", move || sequencer.step()),
            Part::on_fiber("journal", move || journal.step()),
            Part::on_fiber("housekeeping", move || housekeeping.step()),
            Part::on_root(move || fan_out.step()),
            Part::on_root(move || lease_thread.step()),
        ];
        let looks = [
            50 * MILLI,
            *rng.pick(&[20 * MILLI, 100 * MILLI]),
            *rng.pick(&[5 * MILLI, 50 * MILLI, 500 * MILLI]),
            500 * MILLI,
            200 * MILLI,
        ];
        // In half of all lives some parts are lazy, and what waits for them piles up.
        let lazy = rng.percent(50);
        let wakeful = std::array::from_fn(|_| if lazy { *rng.pick(&[100, 100, 25, 3]) } else { 100 });
        let visible = node.revision();
        let executor = Executor::default();
        World { env, node, disk, rng, executor, parts, looks, wakeful, visible, steps: 0, stopping: false }
    }

    pub(crate) fn spawn_client(&mut self, client: u32, memory: &workload::Memory) {
        self.executor.spawn(client::run(Rc::clone(&self.env), self.node.clone(), client, Rc::clone(memory)));
    }

    /// One who decides what users may do, and two who act as users.
    pub(crate) fn spawn_users(&mut self, office: &users::Memory) {
        let parts = || (Rc::clone(&self.env), self.node.clone());
        let ((env, node), (also_env, also_node), (third_env, third_node)) = (parts(), parts(), parts());
        self.executor.spawn(users::decide(env, node, Rc::clone(office)));
        self.executor.spawn(users::act(also_env, also_node, USERS, Rc::clone(office)));
        self.executor.spawn(users::act(third_env, third_node, USERS + 1, Rc::clone(office)));
    }

    pub(crate) fn spawn_watcher(&mut self, memory: &watcher::Memory) {
        self.executor.spawn(watcher::run(Rc::clone(&self.env), self.node.clone(), Rc::clone(memory)));
    }

    pub(crate) fn pause(&mut self, which: Which, nanos: u64) {
        say!(self.env.trace, "{which:?} gets no time for {} ms", nanos / MILLI);
        self.env.hit(Rare::PartPaused);
        self.parts[which as usize].paused_until = self.env.now() + nanos;
    }

    pub(crate) fn unpause(&mut self) {
        self.wakeful = [100; 5];
        self.parts.iter_mut().for_each(|part| part.paused_until = 0);
    }

    /// Runs until `done` says so, or for `nanos`.
    pub(crate) fn run_until(&mut self, nanos: u64, done: impl Fn(&World) -> bool) -> Halt {
        let deadline = self.env.now() + nanos;
        loop {
            if done(self) {
                return Halt::Done;
            }
            if self.disk.power_lost() {
                return Halt::PowerLost;
            }
            if self.parts[Which::Journal as usize].has_ended() && !self.stopping {
                return Halt::Failed;
            }
            if !self.env.is_sound() {
                return Halt::Broken;
            }
            if self.env.now() >= deadline {
                return Halt::Time;
            }
            self.steps += 1;
            if self.steps > MOST_STEPS {
                self.env.violation("a life has too many steps".to_owned());
                return Halt::Broken;
            }
            self.step(deadline);
        }
    }

    /// One turn of one task or part; or time passes until there is one.
    fn step(&mut self, deadline: u64) {
        let now = self.env.now();
        let mut turns: Vec<Turn> = self.executor.ready().into_iter().map(Turn::Task).collect();
        let due = |which: &Which| self.parts[*which as usize].due().is_some_and(|due| due <= now);
        turns.extend(Which::ALL.into_iter().filter(due).map(Turn::Part));
        if turns.is_empty() {
            let parts = self.parts.iter().filter_map(Part::due);
            let next = parts.chain(self.env.clock.next_deadline()).min().unwrap_or(now + SECOND);
            // Timers of the node itself are not known here; they are met to within this much.
            let until = next.min(now + 20 * MILLI).min(deadline).max(now + MICRO);
            self.env.clock.advance(until - now);
            return;
        }
        let chosen = self.rng.below(turns.len());
        match turns.swap_remove(chosen) {
            Turn::Task(id) => {
                watchdog::about("a client");
                self.executor.poll(id);
                self.poke(Which::Sequencer);
            }
            Turn::Part(which) => self.run_part(which),
        }
        self.look_around();
        self.env.clock.advance(self.rng.below(10 * MICRO));
    }

    fn poke(&mut self, which: Which) {
        if self.rng.percent(self.wakeful[which as usize]) {
            self.parts[which as usize].poked = true;
        }
    }

    fn run_part(&mut self, which: Which) {
        let now = self.env.now();
        watchdog::about(match which {
            Which::Sequencer => "the sequencer",
            Which::Journal => "the journal",
            Which::Housekeeping => "housekeeping",
            Which::FanOut => "fan-out",
            Which::LeaseThread => "the lease thread",
        });
        let look = self.looks[which as usize];
        let part = &mut self.parts[which as usize];
        let begins = part.waits_until.is_none();
        part.poked = false;
        part.next_look = now + look;
        let did = part.run(now);
        if self.env.trace.is_on() && !(begins && did == Did::Step(Step::Idle)) {
            say!(self.env.trace, "{which:?} {did:?}");
        }
        match did {
            Did::Lost => self.env.violation(format!("{which:?} panicked")),
            Did::Step(Step::Worked) => part.poked = true,
            _ => {}
        }
        self.poke_others(which, did);
    }

    /// Wakes the parts that may have work after what this part did.
    fn poke_others(&mut self, which: Which, did: Did) {
        let idle = did == Did::Step(Step::Idle);
        match which {
            Which::Sequencer if !idle => self.poke(Which::Journal),
            Which::Journal if !idle => {
                self.poke(Which::Sequencer);
                self.poke(Which::FanOut);
                if self.rng.one_in(4) {
                    self.poke(Which::Housekeeping);
                }
            }
            Which::Housekeeping => {
                self.poke(Which::Sequencer);
                self.poke(Which::Journal);
            }
            Which::LeaseThread => self.poke(Which::Sequencer),
            _ => {}
        }
    }

    /// Cheap invariants, after every turn.
    fn look_around(&mut self) {
        let revision = self.node.revision();
        if revision < self.visible {
            let before = self.visible;
            self.env.violation(format!("the visible revision went back from {before} to {revision}"));
        }
        self.visible = revision;
        let doing = self.disk.doing();
        self.env
            .in_checkpoint
            .set(doing.iter().any(|(_, _, path)| path.starts_with("/data/member/checkpoint")));
    }

    pub(crate) fn visible(&self) -> i64 {
        self.visible
    }

    /// Ends this life at once: whatever is half done stays so. The node's parts see a disk that is
    /// gone.
    pub(crate) fn kill(mut self) -> SimDisk {
        self.note_crash();
        // No request in flight is answered any more.
        self.executor = Executor::default();
        self.disk.take_away();
        for (which, part) in Which::ALL.into_iter().zip(&mut self.parts) {
            watchdog::about("the end of a part");
            if !part.finish() {
                self.env.violation(format!("{which:?} panicked, or did not end on a disk that is gone"));
            }
        }
        self.disk.clone()
    }

    fn note_crash(&self) {
        for (who, op, path) in self.disk.doing() {
            say!(self.env.trace, "crash in {who} during {op:?} of {}", path.display());
            self.env.hit(if path.starts_with("/data/member/checkpoint") {
                Rare::CrashInCheckpoint
            } else if who == "sim-journal" {
                Rare::CrashInAppend
            } else if who == "sim-sequencer" {
                Rare::CrashInShortAppend
            } else {
                Rare::CrashInMaintenance
            });
        }
    }

    /// An orderly stop, to its end.
    pub(crate) fn stop(&mut self) -> Halt {
        say!(self.env.trace, "stops in order");
        self.stopping = true;
        let deadline = self.env.now() + 120 * SECOND;
        while !stepped::begin_stop(&self.node) {
            let halt = self.run_until(5 * MILLI, World::writers_ended);
            if halt != Halt::Time || self.env.now() > deadline {
                return halt;
            }
        }
        let halt = self.run_until(120 * SECOND, World::writers_ended);
        if halt == Halt::Done {
            stepped::end(&self.node);
        }
        halt
    }

    /// Whether every part that may still write has ended.
    fn writers_ended(&self) -> bool {
        let writers = [Which::Sequencer, Which::Journal, Which::Housekeeping, Which::LeaseThread];
        writers.iter().all(|which| self.parts[*which as usize].has_ended())
    }

    /// Runs `future` to its end, with everything else going on. None if it does not come within
    /// `nanos`.
    pub(crate) fn complete<T: 'static>(
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
}
