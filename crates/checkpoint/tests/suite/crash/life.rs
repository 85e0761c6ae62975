//! A life: rounds of random writes and compactions, each ended by a checkpoint, drawn from a seed.

use std::sync::Arc;

use vetch_base::Seq;
use vetch_checkpoint::{CheckpointConfig, CheckpointError};
use vetch_encryption::EncryptionKeys;
use vetch_journal::{Disk, MemDisk, Tip};
use vetch_store::request::{RequestOp, WriteRequest};

use crate::world::{KEYS, TINY, World, delete, keys, put, ring, txn};
use vetch_testkit::random::Rng;
use vetch_testkit::valid::Valid;

/// Every ring opens everything; they differ in what they encrypt with.
const RINGS: [&[&str]; 3] = [&KEYS, &[KEYS[1], KEYS[0]], &["plain", KEYS[0], KEYS[1]]];

pub(super) struct Life {
    pub(super) world: World,
    rng: Rng,
    rounds: usize,
    /// What a node would have trimmed the journal to: entries up to here are gone.
    pub(super) trimmed: Seq,
    /// The checkpoint before the run that was begun last, and the one it makes.
    pub(super) before: Tip,
    pub(super) after: Tip,
}

fn config(rng: &mut Rng) -> CheckpointConfig {
    CheckpointConfig {
        max_files: 2 + rng.below(5),
        block_bytes: [1, 60, 100, 700][rng.below(4)],
        rewrite_bytes: [1 << 10, 4 << 10][rng.below(2)],
        ..TINY
    }
}

impl Life {
    pub(super) fn new(seed: u64) -> Life {
        let disk = MemDisk::new();
        Life::on(seed, disk.clone(), Arc::new(disk))
    }

    pub(super) fn on(seed: u64, disk: MemDisk, view: Arc<dyn Disk>) -> Life {
        let mut rng = Rng::split_mix(seed);
        let config = config(&mut rng);
        let rounds = 2 + rng.below(4);
        // Half of the lives know of keys.
        let keys = if seed % 2 == 1 { keys(RINGS[0]) } else { EncryptionKeys::none() };
        let world = World::on(disk, view, config, keys);
        let tip = world.tip;
        Life { world, rng, rounds, trimmed: Seq::ZERO, before: tip, after: tip }
    }

    /// Lives until the end or the first run that fails.
    pub(super) fn live(&mut self) -> Result<(), CheckpointError> {
        while self.rounds > 0 {
            self.rounds -= 1;
            self.write_some();
            self.rekey();
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Now and then another key is used from now on, or none, if there are any.
    fn rekey(&mut self) {
        if self.world.keys.ring().ids().next().is_some() {
            self.world.keys.replace(ring(RINGS[self.rng.below(RINGS.len())]));
        }
    }

    pub(super) fn checkpoint(&mut self) -> Result<(), CheckpointError> {
        (self.before, self.after) = (self.world.checkpointer.tip(), self.world.tip);
        self.world.checkpoint()?;
        // As a node does after a run that succeeded, and only then.
        self.trimmed =
            self.trimmed.max(self.world.checkpointer.journal_needed_from().map_or(Seq::ZERO, |tip| tip.seq));
        Ok(())
    }

    pub(super) fn write_some(&mut self) {
        for _ in 0..3 + self.rng.below(12) {
            self.write();
        }
        if self.rng.below(3) > 0 {
            let back = self.rng.below(6) as i64;
            self.world.compact(self.world.store.head().revision - back);
            let steps = [1, 3, 1000][self.rng.below(3)];
            while !self.world.sweep(steps) && self.rng.below(4) > 0 {}
        }
    }

    fn write(&mut self) {
        let rng = &mut self.rng;
        let key = format!("{:02}", rng.below(9));
        let value = "v".repeat([0, 3, 30, 90][rng.below(4)]);
        let id = 1 + rng.below(3) as i64;
        let lease = if rng.below(4) == 0 { id } else { 0 };
        let request = match rng.below(12) {
            0 => WriteRequest::LeaseGrant { id, ttl: 60 },
            1 => WriteRequest::LeaseRevoke { id },
            2 => WriteRequest::DeleteRange(delete(&key, "").valid()),
            3 => WriteRequest::DeleteRange(delete(&key, "~").valid()),
            4 => txn((0..6).map(|n| RequestOp::Put(put(&format!("{n:02}"), &value, 0))).collect()),
            _ => WriteRequest::Put(put(&key, &value, lease).valid()),
        };
        self.world.write(request);
    }

    /// The life of the next process, on the disk that the killed one left, unsynced work included.
    pub(super) fn killed(&self) -> Life {
        let disk = self.world.disk.process_killed();
        let world = self.world.recover(&disk).unwrap();
        let tip = world.checkpointer.tip();
        Life { world, rng: Rng::split_mix(7), rounds: 2, trimmed: self.trimmed, before: tip, after: tip }
    }
}
