//! SimDisk: a `MemDisk` that takes time, and fails when the seed says so.
//!
//! On a fiber every operation may give control back before and after it took effect, and a large
//! write also in its middle. So everything else of the node runs against half-done appends and
//! half-done checkpoints, and a crash finds the disk at any such point. Outside of fibers, which is
//! where recovery runs, operations take no time.
//!
//! A disk is used by one process. When that is killed or the power goes, `after_kill` and
//! `after_power_loss` make the disk of the next one; the old one then refuses everything.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use vetch_journal::{DirLock, Disk, DiskFile, Fault, LockError, MemDisk, Op, Pending};

use crate::coverage::{Coverage, Rare};
use crate::fiber;
use crate::time::{MICRO, MILLI, SECOND};
use crate::trace::{Trace, say};
use vetch_testkit::random::Rng;

mod behaviour;
pub use behaviour::{Armed, Behaviour, Blow, Target};

const SECTOR: usize = 512;

/// The disk; clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct SimDisk {
    mem: MemDisk,
    state: Arc<Mutex<State>>,
    trace: Trace,
    coverage: Coverage,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    behaviour: Behaviour,
    armed: Vec<Armed>,
    /// No operation is allowed any more.
    gone: bool,
    /// The power went during an operation.
    power_lost: bool,
    /// What is being done right now, by thread name; only for fibers that wait in the middle of it.
    doing: Vec<(String, Op, PathBuf)>,
    ops: u64,
    errors: u64,
}

impl SimDisk {
    pub fn new(mem: MemDisk, rng: Rng, trace: Trace, coverage: Coverage) -> SimDisk {
        let state = State {
            rng,
            behaviour: Behaviour::default(),
            armed: Vec::new(),
            gone: false,
            power_lost: false,
            doing: Vec::new(),
            ops: 0,
            errors: 0,
        };
        SimDisk { mem, state: Arc::new(Mutex::new(state)), trace, coverage }
    }

    pub fn mem(&self) -> &MemDisk {
        &self.mem
    }

    pub fn set_mood(&self, behaviour: Behaviour) {
        self.state().behaviour = behaviour;
    }

    /// Something to happen at a later operation.
    pub fn arm(&self, armed: Armed) {
        self.state().armed.push(armed);
    }

    pub fn disarm(&self) {
        self.state().armed.clear();
    }

    /// Whether the power went during an operation.
    pub fn power_lost(&self) -> bool {
        self.state().power_lost
    }

    /// Operations so far.
    pub fn ops(&self) -> u64 {
        self.state().ops
    }

    /// What fibers wait for right now: the fiber's thread, the operation and its path.
    pub fn doing(&self) -> Vec<(String, Op, PathBuf)> {
        self.state().doing.clone()
    }

    pub fn is_gone(&self) -> bool {
        self.state().gone
    }

    /// Whether everything armed has fallen.
    pub fn is_disarmed(&self) -> bool {
        self.state().armed.is_empty()
    }

    /// Errors on writes that have fallen.
    pub fn errors(&self) -> u64 {
        self.state().errors
    }

    /// Limits what it can hold to what it holds now and `more` bytes.
    pub fn fill_up(&self, more: u64) {
        let used: usize = self.mem.files().values().map(Vec::len).sum();
        self.mem.inject(Fault::Capacity(used as u64 + more));
    }

    pub fn give_space(&self) {
        self.mem.inject(Fault::Capacity(1 << 40));
    }

    /// From now on every operation fails.
    pub fn take_away(&self) {
        self.state().gone = true;
    }

    /// What the next process finds when this one was killed.
    pub fn after_kill(&self, rng: Rng) -> SimDisk {
        self.take_away();
        SimDisk::new(self.mem.process_killed(), rng, self.trace.clone(), self.coverage.clone())
    }

    /// What the next boot finds.
    pub fn after_power_loss(&self, mut rng: Rng) -> SimDisk {
        self.take_away();
        let [all, none, some] = [rng.percent(10), rng.percent(15), rng.percent(50)];
        let chance = if all {
            100
        } else if none {
            0
        } else if some {
            50
        } else {
            *rng.pick(&[3, 20, 80, 97])
        };
        let (mut sectors, mut names) = ([0, 0], [0, 0]);
        let mem = self.mem.power_loss(&mut |pending| {
            let survives = rng.percent(chance);
            match pending {
                Pending::Sector { .. } => sectors[usize::from(survives)] += 1,
                Pending::Create { .. } | Pending::Rename { .. } | Pending::Remove { .. } => {
                    names[usize::from(survives)] += 1;
                }
                Pending::Length { .. } => {}
            }
            survives
        });
        say!(self.trace, "power loss: sectors lost/kept {sectors:?}, names lost/kept {names:?}");
        for (counts, rare) in [(sectors, Rare::PowerLossTorn), (names, Rare::PowerLossNames)] {
            if counts[1] > 0 {
                self.coverage.hit(rare);
            }
        }
        SimDisk::new(mem, rng, self.trace.clone(), self.coverage.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// One operation: time passes, faults strike, then it happens.
    fn perform<T>(&self, op: Op, path: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.pass_time(op, path)?;
        let blow = self.strike(op, path)?;
        let outcome = act();
        if blow == Some(Blow::PowerLoss) {
            let mut state = self.state();
            (state.gone, state.power_lost) = (true, true);
        }
        match &outcome {
            Ok(_) => say!(self.trace, "disk {op:?} {}", path.display()),
            Err(error) => say!(self.trace, "disk {op:?} {} failed: {error}", path.display()),
        }
        let pause = blow == Some(Blow::PowerLoss) || self.pauses_after(op);
        if pause {
            self.wait(op, path, 0);
        }
        outcome
    }

    /// A read or another operation that changes nothing.
    fn look<T>(&self, path: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let nanos = {
            let mut state = self.state();
            if state.gone {
                return Err(gone());
            }
            let State { rng, behaviour, .. } = &mut *state;
            rng.percent(behaviour.read_pause).then(|| rng.between(20 * MICRO, 2 * MILLI))
        };
        if let Some(nanos) = nanos {
            self.wait(Op::Write, path, nanos);
        }
        if self.state().gone { Err(gone()) } else { act() }
    }

    fn fails_read(&self, path: &Path) -> bool {
        let mut state = self.state();
        let struck = state.armed.iter_mut().position(|armed| armed.falls_on_read(path));
        if let Some(place) = struck {
            state.armed.swap_remove(place);
            self.coverage.hit(Rare::CheckpointReadError);
            say!(self.trace, "disk read of {} fails", path.display());
        }
        struck.is_some()
    }

    fn pass_time(&self, op: Op, path: &Path) -> io::Result<()> {
        let nanos = {
            let mut state = self.state();
            if state.gone {
                return Err(gone());
            }
            state.ops += 1;
            let State { rng, behaviour, .. } = &mut *state;
            behaviour.latency(rng, op)
        };
        if let Some(nanos) = nanos {
            if nanos > SECOND {
                self.coverage.hit(Rare::SlowDisk);
            }
            self.wait(op, path, nanos);
        }
        if self.state().gone { Err(gone()) } else { Ok(()) }
    }

    fn pauses_after(&self, op: Op) -> bool {
        let mut state = self.state();
        let State { rng, behaviour, .. } = &mut *state;
        rng.percent(if op == Op::SyncData { behaviour.pause_after_sync } else { behaviour.pause_after })
    }

    /// Gives control back, if this is a fiber.
    fn wait(&self, op: Op, path: &Path, nanos: u64) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.state().doing.push((name.clone(), op, path.to_path_buf()));
        fiber::wait(nanos);
        self.state().doing.retain(|(who, ..)| *who != name);
    }

    /// Lets an armed blow fall, if it is meant for this operation.
    fn strike(&self, op: Op, path: &Path) -> io::Result<Option<Blow>> {
        let blow = {
            let mut state = self.state();
            let struck = state.armed.iter_mut().position(|armed| armed.falls_on(op, path));
            struck.map(|place| state.armed.swap_remove(place).blow)
        };
        match blow {
            Some(Blow::PowerLoss) => self.mem.inject(Fault::CrashAt(0)),
            Some(Blow::Error) => {
                self.state().errors += 1;
                self.mem.inject(Fault::FailNext(op, io::ErrorKind::Other));
                let in_journal = path.components().any(|part| part.as_os_str() == "journal");
                self.coverage.hit(match op {
                    _ if !in_journal => Rare::CheckpointError,
                    Op::SyncData => Rare::SyncError,
                    _ => Rare::WriteError,
                });
            }
            Some(Blow::Kill) => {
                self.take_away();
                return Err(gone());
            }
            None => {}
        }
        Ok(blow)
    }
}

fn gone() -> io::Error {
    io::Error::other("the machine is gone")
}

impl Disk for SimDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let inner = self.perform(Op::Create, path, || self.mem.create(path))?;
        Ok(Box::new(SimFile { disk: self.clone(), inner, path: path.to_path_buf() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let inner = self.look(path, || self.mem.open(path))?;
        Ok(Box::new(SimFile { disk: self.clone(), inner, path: path.to_path_buf() }))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let inner = self.look(path, || self.mem.open_write(path))?;
        Ok(Box::new(SimFile { disk: self.clone(), inner, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.perform(Op::Rename, to, || self.mem.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.perform(Op::Remove, path, || self.mem.remove(path));
        if removed.is_ok() && path.components().any(|part| part.as_os_str() == "journal") {
            self.coverage.hit(Rare::JournalTrimmed);
        }
        removed
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.look(dir, || self.mem.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.look(dir, || self.mem.create_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.perform(Op::SyncDir, dir, || self.mem.sync_dir(dir))
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        self.look(dir, || self.mem.free_space(dir))
    }

    fn lock_dir(&self, dir: &Path) -> Result<DirLock, LockError> {
        self.mem.lock_dir(dir)
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inner: Box<dyn DiskFile>,
    path: PathBuf,
}

impl DiskFile for SimFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let sectors = data.len() / SECTOR;
        let cut = {
            let mut state = self.disk.state();
            let State { rng, behaviour, .. } = &mut *state;
            (sectors > 1 && rng.percent(behaviour.split)).then(|| (1 + rng.below(sectors - 1)) * SECTOR)
        };
        let (now, later) = data.split_at(cut.unwrap_or(data.len()));
        self.disk.perform(Op::Write, &self.path, || self.inner.write_at(offset, now))?;
        if later.is_empty() {
            return Ok(());
        }
        self.disk.perform(Op::Write, &self.path, || self.inner.write_at(offset + now.len() as u64, later))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if self.disk.fails_read(&self.path) {
            return Err(io::Error::other("input/output error"));
        }
        self.disk.look(&self.path, || self.inner.read_at(offset, buf))
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.look(&self.path, || self.inner.len())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.disk.perform(Op::Allocate, &self.path, || self.inner.allocate(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.perform(Op::SyncData, &self.path, || self.inner.sync_data())
    }
}
