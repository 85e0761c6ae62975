//! The judge: takes a disk as the next boot finds it, and what must be on it, and goes through
//! every recovery.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use vetch_base::Seq;
use vetch_journal::{Draft, Entry, Fault, Journal, Kind, LocalConfig, LocalJournal, MemDisk, Tip};
use vetch_testkit::subsets::subsets;

use super::life::{Life, recover};
use crate::support::{append, decoded, noise};

pub(super) struct Judge {
    /// How often the power goes again during the recovery from the last time.
    depth: u32,
    /// Disks that were judged, with the same knowledge about them.
    seen: HashSet<u64>,
    /// Disks given, whether or not they had been judged before.
    pub(super) cases: u64,
    /// Of them, those after a power loss during a recovery.
    pub(super) nested: u64,
    /// Different disks that had a torn tail.
    pub(super) torn: u64,
    /// Different disks.
    pub(super) distinct: u64,
}

/// What must be found on a disk: these entries behind the checkpoint, as far as to one of the ends.
#[derive(Clone, Copy)]
struct Expected<'a> {
    config: &'a LocalConfig,
    checkpoint: Tip,
    known: &'a [Entry],
    ends: &'a [Seq],
}

/// How a disk came about, written out only when it is condemned.
struct Case<'a> {
    what: &'a str,
    before: Option<&'a Case<'a>>,
    at: u64,
    kept: &'a [bool],
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.before {
            None => write!(f, "{}, kept {:?}", self.what, self.kept),
            Some(before) => {
                write!(f, "{before}; again at {} of the recovery, kept {:?}", self.at, self.kept)
            }
        }
    }
}

impl Judge {
    pub(super) fn new(depth: u32) -> Judge {
        Judge { depth, seen: HashSet::new(), cases: 0, nested: 0, torn: 0, distinct: 0 }
    }

    /// Judges every disk that the power may leave behind now.
    pub(super) fn power_loss(&mut self, life: &Life, exhaustive: usize, random: usize, what: &str) {
        let (known, ends) = life.known();
        let (config, checkpoint) = (&life.config, life.checkpoint);
        let expected = Expected { config, checkpoint, known: &known, ends: &ends };
        let seed = life.disk.ops();
        self.outcomes(&life.disk, exhaustive, random, seed, |judge, disk, kept| {
            judge.judge(&disk, expected, 0, &Case { what, before: None, at: 0, kept });
        });
    }

    fn outcomes(
        &mut self,
        disk: &MemDisk,
        exhaustive: usize,
        random: usize,
        seed: u64,
        mut each: impl FnMut(&mut Judge, MemDisk, &[bool]),
    ) {
        for set in subsets(disk.pending().len(), exhaustive, random, seed) {
            let mut fates = set.iter();
            let booted = disk.power_loss(&mut |_| *fates.next().expect("asked once per pending change"));
            each(self, booted, &set);
        }
    }

    fn judge(&mut self, image: &MemDisk, expected: Expected, depth: u32, what: &Case) {
        self.cases += 1;
        self.nested += u64::from(depth > 0);
        if !self.seen.insert(fingerprint(image, &expected)) {
            return;
        }
        self.distinct += 1;
        let disk = image.process_exit();
        let open = |disk: &MemDisk| -> (Vec<Entry>, LocalJournal, bool) {
            let opened = recover(Arc::new(disk.clone()), expected.config, expected.checkpoint);
            let (found, journal, report) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
            (found, journal, report.cut.is_some())
        };
        let (found, journal, is_torn) = open(&disk);
        drop(journal);
        self.torn += u64::from(is_torn);
        expected.check(&found, what);
        let files = disk.files();
        let (again, mut journal, is_torn) = open(&disk);
        assert!(again == found, "{what}: recovering again");
        assert!(!is_torn && disk.files() == files, "{what}: the second recovery changed something");
        journal.claim().expect("a recovered journal goes on");
        append(&mut journal, &[noise(77, 1200)]).expect("a recovered journal goes on");
        drop(journal);
        let (more, _, _) = open(&disk);
        assert!(more.starts_with(&found) && more.len() == found.len() + 2, "{what}: going on");
        if depth < self.depth {
            self.power_loss_while_recovering(image, &found, &expected, depth, what);
        }
    }

    /// The power goes at every operation of the recovery and of the claim behind it.
    fn power_loss_while_recovering(
        &mut self,
        image: &MemDisk,
        found: &[Entry],
        expected: &Expected,
        depth: u32,
        what: &Case,
    ) {
        let exhaustive = if depth == 0 { 5 } else { 3 };
        for at in 0.. {
            let disk = image.process_exit();
            disk.inject(Fault::CrashAt(at));
            let recovered = recover(Arc::new(disk.clone()), expected.config, expected.checkpoint);
            let claim = recovered.map(|(_, mut journal, _)| {
                let mut tip = *journal.tip();
                let claim = decoded(&[Draft::new(Kind::NewEpoch).chain(&mut tip)]);
                let _ = journal.claim();
                claim
            });
            if !disk.has_crashed() {
                break;
            }
            let known = [found, &claim.unwrap_or_default()].concat();
            let ends = [found, &known].map(|all| expected.end(all));
            let expected = Expected { known: &known, ends: &ends, ..*expected };
            self.outcomes(&disk, exhaustive, 2, at, |judge, booted, kept| {
                let what = Case { what: "", before: Some(what), at, kept };
                judge.judge(&booted, expected, depth + 1, &what);
            });
        }
    }
}

impl Expected<'_> {
    fn check(&self, found: &[Entry], what: &Case) {
        let end = self.end(found);
        let fits = self.known.starts_with(found) && self.ends.contains(&end);
        let (known, ends) = (self.known.len(), self.ends);
        assert!(fits, "{what}: {known} known, {} found, up to {end} of {ends:?}", found.len());
    }

    fn end(&self, entries: &[Entry]) -> Seq {
        entries.last().map_or(self.checkpoint.seq, |last| last.seq)
    }
}

fn fingerprint(disk: &MemDisk, expected: &Expected) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, content) in disk.files() {
        (path, content.len(), crc32c::crc32c(&content)).hash(&mut hasher);
    }
    let Expected { checkpoint, known, ends, .. } = expected;
    (checkpoint.seq, known.len(), ends).hash(&mut hasher);
    hasher.finish()
}
