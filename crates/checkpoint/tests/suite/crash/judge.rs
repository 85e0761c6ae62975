//! The judge: takes a disk as the next boot finds it, and loads it in every way.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use vetch_journal::{Fault, MemDisk, Tip};
use vetch_testkit::subsets::subsets;

use super::life::Life;
use crate::world::{damage, open_through, paths};

#[derive(Default)]
pub(super) struct Judge {
    /// Whether the newest manifest may be damaged on top of everything else.
    pub(super) with_damage: bool,
    pub(super) seen: HashSet<u64>,
    /// Disks given, whether or not they had been judged before.
    pub(super) cases: u64,
    /// Different disks.
    pub(super) distinct: u64,
    /// Of them, those that hold the checkpoint before the last, and those that hold the last.
    pub(super) old: u64,
    pub(super) new: u64,
}

impl Judge {
    /// Judges every disk that the power may leave behind now; the checkpoint found is one of
    /// `allowed`.
    pub(super) fn power_loss(&mut self, life: &Life, exhaustive: usize, allowed: &[Tip], what: &str) {
        let disk = &life.world.disk;
        for set in subsets(disk.pending().len(), exhaustive, 6, disk.ops()) {
            let mut fates = set.iter();
            let booted = disk.power_loss(&mut |_| *fates.next().unwrap());
            self.judge(life, &booted, allowed, 0, &|| format!("{what}, kept {set:?}"));
        }
    }

    pub(super) fn judge(
        &mut self,
        life: &Life,
        image: &MemDisk,
        allowed: &[Tip],
        depth: u32,
        what: &dyn Fn() -> String,
    ) {
        self.cases += 1;
        if !self.seen.insert(fingerprint(image, life.world.tip)) {
            return;
        }
        self.distinct += 1;
        let world = &life.world;
        let disk = image.process_exit();
        let loaded = open_through(Arc::new(disk.clone()), world.config, &world.keys);
        let loaded = loaded.unwrap_or_else(|error| panic!("{}: {error}", what()));
        let tip = loaded.tip;
        assert_eq!(loaded.report.fell_back, None, "{}", what());
        assert!(allowed.contains(&tip), "{}: found the checkpoint at {}", what(), tip.seq);
        assert!(tip.seq >= life.trimmed, "{}: the journal is gone up to {}", what(), life.trimmed);
        self.old += u64::from(tip != life.after);
        self.new += u64::from(tip == life.after);
        let files = disk.files();
        let mut recovered = world.replay(&disk, loaded);
        world.assert_same(&recovered);
        let again = open_through(Arc::new(disk.clone()), world.config, &world.keys).unwrap();
        assert_eq!((again.tip, disk.files() == files), (tip, true), "{}: loading again", what());
        if self.with_damage {
            self.judge_fallback(life, image, what);
        }
        recovered.put("after", "the crash");
        recovered.checkpoint().unwrap();
        recovered.assert_same(&recovered.recover(&disk).unwrap());
        if depth < 2 {
            self.power_loss_while_loading(life, image, tip, depth, what);
        }
    }

    /// With the newest manifest damaged the one before takes over, and the journal still reaches
    /// back to it.
    fn judge_fallback(&self, life: &Life, image: &MemDisk, what: &dyn Fn() -> String) {
        let disk = image.process_exit();
        let Some(newest) = paths(&disk, ".manifest").pop() else { return };
        damage(&disk, &newest);
        let loaded = open_through(Arc::new(disk.clone()), life.world.config, &life.world.keys);
        let loaded = loaded.unwrap_or_else(|error| panic!("{}, newest damaged: {error}", what()));
        assert!(loaded.tip.seq >= life.trimmed, "{}, newest damaged: the journal is gone", what());
        life.world.assert_same(&life.world.replay(&disk, loaded));
    }

    fn power_loss_while_loading(
        &mut self,
        life: &Life,
        image: &MemDisk,
        tip: Tip,
        depth: u32,
        what: &dyn Fn() -> String,
    ) {
        for at in 0.. {
            let disk = image.process_exit();
            disk.inject(Fault::CrashAt(at));
            let _ = open_through(Arc::new(disk.clone()), life.world.config, &life.world.keys);
            if !disk.has_crashed() {
                break;
            }
            for set in subsets(disk.pending().len(), 4, 2, at) {
                let mut fates = set.iter();
                let booted = disk.power_loss(&mut |_| *fates.next().unwrap());
                let what = || format!("{}; again at {at} of loading, kept {set:?}", what());
                self.judge(life, &booted, &[tip], depth + 1, &what);
            }
        }
    }
}

fn fingerprint(disk: &MemDisk, tip: Tip) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, content) in disk.files() {
        (path, content.len(), crc32c::crc32c(&content)).hash(&mut hasher);
    }
    tip.seq.hash(&mut hasher);
    hasher.finish()
}
