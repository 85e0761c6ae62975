//! The suite on the engines that need nothing: the local one and the model.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vetch_cluster::{Config, Log, LogIndex, ReplicaId, ReplicatedJournal};
use vetch_journal::{Journal, JournalError, LocalConfig, LocalJournal, MemDisk};
use vetch_testkit::log::handle::ModelHandle;
use vetch_testkit::log::model::ModelLog;
use vetch_testkit::log::suite::{JournalEngine, LogEngine, check_journal, check_log};

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
