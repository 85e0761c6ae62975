//! The state behind `MemDisk`: files and names, each as seen and as durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{Op, Pending};

const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    files: Vec<File>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    name_ops: Vec<NameOp>,
    dirs: BTreeSet<PathBuf>,
    pub(super) locked: BTreeSet<PathBuf>,
    pub(super) ops: u64,
    pub(super) crash_at: Option<u64>,
    pub(super) fail_next: Vec<(Op, io::ErrorKind)>,
    pub(super) unreadable: Vec<(PathBuf, Range<u64>)>,
    pub(super) capacity: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct File {
    /// The path it was created under, for reports.
    born: PathBuf,
    seen: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
enum NameOp {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameOp {
    fn path(&self) -> &Path {
        match self {
            NameOp::Create(path, _) | NameOp::Rename(_, path) | NameOp::Remove(path) => path,
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameOp::Create(path, id) => {
                names.insert(path.clone(), *id);
            }
            NameOp::Rename(from, to) => {
                if let Some(id) = names.remove(from) {
                    names.insert(to.clone(), id);
                }
            }
            NameOp::Remove(path) => {
                names.remove(path);
            }
        }
    }

    fn pending(&self) -> Pending {
        match self {
            NameOp::Create(path, _) => Pending::Create { path: path.clone() },
            NameOp::Rename(from, to) => Pending::Rename { from: from.clone(), to: to.clone() },
            NameOp::Remove(path) => Pending::Remove { path: path.clone() },
        }
    }
}

impl File {
    /// Makes one sector durable as it is seen now, growing the medium up to it.
    fn persist(&mut self, sector: u64) {
        let from = sector as usize * SECTOR;
        let to = (from + SECTOR).min(self.seen.len());
        if from >= to {
            return;
        }
        if self.durable.len() < to {
            self.durable.resize(to, 0);
        }
        self.durable[from..to].copy_from_slice(&self.seen[from..to]);
    }

    fn pending(&self) -> Vec<Pending> {
        let mut pending: Vec<Pending> =
            self.dirty.iter().map(|&sector| Pending::Sector { file: self.born.clone(), sector }).collect();
        if self.seen.len() > self.durable.len() {
            pending.push(Pending::Length { file: self.born.clone(), len: self.seen.len() as u64 });
        }
        pending
    }
}

impl State {
    pub(super) fn has_crashed(&self) -> bool {
        self.crash_at.is_some_and(|at| self.ops > at)
    }

    /// Counts an operation. An error that is not the power going leaves no trace; `Ok(false)` says
    /// that the power goes during this very operation, whose effects are then pending.
    fn step(&mut self, op: Op) -> io::Result<bool> {
        if self.has_crashed() {
            return Err(power_is_gone());
        }
        self.ops += 1;
        if let Some(found) = self.fail_next.iter().position(|(which, _)| *which == op) {
            return Err(self.fail_next.remove(found).1.into());
        }
        Ok(!self.has_crashed())
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<usize> {
        let alive = self.step(Op::Create)?;
        if self.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !path.parent().is_some_and(|dir| self.dirs.contains(dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let id = self.files.len();
        self.files.push(File { born: path.to_path_buf(), ..File::default() });
        self.name_op(NameOp::Create(path.to_path_buf(), id));
        finish(alive).map(|()| id)
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<usize> {
        if self.has_crashed() {
            return Err(power_is_gone());
        }
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let alive = self.step(Op::Rename)?;
        self.find_name(from)?;
        self.name_op(NameOp::Rename(from.to_path_buf(), to.to_path_buf()));
        finish(alive)
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let alive = self.step(Op::Remove)?;
        self.find_name(path)?;
        self.name_op(NameOp::Remove(path.to_path_buf()));
        finish(alive)
    }

    fn find_name(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn name_op(&mut self, op: NameOp) {
        op.apply(&mut self.names);
        self.name_ops.push(op);
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if !self.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let here = self.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(here.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        if self.has_crashed() {
            return Err(power_is_gone());
        }
        self.dirs.extend(dir.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        finish(self.step(Op::SyncDir)?)?;
        let (here, elsewhere) =
            self.name_ops.drain(..).partition(|op: &NameOp| op.path().parent() == Some(dir));
        self.name_ops = elsewhere;
        let here: Vec<NameOp> = here;
        here.iter().for_each(|op| op.apply(&mut self.durable_names));
        Ok(())
    }

    pub(super) fn write_at(&mut self, id: usize, offset: u64, data: &[u8]) -> io::Result<()> {
        let alive = self.step(Op::Write)?;
        let end = offset as usize + data.len();
        self.grow(id, end as u64)?;
        let file = &mut self.files[id];
        file.seen[offset as usize..end].copy_from_slice(data);
        file.dirty.extend((offset as usize / SECTOR..end.div_ceil(SECTOR)).map(|sector| sector as u64));
        finish(alive)
    }

    pub(super) fn allocate(&mut self, id: usize, len: u64) -> io::Result<()> {
        let alive = self.step(Op::Allocate)?;
        self.grow(id, len)?;
        finish(alive)
    }

    fn grow(&mut self, id: usize, len: u64) -> io::Result<()> {
        let more = len.saturating_sub(self.len(id));
        if more > self.free_space() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = &mut self.files[id];
        file.seen.resize(file.seen.len() + more as usize, 0);
        Ok(())
    }

    pub(super) fn sync_data(&mut self, id: usize) -> io::Result<()> {
        let crashed_before = self.has_crashed();
        let outcome = self.step(Op::SyncData);
        let file = &mut self.files[id];
        match outcome {
            Ok(true) => {
                for sector in std::mem::take(&mut file.dirty) {
                    file.persist(sector);
                }
                let len = file.seen.len();
                file.durable.resize(len.max(file.durable.len()), 0);
                Ok(())
            }
            Ok(false) => Err(power_is_gone()),
            Err(error) => {
                if !crashed_before {
                    file.dirty.clear();
                }
                Err(error)
            }
        }
    }

    pub(super) fn read_at(&self, id: usize, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if self.has_crashed() {
            return Err(power_is_gone());
        }
        let end = offset + buf.len() as u64;
        let bad = self.unreadable.iter().any(|(path, range)| {
            self.names.get(path) == Some(&id) && offset < range.end && range.start < end
        });
        if bad {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()));
        }
        let seen = &self.files[id].seen;
        let from = (offset as usize).min(seen.len());
        let n = buf.len().min(seen.len() - from);
        buf[..n].copy_from_slice(&seen[from..from + n]);
        Ok(n)
    }

    pub(super) fn len(&self, id: usize) -> u64 {
        self.files[id].seen.len() as u64
    }

    pub(super) fn free_space(&self) -> u64 {
        let used: u64 = self.names.values().map(|&id| self.len(id)).sum();
        self.capacity.map_or(1 << 40, |capacity| capacity.saturating_sub(used))
    }

    pub(super) fn pending(&self) -> Vec<Pending> {
        let names = self.name_ops.iter().map(NameOp::pending);
        self.files.iter().flat_map(File::pending).chain(names).collect()
    }

    pub(super) fn after_power_loss(&self, survives: &mut dyn FnMut(&Pending) -> bool) -> State {
        let mut files = self.files.clone();
        for file in &mut files {
            for pending in file.pending().into_iter().filter(|pending| survives(pending)) {
                match pending {
                    Pending::Sector { sector, .. } => file.persist(sector),
                    Pending::Length { len, .. } => file.durable.resize(len as usize, 0),
                    _ => unreachable!("files have no other pending changes"),
                }
            }
            file.dirty.clear();
            file.seen = file.durable.clone();
        }
        let mut names = self.durable_names.clone();
        for op in self.name_ops.iter().filter(|op| survives(&op.pending())) {
            op.apply(&mut names);
        }
        State {
            files: named(&files, names.values()),
            durable_names: names.clone(),
            names,
            dirs: self.dirs.clone(),
            capacity: self.capacity,
            ..State::default()
        }
    }

    pub(super) fn after_kill(&self) -> State {
        let created = self.name_ops.iter().filter_map(|op| match op {
            NameOp::Create(_, id) => Some(id),
            NameOp::Rename(..) | NameOp::Remove(_) => None,
        });
        State {
            files: named(&self.files, self.names.values().chain(self.durable_names.values()).chain(created)),
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            name_ops: self.name_ops.clone(),
            dirs: self.dirs.clone(),
            capacity: self.capacity,
            ..State::default()
        }
    }

    pub(super) fn edit(&mut self, path: &Path, change: &mut dyn FnMut(&mut Vec<u8>)) {
        let id = *self.names.get(path).expect("the file exists");
        change(&mut self.files[id].seen);
        change(&mut self.files[id].durable);
    }

    pub(super) fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.names.get(path).map(|&id| self.files[id].seen.clone())
    }

    pub(super) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.names.iter().map(|(path, &id)| (path.clone(), self.files[id].seen.clone())).collect()
    }
}

/// The files that a name leads to, each in its place. The content of all others is gone:
/// no process has them open any more.
fn named<'a>(files: &[File], ids: impl Iterator<Item = &'a usize>) -> Vec<File> {
    let mut kept = vec![File::default(); files.len()];
    for &id in ids {
        kept[id] = files[id].clone();
    }
    kept
}

fn finish(alive: bool) -> io::Result<()> {
    if alive { Ok(()) } else { Err(power_is_gone()) }
}

fn power_is_gone() -> io::Error {
    io::Error::other("the power is gone")
}
