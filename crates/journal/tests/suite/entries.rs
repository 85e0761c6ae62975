//! Durable entries, read beside the writer.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use vetch_base::Seq;
use vetch_encryption::EncryptionKeys;
use vetch_journal::{
    DirLock, Disk, DiskFile, EntriesError, EntriesFrom, Entry, Journal, LocalConfig, LocalJournal, LockError,
    MemDisk, Position,
};
use vetch_testkit::random::Rng;

use crate::encryption::{KEYS, ring};
use crate::member::replicate;
use crate::support::{append, batch, dir, fresh, genesis, noise, tiny};

fn all(reading: &mut EntriesFrom) -> Vec<Entry> {
    let next = || reading.next_entry().expect("it is there");
    std::iter::from_fn(next).map(|entry| Entry::decode(&entry.bytes).expect("an entry")).collect()
}

fn with(disk: &MemDisk, config: LocalConfig) -> LocalJournal {
    let recovery = LocalJournal::recover(Arc::new(disk.clone()), &dir(), config, genesis());
    recovery.and_then(|recovery| recovery.finish()).expect("intact").0
}

#[test]
fn entries_come_from_memory_and_from_files_alike() {
    for recent_bytes in [0, 600, 1 << 20] {
        let keys = EncryptionKeys::repeatable_for_tests(ring(&KEYS[..1]));
        let mut journal = with(&MemDisk::new(), LocalConfig { recent_bytes, keys, ..tiny() });
        journal.claim().expect("no faults");
        let mut given = append(&mut journal, &[noise(1, 9), noise(2, 900)]).expect("no faults");
        for n in 0..9 {
            given.extend(replicate(&mut journal, &[noise(n, 30), noise(n, 300)]));
        }
        for from in 0..=given.len() {
            let mut reading = journal.entries_from(Seq::new(from as u64 + 2));
            assert_eq!(all(&mut reading), given[from..], "from {from} on, {recent_bytes} in memory");
        }
    }
}

#[test]
fn recent_entries_are_answered_without_a_file() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let given = replicate(&mut journal, &[noise(1, 30), noise(2, 300)]);
    for name in disk.list(&dir()).expect("listed").iter().filter(|name| name.ends_with(".journal")) {
        disk.remove(&dir().join(name)).expect("it exists");
    }
    assert_eq!(all(&mut journal.entries_from(Seq::new(2))), given);
}

#[test]
fn a_reader_at_the_end_goes_on_with_what_comes() {
    let disk = MemDisk::new();
    let mut journal = with(&disk, LocalConfig { recent_bytes: 0, ..tiny() });
    let mut reading = journal.entries_from(Seq::FIRST);
    for n in 0..20 {
        assert!(reading.next_entry().expect("open").is_none());
        let given = replicate(&mut journal, &vec![noise(n, 200); n as usize % 5 + 1]);
        assert_eq!(all(&mut reading), given, "round {n}");
    }
}

#[test]
fn a_reader_is_told_what_it_cannot_have() {
    let disk = MemDisk::new();
    let mut journal = with(&disk, LocalConfig { recent_bytes: 0, ..tiny() });
    for n in 0..6 {
        replicate(&mut journal, &[noise(n, 900)]);
    }
    let (mut ahead, mut at_five) = (journal.entries_from(Seq::FIRST), journal.entries_from(Seq::new(5)));
    assert_eq!(all(&mut ahead).len(), 6);
    assert_eq!(at_five.next_entry().expect("open").expect("it is there").seq.get(), 5);
    journal.cut(Seq::new(4), Seq::ZERO).expect("no faults");
    for reading in [&mut ahead, &mut at_five] {
        assert!(matches!(reading.next_entry(), Err(EntriesError::Cut { .. })));
    }
    // Others in the place of those that were handed out.
    replicate(&mut journal, &vec![noise(50, 9); 4]);
    for reading in [&mut ahead, &mut at_five] {
        assert!(matches!(reading.next_entry(), Err(EntriesError::Cut { .. })));
    }
    assert_eq!(all(&mut journal.entries_from(Seq::new(4))).len(), 5);
    journal.trim(Position(4)).expect("no faults");
    match journal.entries_from(Seq::new(2)).next_entry() {
        Err(EntriesError::Trimmed { wanted, first }) => assert_eq!((wanted.get(), first.get()), (2, 4)),
        other => panic!("{other:?}"),
    }
}

type Hook = Box<dyn FnOnce() + Send>;

/// A disk on which something happens just before a file is opened for reading.
#[derive(Clone, Default)]
struct Hooked {
    disk: MemDisk,
    hook: Arc<Mutex<Option<Hook>>>,
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

impl Disk for Hooked {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let hook = self.hook.lock().expect("no panic").take();
        if let Some(hook) = hook {
            hook();
        }
        self.disk.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk.create(path)
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open_write(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_space(dir)
    }

    fn lock_dir(&self, dir: &Path) -> Result<DirLock, LockError> {
        self.disk.lock_dir(dir)
    }
}

/// A cut, and what takes the place of what it cut, in the middle of a read.
#[test]
fn a_cut_in_the_middle_of_a_read_is_no_damage() {
    for others in 0..4 {
        let disk = Hooked::default();
        let config = LocalConfig { recent_bytes: 0, ..tiny() };
        let recovery = LocalJournal::recover(Arc::new(disk.clone()), &dir(), config, genesis());
        let mut journal = recovery.and_then(|recovery| recovery.finish()).expect("an empty directory").0;
        replicate(&mut journal, &vec![noise(1, 300); 5]);
        let entries = journal.entries();
        let journal = Arc::new(Mutex::new(journal));
        let writer = journal.clone();
        let cut: Hook = Box::new(move || {
            let mut journal = writer.lock().expect("no panic");
            journal.cut(Seq::new(2), Seq::ZERO).expect("no faults");
            (0..others).for_each(|n| drop(replicate(&mut journal, &[noise(n, 700)])));
        });
        *disk.hook.lock().expect("no panic") = Some(cut);
        let mut reading = entries.from(Seq::new(4));
        let found = reading.next_entry().expect("no damage").map(|found| found.bytes);
        let expected = journal.lock().expect("no panic").entries_from(Seq::new(4)).next_entry();
        assert_eq!(found, expected.expect("no damage").map(|found| found.bytes), "{others} others");
        assert_eq!(found.is_some(), others > 1);
    }
}

/// One thread writes, cuts and trims; others read. What a reader is given follows one from the
/// other, and it is refused only for a reason.
#[test]
fn readers_beside_a_writer_that_cuts_see_nothing_torn() {
    let disk = MemDisk::new();
    let mut journal = with(&disk, LocalConfig { recent_bytes: 700, ..tiny() });
    replicate(&mut journal, &vec![noise(1, 100); 3]);
    let entries = journal.entries();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let read = |seed: u64| {
        let (mut rng, mut seen) = (Rng::split_mix(seed), 0_u64);
        let mut reading = entries.from(Seq::FIRST);
        let mut last: Option<Entry> = None;
        while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
            match reading.next_entry() {
                Ok(Some(encoded)) => {
                    let entry = Entry::decode(&encoded.bytes).expect("an entry");
                    assert_eq!(entry.seq, encoded.seq);
                    if let Some(last) = last.filter(|last| last.seq.next() == entry.seq) {
                        assert_eq!(entry.prev_hash, vetch_journal::hash_entry(&last.encode()));
                    }
                    (last, seen) = (Some(entry), seen + 1);
                }
                Ok(None) => std::thread::yield_now(),
                Err(EntriesError::Journal(error)) => panic!("{error}"),
                Err(EntriesError::Trimmed { first, .. }) => (reading, last) = (entries.from(first), None),
                Err(EntriesError::Cut { next }) => {
                    let back = Seq::new(next.get().saturating_sub(rng.draw() % 9).max(1));
                    (reading, last) = (entries.from(back), None);
                }
            }
        }
        seen
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|seed| scope.spawn(move || read(seed))).collect();
        let mut rng = Rng::split_mix(7);
        for n in 0..2000 {
            let payloads: Vec<_> = (0..1 + rng.below(4)).map(|_| noise(rng.draw(), rng.below(900))).collect();
            let chained = batch(&journal, &payloads);
            journal.append_replicated(&chained, Seq::ZERO).expect("no faults");
            let last = journal.tip().seq;
            if n % 3 == 0 {
                let to = Seq::new(last.get() - rng.draw() % 5);
                journal.cut(to.max(journal_begin(last)), Seq::ZERO).expect("no faults");
            }
            if n % 16 == 0 {
                journal.trim(Position(journal_begin(last).get())).expect("no faults");
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        for reader in readers {
            assert!(reader.join().expect("no reader failed") > 0);
        }
    });
}

/// An entry far enough back that it is never cut.
fn journal_begin(last: Seq) -> Seq {
    Seq::new(last.get().saturating_sub(30).max(1))
}
