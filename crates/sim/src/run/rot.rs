//! Trials between two lives: the disk is damaged, on a copy, and the server is started on it.
//!
//! It may refuse, with an error, or it may start and then must hold exactly what it holds on the
//! undamaged disk. Never may it start and hold something else. Afterwards the run goes on with the
//! undamaged disk.

use std::path::PathBuf;

use vetch_journal::{Fault, MemDisk};
use vetch_model::KeyValue;
use vetch_node::Node;
use vetch_node::error::OpenError;
use vetch_store::request::{KeyRange, RangeRequest};
use vetch_store::validate;

use super::Run;
use crate::coverage::Rare;
use crate::disk::SimDisk;
use crate::executor::block_on;
use crate::trace::say;
use vetch_testkit::random::Rng;
use vetch_testkit::to_model;

/// Everything a client could ask a node that has just started.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    revision: i64,
    compact_revision: i64,
    kvs: Vec<KeyValue>,
    /// The oldest state that can still be read.
    oldest: Option<Vec<KeyValue>>,
    hash: Option<u32>,
    leases: Vec<i64>,
}

/// A bit that was flipped.
pub(super) struct Bit {
    path: PathBuf,
    len: usize,
    byte: u64,
    bit: u8,
}

impl Run {
    /// Flips a bit of a checkpoint file under the running server, which may read it again when it
    /// merges files.
    pub(super) fn rot_checkpoint(&mut self) {
        let files: Vec<(PathBuf, usize)> = self
            .disk
            .mem()
            .files()
            .into_iter()
            .map(|(path, content)| (path, content.len()))
            .filter(|(path, len)| *len > 0 && path.starts_with("/data/member/checkpoint"))
            .collect();
        if files.is_empty() {
            return;
        }
        let (path, len) = self.rng.pick(&files).clone();
        let rotten = Bit { path, len, byte: self.rng.below(len as u64), bit: self.rng.below(8) as u8 };
        say!(self.env.trace, "bit {} of byte {} of {} rots", rotten.bit, rotten.byte, rotten.path.display());
        self.env.hit(Rare::CheckpointRot);
        self.disk.mem().flip_bit(&rotten.path, rotten.byte, rotten.bit);
        self.rotten.push(rotten);
    }

    /// Flips it back, where the file is still there.
    pub(super) fn heal_checkpoint(&mut self) {
        for Bit { path, len, byte, bit } in self.rotten.drain(..) {
            if self.disk.mem().content(&path).is_some_and(|content| content.len() == len) {
                self.disk.mem().flip_bit(&path, byte, bit);
            }
        }
    }

    pub(super) fn trials(&mut self) {
        if self.term == 0 || !self.rng.percent(35) {
            return;
        }
        let files: Vec<(PathBuf, usize)> = self
            .disk
            .mem()
            .files()
            .into_iter()
            .map(|(path, content)| (path, content.len()))
            .filter(|(_, len)| *len > 0)
            .collect();
        if files.is_empty() {
            return;
        }
        let expected = self.content_of(self.disk.mem().process_exit());
        let Some(Ok(expected)) = expected else { return };
        for _ in 0..self.rng.between(1, 2) {
            let (path, len) = self.rng.pick(&files).clone();
            let mem = self.disk.mem().process_exit();
            let rots = self.rng.percent(65);
            if rots {
                damage(&mem, &mut self.rng, &path, len);
            } else {
                let from = self.rng.below(len as u64);
                mem.inject(Fault::UnreadableRange(path.clone(), from..from + 1));
            }
            let found = self.content_of(mem);
            let rare = match (&found, rots) {
                (Some(Err(_)), true) => Rare::RotRefused,
                (Some(Err(_)), false) => Rare::ReadErrorRefused,
                (_, true) => Rare::RotUnharmed,
                (_, false) => Rare::ReadErrorUnharmed,
            };
            self.env.hit(rare);
            match found {
                Some(Err(refused)) => say!(self.env.trace, "trial of {}: {refused}", path.display()),
                Some(Ok(found)) if found == expected => {
                    say!(self.env.trace, "trial of {}: unharmed", path.display());
                }
                found => {
                    let what = format!(
                        "with {} damaged (rot: {rots}) the server started and held something else: \
                         {found:?} instead of {expected:?}",
                        path.display()
                    );
                    self.env.violation(what);
                }
            }
        }
    }

    /// What a server started on a copy of the disk holds, or why it does not start. None if it
    /// cannot even be asked.
    fn content_of(&mut self, mem: MemDisk) -> Option<Result<Content, OpenError>> {
        let rng = self.rng.fork(5);
        let disk = SimDisk::new(mem, rng, self.env.trace.clone(), self.env.coverage.clone());
        disk.give_space();
        match self.open(&disk) {
            Ok((node, parts)) => {
                let content = content(&node);
                drop(parts);
                content.map(Ok)
            }
            Err(error) => Some(Err(error)),
        }
    }
}

fn content(node: &Node) -> Option<Content> {
    let status = node.status();
    let read = |revision: i64| {
        let mut request = RangeRequest::new(KeyRange::new([0].to_vec(), [0].to_vec()));
        request.revision = revision;
        let request = validate::range(request).expect("every key is a range");
        block_on(node.range(request)).ok().map(|response| to_model::key_values(&response.kvs))
    };
    let mut leases = block_on(node.leases()).ok()?;
    leases.sort_unstable();
    Some(Content {
        revision: status.revision,
        compact_revision: status.compact_revision,
        kvs: read(0)?,
        oldest: read(status.compact_revision.max(1)),
        hash: block_on(node.hash_kv(0)).ok().map(|hash| hash.hash),
        leases,
    })
}

/// Flips bits, or overwrites a few bytes. Whole sectors of zeros are left to power losses, which
/// leave just those.
fn damage(mem: &MemDisk, rng: &mut Rng, path: &std::path::Path, len: usize) {
    if rng.percent(60) {
        for _ in 0..rng.between(1, 3) {
            mem.flip_bit(path, rng.below(len as u64), rng.below(8) as u8);
        }
        return;
    }
    let mut content = mem.content(path).expect("the file is there");
    let from = rng.below(len);
    let to = (from + rng.skewed(1, 600) as usize).min(len);
    for byte in &mut content[from..to] {
        *byte = rng.between(1, 255) as u8;
    }
    mem.overwrite(path, &content);
}
