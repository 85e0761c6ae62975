//! Verify: every checksum of a data directory, the journal's chain, and checkpoints against the
//! journal between them.
//!
//! Nothing is locked and nothing is changed, so a server may be running: files that it removes
//! meanwhile make this start over. Takes the memory of the whole store, once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vetch_checkpoint::identity::{self, IdentityError};
use vetch_checkpoint::listing::{self, Checkpoint, Unreadable};
use vetch_checkpoint::replay;
use vetch_encryption::EncryptionKeys;
use vetch_journal::{Disk, JournalError, LocalReader, Read, Sight, Tip, survey};
use vetch_store::Store;
use vetch_store::hash::HashRun;

/// How often a directory in use is verified again.
const ATTEMPTS_MAX: usize = 5;
const RETRY_DELAY: Duration = Duration::from_millis(300);
/// Versions hashed per step.
const HASH_STEP: usize = 1 << 16;

/// Damage, or a file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// None if it concerns the file, or several, as a whole.
    pub offset: Option<u64>,
    pub reason: String,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    pub problems: Vec<Problem>,
    /// Remarks that are no damage.
    pub notes: Vec<String>,
    pub segments: usize,
    pub records: u64,
    pub entries: u64,
    pub checkpoints: usize,
    pub data_files: usize,
    /// The revision that a start would recover.
    pub revision: Option<i64>,
    /// Checkpoints that were compared with the one before and the journal between the two.
    pub compared: usize,
}

/// Verifies the data directory. Problems are data, not errors.
pub fn verify(disk: &Arc<dyn Disk>, data_dir: &Path, keys: &EncryptionKeys, threads: usize) -> Verified {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let is_used = is_used(data_dir);
        let mut run =
            Verification { disk, member: data_dir.join("member"), keys, threads, found: Verified::default() };
        run.run();
        if run.found.problems.is_empty() || attempt == ATTEMPTS_MAX || !is_used {
            if is_used {
                run.found.notes.push("a server is running on this directory".to_owned());
            }
            return run.found;
        }
        // The server may have removed a file, or be in the middle of a write. What is still wrong
        // after a while is damage.
        std::thread::sleep(RETRY_DELAY);
    }
}

/// Whether a server has locked the directory. The lock is not taken to find out, because that would
/// get in the way of a server that starts. Where the locks are not known, one might.
fn is_used(data_dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(lock) = std::fs::metadata(data_dir.join("member").join("LOCK")) else { return false };
    let Ok(locks) = std::fs::read_to_string("/proc/locks") else { return true };
    let inode = format!(":{}", lock.ino());
    locks.lines().any(|line| line.contains("FLOCK") && line.split(' ').any(|word| word.ends_with(&inode)))
}

struct Verification<'a> {
    disk: &'a Arc<dyn Disk>,
    member: PathBuf,
    keys: &'a EncryptionKeys,
    threads: usize,
    found: Verified,
}

impl Verification<'_> {
    fn run(&mut self) {
        match identity::load(self.disk.as_ref(), &self.member) {
            Ok(_) => {}
            Err(IdentityError::Damaged { path, reason }) => self.problem(path, None, reason.to_string()),
            Err(IdentityError::Io { path, source, .. }) => self.problem(path, None, source.to_string()),
        }
        self.journal();
        let dir = self.member.join("checkpoint");
        let found = match listing::list(self.disk.as_ref(), &dir, self.keys) {
            Ok(found) => found,
            Err(error) => return self.problem(&dir, None, error.to_string()),
        };
        let mut sound: Vec<Checkpoint> = Vec::new();
        for (number, read) in found.checkpoints {
            self.found.checkpoints += 1;
            match read {
                Ok(checkpoint) => {
                    self.found.data_files += checkpoint.files.len();
                    let damage = checkpoint.damage(self.disk.as_ref(), &dir, self.keys);
                    if damage.is_empty() {
                        sound.push(checkpoint);
                    }
                    damage.iter().for_each(|damage| self.unreadable(damage, &dir));
                }
                Err(error) => self.unreadable(&error, &dir.join(format!("{number:016x}.manifest"))),
            }
        }
        for name in found.unreferenced {
            self.found.notes.push(format!(
                "{}: no checkpoint needs it; the next start removes it",
                dir.join(name).display()
            ));
        }
        self.replay(&dir, &sound);
    }

    fn problem(&mut self, file: impl AsRef<Path>, offset: Option<u64>, reason: impl Into<String>) {
        let problem = Problem { file: file.as_ref().display().to_string(), offset, reason: reason.into() };
        // A file of both checkpoints is damaged once.
        if !self.found.problems.contains(&problem) {
            self.found.problems.push(problem);
        }
    }

    fn unreadable(&mut self, why: &Unreadable, place: &Path) {
        match why {
            Unreadable::Damaged(damage) => self.problem(&damage.file, Some(damage.offset), &damage.reason),
            Unreadable::Refused(error) => self.problem(place, None, error.to_string()),
        }
    }

    fn journal(&mut self) {
        let dir = self.member.join("journal");
        let mut found = std::mem::take(&mut self.found);
        let mut problem = |file: &str, offset, reason: String| {
            let file = dir.join(file).display().to_string();
            found.problems.push(Problem { file, offset: Some(offset), reason });
        };
        let (mut segments, mut records, mut entries, mut notes) = (0, 0, 0, Vec::new());
        let seen = survey(self.disk.as_ref(), &dir, self.keys, &mut |sight| match sight {
            Sight::Segment { .. } => segments += 1,
            Sight::Record(_) => records += 1,
            Sight::Entry { .. } => entries += 1,
            Sight::Damage(damage) => problem(&damage.file, damage.offset, damage.reason),
            Sight::Encrypted { file, offset, source } => problem(&file, offset, source.to_string()),
            Sight::Torn(torn) => {
                let file = dir.join(torn.file);
                let place = format!("{} at byte {}", file.display(), torn.offset);
                notes.push(format!(
                    "{place}: an interrupted write of {} bytes, which the next start cuts",
                    torn.bytes
                ));
            }
        });
        self.found = Verified { segments, records, entries, ..found };
        self.found.notes.extend(notes);
        if let Err(error) = seen {
            self.problem(&dir, None, error.to_string());
        }
    }

    /// The state of each checkpoint must be that of the one before it plus the journal in between,
    /// and the journal after the newest must replay. `checkpoints` is newest first.
    fn replay(&mut self, dir: &Path, checkpoints: &[Checkpoint]) {
        let mut expected: Option<StateSummary> = None;
        for (n, checkpoint) in checkpoints.iter().enumerate().rev() {
            let store = match checkpoint.load(self.disk.as_ref(), dir, self.keys, self.threads) {
                Ok(store) => store,
                Err(error) => return self.unreadable(&error, &checkpoint.path),
            };
            let outcome = StateSummary::new(&store);
            if let Some(expected) = expected.take() {
                self.found.compared += 1;
                if expected != outcome {
                    self.problem(
                        &checkpoint.path,
                        None,
                        "it does not hold what the checkpoint before it and the journal lead to",
                    );
                }
            }
            let until = n.checked_sub(1).map(|newer| checkpoints[newer].tip);
            expected = self.replay_from(store, checkpoint.tip, until);
        }
        if checkpoints.is_empty() && self.found.checkpoints == 0 {
            self.replay_from(Store::default(), Tip::genesis(Store::default().head().revision + 1), None);
        }
    }

    /// Replays the journal after `tip`, up to `until` or its end, and returns the resulting state.
    fn replay_from(&mut self, mut store: Store, tip: Tip, until: Option<Tip>) -> Option<StateSummary> {
        let dir = self.member.join("journal");
        let mut step = || -> Result<(), JournalError> {
            let mut reader = LocalReader::open(Arc::clone(self.disk), &dir, Some(tip), self.keys)?;
            let mut at = tip;
            while until.is_none_or(|until| at.seq < until.seq) {
                let Some(item) = reader.next_entry()? else { break };
                replay::replay(&mut store, &item.entry).map_err(|error| {
                    let reason =
                        format!("entry {} does not fit the state before it: {error}", item.entry.seq);
                    JournalError::Corrupt(vetch_journal::Corrupt { file: String::new(), offset: 0, reason })
                })?;
                at = item.tip;
            }
            Ok(())
        };
        match step() {
            Ok(()) => {}
            // The scan of the journal has reported it, with all other damage.
            Err(_) if !self.found.problems.is_empty() => return None,
            Err(JournalError::Corrupt(damage)) => {
                self.problem(dir.join(damage.file), Some(damage.offset), damage.reason);
                return None;
            }
            Err(error) => {
                self.problem(&dir, None, error.to_string());
                return None;
            }
        }
        store.publish(store.head());
        if until.is_none() {
            self.found.revision = Some(store.head().revision);
        }
        Some(StateSummary::new(&store))
    }
}

/// What is compared of two states.
#[derive(Debug, PartialEq)]
struct StateSummary {
    mark: vetch_store::Mark,
    hash: u32,
    unversioned: vetch_store::load::Unversioned,
}

impl StateSummary {
    fn new(store: &Store) -> StateSummary {
        let mark = store.head();
        let mut run = HashRun::new(mark.revision, mark);
        while run.step(store, HASH_STEP) == Some(false) {}
        StateSummary { mark, hash: run.finish(), unversioned: store.unversioned() }
    }
}
