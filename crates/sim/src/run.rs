//! One run: several lives of the server with faults in them and between them, then peace, then
//! judgement.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use vetch_check::History;
use vetch_journal::MemDisk;
use vetch_node::stepped;
use vetch_node::types::Progress;

use crate::coverage::{Coverage, Rare};
use crate::disk::{Behaviour, SimDisk};
use crate::env::Env;
use crate::keys;
use crate::nemesis::{self, Action, End, Fate};
use crate::plan::Plan;
use crate::time::{Clock, MILLI, SECOND};
use crate::trace::{Trace, say};
use crate::users;
use crate::watchdog;
use crate::watcher::{self, Stream};
use crate::workload::{Generator, Memory};
use crate::world::{Halt, World};
use vetch_testkit::random::Rng;

mod peace;
mod rot;

/// What one seed came to.
pub struct Report {
    pub seed: u64,
    pub violations: Vec<String>,
    pub coverage: Vec<u64>,
    /// How often other things happened that are worth a line.
    pub counts: BTreeMap<String, u64>,
    pub history: History,
    pub virtual_nanos: u64,
}

/// Where the verbose trace goes.
pub type Out = Arc<std::sync::Mutex<dyn std::io::Write + Send>>;

/// Runs one seed from beginning to end.
pub fn run(seed: u64, out: Option<Out>) -> Report {
    watchdog::seed(seed);
    let clock = Clock::new();
    let trace = match out {
        Some(out) => Trace::to(clock.for_node(), out),
        None => Trace::off(clock.for_node()),
    };
    let report = {
        let _tokio = clock.enter();
        let mut run = Run::new(seed, clock.clone(), trace);
        run.safety();
        run.liveness();
        run.judge(seed)
    };
    watchdog::seed(0);
    report
}

struct Run {
    env: Rc<Env>,
    rng: Rng,
    disk: SimDisk,
    clients: Vec<Memory>,
    streams: Vec<watcher::Memory>,
    /// Where it is decided what users may do, if there are any.
    office: Option<users::Memory>,
    /// The highest revision that could be read in any life, and the term of the last one.
    visible: i64,
    term: u64,
    /// The last process was killed and left things unsynced.
    left_unsynced: bool,
    /// Bits that were flipped on the running server's disk.
    rotten: Vec<rot::Bit>,
}

impl Run {
    fn new(seed: u64, clock: Clock, trace: Trace) -> Run {
        let mut rng = Rng::new(seed);
        let plan = Plan::draw(&mut rng.fork(1));
        say!(trace, "seed {seed}: {plan:#?}");
        let coverage = Coverage::default();
        let disk = SimDisk::new(MemDisk::new(), rng.fork(2), trace.clone(), coverage.clone());
        let memory = |rng: &mut Rng, client: u32| Generator::new(rng.fork(100 + u64::from(client)), client);
        let clients = (0..plan.clients).map(|n| Rc::new(RefCell::new(memory(&mut rng, n + 1)))).collect();
        let streams = (0..plan.streams)
            .map(|n| {
                let client = 100 + n;
                Rc::new(RefCell::new(Stream::new(client, memory(&mut rng, client), n == 0)))
            })
            .collect();
        let mut office = rng.fork(200);
        let office = office.percent(50).then(|| users::office(office));
        let env = Rc::new(Env::new(plan, clock, trace, coverage));
        Run {
            env,
            office,
            rng,
            disk,
            clients,
            streams,
            visible: 1,
            term: 0,
            left_unsynced: false,
            rotten: Vec::new(),
        }
    }

    /// Lives with faults in them.
    fn safety(&mut self) {
        for life in 0..self.env.plan.lives {
            if !self.env.is_sound() {
                return;
            }
            say!(self.env.trace, "life {life}");
            self.trials();
            if self.rng.one_in(4) {
                self.env.clock.advance(self.rng.skewed(MILLI, 20 * SECOND));
            }
            let Some(world) = self.recover(true) else { return };
            self.live(world);
        }
    }

    /// Opens the node, through as many failures as the seed wants. None after a violation.
    fn recover(&mut self, faults: bool) -> Option<World> {
        for attempt in 0.. {
            let blow = if faults && attempt < 6 { nemesis::blow_in_recovery(&mut self.rng) } else { None };
            let armed = blow.is_some();
            self.disk.set_mood(Behaviour::default());
            blow.into_iter().for_each(|blow| self.disk.arm(blow));
            let opened = self.open(&self.disk);
            let fell = armed && self.disk.is_disarmed();
            self.disk.disarm();
            match opened {
                Ok((node, parts)) if !self.disk.is_gone() => {
                    if self.env.disk_full.get() {
                        self.env.hit(Rare::StartedFull);
                    }
                    self.check_recovered(&node);
                    let rng = self.rng.fork(3);
                    return Some(World::new(Rc::clone(&self.env), node, parts, self.disk.clone(), rng));
                }
                // The node got through before it could notice.
                Ok(_) => {}
                Err(error) if !fell => {
                    // The claim of a start needs room as well. When the last prepared segment is
                    // used up there is none.
                    let full =
                        self.env.disk_full.replace(false) && error.to_string().contains("no space left");
                    if !full {
                        self.env.violation(format!("the server refused to start: {error}"));
                        return None;
                    }
                    say!(self.env.trace, "no start on a full disk: {error}");
                    self.disk.give_space();
                }
                Err(error) => say!(self.env.trace, "start failed: {error}"),
            }
            if fell {
                self.env.hit(Rare::CrashInRecovery);
            }
            self.next_disk(self.disk.power_lost());
        }
        None
    }

    fn open(
        &self,
        disk: &SimDisk,
    ) -> Result<(vetch_node::Node, stepped::Parts), vetch_node::error::OpenError> {
        watchdog::about("recovery");
        let (trace, coverage) = (self.env.trace.clone(), self.env.coverage.clone());
        stepped::open(
            Arc::new(disk.clone()),
            self.env.clock.for_node(),
            self.env.plan.node.clone(),
            move |progress| match progress {
                Progress::Note(note) => {
                    say!(trace, "recovery: {note}");
                    if note.starts_with("cut an unacknowledged") {
                        coverage.hit(Rare::TornTailCut);
                    } else if note.starts_with("the newest checkpoint was passed over") {
                        coverage.hit(Rare::CheckpointPassedOver);
                    }
                }
                Progress::Checkpoint { bytes_total, .. } if bytes_total > 0 => {
                    coverage.hit(Rare::RecoveredFromCheckpoint);
                }
                Progress::Checkpoint { .. } | Progress::Journal { .. } => {}
            },
        )
    }

    fn check_recovered(&mut self, node: &vetch_node::Node) {
        let (revision, term) = (node.revision(), node.term());
        let shown = self.visible.max(self.env.knowledge.borrow().revision);
        say!(self.env.trace, "recovered at revision {revision}, term {term}; {shown} had been shown");
        if revision < shown {
            let lost =
                format!("revision {shown} had been shown, and after recovery there is only {revision}");
            self.env.violation(lost);
        }
        if term <= self.term {
            let before = self.term;
            self.env.violation(format!("the term went from {before} to {term}"));
        }
        (self.visible, self.term) = (revision.max(shown), term);
    }

    /// The disk that the next process finds.
    fn next_disk(&mut self, power_lost: bool) {
        let rng = self.rng.fork(4);
        if power_lost {
            if self.left_unsynced {
                self.env.hit(Rare::KilledThenPowerLoss);
            }
            self.disk = self.disk.after_power_loss(rng);
        } else {
            self.left_unsynced = !self.disk.mem().pending().is_empty();
            self.disk = self.disk.after_kill(rng);
        }
    }

    /// One life, from recovery to its end.
    fn live(&mut self, mut world: World) {
        let fate = Fate::draw(&mut self.rng, self.env.plan.life_nanos, self.env.plan.encrypted);
        say!(self.env.trace, "fate {fate:?}");
        self.populate(&mut world);
        let began = self.env.now();
        let mut halt = Halt::Time;
        for (at, action) in &fate.actions {
            halt = world.run_until((began + at).saturating_sub(self.env.now()), |_| false);
            if halt != Halt::Time {
                break;
            }
            self.act(&mut world, action);
        }
        if halt == Halt::Time {
            halt = world.run_until((began + fate.nanos).saturating_sub(self.env.now()), |_| false);
        }
        if halt == Halt::Time && fate.end == End::Stop {
            world.unpause();
            self.disk.give_space();
            self.env.disk_full.set(false);
            halt = self.stop(&mut world);
        }
        self.finish(world, halt, fate.end);
    }

    fn populate(&self, world: &mut World) {
        for (n, memory) in self.clients.iter().enumerate() {
            world.spawn_client(n as u32 + 1, memory);
        }
        self.streams.iter().for_each(|memory| world.spawn_watcher(memory));
        self.office.iter().for_each(|office| world.spawn_users(office));
    }

    fn act(&mut self, world: &mut World, action: &Action) {
        say!(self.env.trace, "nemesis {action:?}");
        match action {
            Action::Disk(behaviour) => self.disk.set_mood(behaviour.clone()),
            Action::Pause(which, nanos) => world.pause(*which, *nanos),
            Action::Full(more) => {
                self.disk.fill_up(*more);
                self.env.disk_full.set(true);
                self.env.hit(Rare::DiskFull);
            }
            Action::Space => {
                self.disk.give_space();
                self.env.disk_full.set(false);
                self.env.space_again.set(true);
            }
            Action::Arm(armed) => self.disk.arm(armed.clone()),
            Action::Rot => self.rot_checkpoint(),
            Action::Rekey(which) => match keys::change(&world.node, *which) {
                Ok(()) => self.env.hit(Rare::KeyChanged),
                Err(error) => self.env.violation(format!("a ring with every key was refused: {error}")),
            },
        }
    }

    /// An orderly stop under load; it must come to its end unless a fault ends it first.
    fn stop(&mut self, world: &mut World) -> Halt {
        let halt = world.stop();
        match halt {
            Halt::Done => self.env.hit(Rare::CleanStop),
            Halt::Time => self.env.violation("an orderly stop did not end within 120 s".to_owned()),
            _ => {}
        }
        halt
    }

    fn finish(&mut self, mut world: World, halt: Halt, end: End) {
        say!(self.env.trace, "life ends: {halt:?}, {end:?}");
        let failed = halt == Halt::Failed;
        if failed {
            // Nothing may be acknowledged any more; clients are there to see it.
            world.stopping = true;
            world.run_until(50 * MILLI, |_| false);
            if self.disk.errors() == 0 {
                self.env.violation("the journal gave up although the disk had not failed".to_owned());
            }
        }
        self.note_life(&world);
        self.visible = self.visible.max(world.visible());
        world.kill();
        self.heal_checkpoint();
        self.disk.disarm();
        let power = self.disk.power_lost() || (end == End::PowerLoss && halt != Halt::Done);
        match (power, halt) {
            (true, _) => self.env.hit(Rare::PowerLoss),
            (false, Halt::Time) => self.env.hit(Rare::Killed),
            _ => {}
        }
        self.next_disk(power);
    }

    fn note_life(&self, world: &World) {
        let (metrics, own) = (world.node.metrics(), self.env.plan.node.proposed.member_id);
        let happened = [
            (metrics.leases.expired.get() > 0, Rare::LeaseExpired),
            (metrics.leases.records_withdrawn.get() > 0, Rare::LeaseRecorded),
            (metrics.checkpoints.bytes.get() > 0, Rare::CheckpointTaken),
            // The server's own alarm, not one that a client raised.
            (
                self.env.plan.node.quota_bytes > 0
                    && world.node.alarms().iter().any(|alarm| alarm.member == own),
                Rare::QuotaReached,
            ),
        ];
        for (_, rare) in happened.iter().filter(|(happened, _)| *happened) {
            self.env.hit(*rare);
        }
    }

    fn judge(self, seed: u64) -> Report {
        let history = self.env.recorder.borrow().history();
        let mut violations = self.env.violations();
        if violations.is_empty() {
            violations.extend(crate::judge::judge(&history));
        }
        for violation in &violations {
            say!(self.env.trace, "verdict: {violation}");
        }
        say!(
            self.env.trace,
            "end: {} operations, {} watches",
            history.operations.len(),
            history.watches.len()
        );
        let (coverage, virtual_nanos) = (self.env.coverage.counts(), self.env.now());
        Report { seed, violations, coverage, counts: BTreeMap::new(), history, virtual_nanos }
    }
}
