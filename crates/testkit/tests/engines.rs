//! The suite on the engines that need nothing: the local one and the model.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use vetch_cluster::{
    Config, Engine, Log, LogError, LogEvent, LogIndex, OrderedLog, ReplicaId, ReplicatedJournal,
    ReplicatedLog, Start, Ticket,
};
use vetch_journal::{Journal, JournalError, LocalConfig, LocalJournal, MemDisk, Position};
use vetch_testkit::log::handle::ModelHandle;
use vetch_testkit::log::model::ModelLog;
use vetch_testkit::log::suite::{
    Cut, JournalEngine, LogEngine, ReplicatedGroup, check_journal, check_log, check_replicated,
};

/// The local engine: one server at a time, its files on a disk in memory.
struct Local {
    disk: MemDisk,
}

impl JournalEngine for Local {
    fn open(&mut self, start: LogIndex) -> Result<Box<dyn Journal>, JournalError> {
        let dir = PathBuf::from("/journal");
        let recovery =
            LocalJournal::recover(Arc::new(self.disk.clone()), &dir, LocalConfig::default(), start.tip)?;
        Ok(Box::new(recovery.finish()?.0))
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn too_large(&self) -> Option<usize> {
        None
    }
}

struct Model {
    log: Arc<Mutex<ModelLog>>,
    incarnations: u64,
}

impl Model {
    fn new(checks_position: bool) -> Model {
        Model { log: Arc::new(Mutex::new(ModelLog::new(checks_position))), incarnations: 0 }
    }
}

impl JournalEngine for Model {
    fn open(&mut self, start: LogIndex) -> Result<Box<dyn Journal>, JournalError> {
        self.incarnations += 1;
        let me = ReplicaId { member: 1, incarnation: self.incarnations };
        let log = ModelHandle::new(self.log.clone());
        Ok(Box::new(ReplicatedJournal::new(log, Config::default(), me, start, Duration::from_secs(20))))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn too_large(&self) -> Option<usize> {
        Some(1 << 20)
    }
}

impl LogEngine for Model {
    fn open(&mut self) -> Box<dyn Log> {
        Box::new(ModelHandle::new(self.log.clone()))
    }
}

#[test]
fn the_local_engine_keeps_the_contract() {
    check_journal(|| Box::new(Local { disk: MemDisk::new() }));
}

#[test]
fn the_model_keeps_the_contract() {
    check_journal(|| Box::new(Model::new(true)));
}

#[test]
fn the_model_keeps_the_contract_without_checking_positions() {
    check_journal(|| Box::new(Model::new(false)));
}

#[test]
fn the_model_is_a_log() {
    check_log(|| Box::new(Model::new(true)));
}

/// Replicas on one model log, each on a line of its own that can be cut.
struct Replicas {
    log: Arc<Mutex<ModelLog>>,
    now: Arc<AtomicU64>,
    lines: Vec<Arc<Mutex<LineState>>>,
    incarnations: u64,
    names: Vec<ReplicaId>,
}

#[derive(Default)]
struct LineState {
    cut: Option<Cut>,
    /// The line was cut since its member last heard of it.
    was_cut: bool,
}

/// A connection to the log.
struct Line {
    handle: ModelHandle,
    state: Arc<Mutex<LineState>>,
}

impl Replicas {
    fn new(count: usize, checks_position: bool) -> Replicas {
        Replicas {
            log: Arc::new(Mutex::new(ModelLog::new(checks_position))),
            now: Arc::default(),
            lines: (0..count).map(|_| Arc::default()).collect(),
            incarnations: 0,
            names: (0..count).map(|at| ReplicaId { member: at as u64 + 1, incarnation: 0 }).collect(),
        }
    }
}

impl ReplicatedGroup for Replicas {
    fn start(&mut self, at: usize, start: LogIndex) -> Box<dyn ReplicatedLog> {
        self.incarnations += 1;
        self.names[at].incarnation = self.incarnations;
        let line = Line { handle: ModelHandle::new(self.log.clone()), state: self.lines[at].clone() };
        let now = self.now.clone();
        let clock = Box::new(move || Duration::from_nanos(now.load(Ordering::SeqCst)));
        let engine = Box::new(OrderedLog::new(line, Config::default()));
        engine.begin(Start { me: self.names[at], index: start, clock }).unwrap()
    }

    fn name(&self, at: usize) -> ReplicaId {
        self.names[at]
    }

    fn cut(&mut self, at: usize, cut: Option<Cut>) {
        let mut state = self.lines[at].lock().unwrap();
        (state.cut, state.was_cut) = (cut, true);
    }

    fn pass(&mut self, time: Duration) {
        self.now.fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Line {
    fn takes(&self) -> bool {
        self.state.lock().unwrap().cut != Some(Cut::Whole)
    }
}

impl Log for Line {
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes) {
        if self.takes() {
            self.handle.append(ticket, after, record);
        }
    }

    fn read(&mut self, after: Position) {
        if self.takes() {
            self.handle.read(after);
        }
    }

    fn next(&mut self, wait: Duration) -> Option<LogEvent> {
        let mut state = self.state.lock().unwrap();
        if state.cut.is_some() {
            while self.handle.next(wait).is_some() {}
            return None;
        }
        if std::mem::take(&mut state.was_cut) {
            return Some(LogEvent::Reconnected);
        }
        drop(state);
        self.handle.next(wait)
    }

    fn trim(&mut self, floor: Position) -> Result<(), LogError> {
        self.handle.trim(floor)
    }

    fn max_record(&self) -> usize {
        self.handle.max_record()
    }
}

#[test]
fn replicas_on_the_model_keep_the_contract_of_a_replicated_log() {
    check_replicated(|count| Box::new(Replicas::new(count, true)));
}

#[test]
fn replicas_on_the_model_keep_it_without_checking_positions() {
    check_replicated(|count| Box::new(Replicas::new(count, false)));
}
