//! Restore: a data directory with the state at one revision or time of a backup.
//!
//! What is needed is fetched beside the new directory and checked on the way, loaded and replayed
//! as a start of the server would, but no further than asked, and written as the first checkpoint
//! of a new data directory with a journal of its own: what comes after is another future than the
//! one the backup knows.
//!
//! Clients may have seen later revisions than the restored one, and would take a revision that is
//! assigned a second time for the one they know. So the revision can be moved far ahead, with
//! everything before it compacted: watchers and caches then get "compacted" and begin anew.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_checkpoint::identity::Identity;
use vetch_checkpoint::replay::commands;
use vetch_checkpoint::{CheckpointConfig, Loaded};
use vetch_encryption::EncryptionKeys;
use vetch_journal::{Disk, LocalReader, Read, ReadItem, RealDisk};
use vetch_offline::{DataDirBuilder, bump_revision};
use vetch_store::history::HistoryRun;
use vetch_store::{BadCommand, Mark, Record, Store};

use crate::catalog::{Catalog, Plan, Stop, Target};
use crate::depot::Depot;
use crate::error::BackupError;
use crate::format::{self, Chunk, Owner, chunk_name, file_name};

/// Versions of keys written at a time, in bytes.
const PIECE_BYTES: usize = 64 << 20;
/// Keys examined, and versions freed, per step. No request waits in between: any number would do.
const STEP: usize = 1 << 16;

#[derive(Debug, Clone)]
pub struct Options {
    pub target: Target,
    /// The journal to restore from, where there are several.
    pub journal: Option<String>,
    pub data_dir: PathBuf,
    /// How far to move the revision ahead, and mark it compacted; 0: it stays.
    pub bump: u64,
    /// The identity of the restored member. `None`: that of the member that was backed up.
    pub identity: Option<Identity>,
    /// Keys that decrypt the backup, and encrypt the new data directory.
    pub keys: EncryptionKeys,
}

/// What takes long, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Fetching { done: u64, total: u64 },
    Replaying { done: u64, total: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub journal: String,
    /// Of the full backup that it began with.
    pub full_revision: i64,
    /// Of the state that was restored.
    pub source: Mark,
    /// Of the data directory that was made.
    pub mark: Mark,
    /// For a time: when it is known to have been so, in milliseconds since 1970.
    pub known_at: Option<u64>,
    pub versions: usize,
    pub leases: usize,
    pub users: usize,
    /// What of the backup is damaged; the restored state does without it.
    pub damage: Vec<String>,
}

pub fn restore(
    depot: &Depot,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, BackupError> {
    let catalog = Catalog::read(depot)?;
    let plan = catalog.plan(depot, options.target, options.journal.as_deref())?;
    let identity = match options.identity {
        Some(identity) => identity,
        None => identity_of(&catalog.owner)?,
    };
    let stage = Stage::make(&options.data_dir)?;
    stage.fetch(depot, &plan, progress)?;
    let store = stage.replay(&plan, &options.keys, progress)?;
    let mut restored = build(store, &plan, options, identity)?;
    restored.damage = catalog.damage().map(str::to_owned).collect();
    stage.remove()?;
    Ok(restored)
}

fn identity_of(owner: &Owner) -> Result<Identity, BackupError> {
    let number = |text: &str| {
        u64::from_str_radix(text, 16)
            .map_err(|_| BackupError::damaged(format::OWNER, format!("{text:?} is not an id")))
    };
    Ok(Identity { cluster_id: number(&owner.cluster_id)?, member_id: number(&owner.member_id)? })
}

/// Where the pieces of a backup become files again.
struct Stage {
    dir: PathBuf,
    is_finished: bool,
}

impl Stage {
    fn make(data_dir: &Path) -> Result<Stage, BackupError> {
        let mut name = data_dir.as_os_str().to_owned();
        name.push(".restore-source");
        let dir = PathBuf::from(name);
        if dir.exists() {
            return Err(BackupError::Refused(format!(
                "{} is what an interrupted restore left: remove it and restore again",
                dir.display()
            )));
        }
        for dir in [&dir, &dir.join("checkpoint"), &dir.join("journal")] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
            made.map_err(BackupError::io("creating", dir))?;
        }
        Ok(Stage { dir, is_finished: false })
    }

    fn fetch(
        &self,
        depot: &Depot,
        plan: &Plan,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), BackupError> {
        let sizes = plan.full.files.iter().map(|file| file.size).chain(plan.chunks.iter().map(|c| c.size));
        let (mut done, total) = (0, sizes.sum());
        for file in &plan.full.files {
            let object = file_name(&plan.full.journal, &file.hash, &file.name);
            if file.name.contains('/') || file.name.starts_with('.') {
                return Err(BackupError::damaged(&object, "its name leads elsewhere"));
            }
            let (size, hash) = depot.fetch(&object, &self.dir.join("checkpoint").join(&file.name))?;
            if size != file.size || hash.to_hex().as_str() != file.hash {
                return Err(BackupError::damaged(&object, "its hash does not match"));
            }
            done += size;
            progress(Progress::Fetching { done, total });
        }
        for chunk in &plan.chunks {
            let name = chunk_name(&plan.full.journal, chunk.first_seq);
            let found = Chunk::decode(&name, &depot.get(&name)?)?;
            if found.header.first_seq != chunk.first_seq || found.header.last_seq != chunk.last_seq {
                return Err(BackupError::damaged(&name, "it is not what its name says"));
            }
            self.write_records(&found)?;
            done += chunk.size;
            progress(Progress::Fetching { done, total });
        }
        Ok(())
    }

    /// Puts records back to where they were in their segment.
    fn write_records(&self, chunk: &Chunk) -> Result<(), BackupError> {
        let path = self.dir.join("journal").join(format!("{:016x}.journal", chunk.header.segment.get()));
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            file.set_len(chunk.header.segment_len)?;
            file.seek(SeekFrom::Start(chunk.header.offset))?;
            file.write_all(&chunk.records)
        };
        write().map_err(BackupError::io("writing", &path))
    }

    /// The state where the plan ends.
    fn replay(
        &self,
        plan: &Plan,
        keys: &EncryptionKeys,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Store, BackupError> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let dir = self.dir.join("checkpoint");
        let config = CheckpointConfig::default();
        let Loaded { mut store, tip, report, .. } =
            vetch_checkpoint::load(Arc::clone(&disk), &dir, config, threads, keys, &mut |_, _| {})?;
        if let Some(why) = report.fell_back {
            return Err(BackupError::damaged(&format!("full backup {}", plan.full.seq), why));
        }
        if tip.seq != plan.full.seq {
            let reason = format!("its checkpoint is of entry {}", tip.seq);
            return Err(BackupError::damaged(&format!("full backup {}", plan.full.seq), reason));
        }
        if !plan.chunks.is_empty() {
            let mut journal = LocalReader::open(disk, &self.dir.join("journal"), Some(tip), keys)?;
            while let Some(item) = journal.next_entry()? {
                if !apply(&mut store, &item, plan.stop)? {
                    break;
                }
                let read = journal.progress();
                progress(Progress::Replaying { done: read.done, total: read.total });
            }
        }
        let revision = store.head().revision;
        if let Stop::AfterRevision(wanted) = plan.stop
            && revision != wanted
        {
            return Err(BackupError::Refused(format!(
                "the backup ends at revision {revision}, before {wanted}: what its pieces say of themselves is wrong"
            )));
        }
        Ok(store)
    }

    fn remove(mut self) -> Result<(), BackupError> {
        self.is_finished = true;
        fs::remove_dir_all(&self.dir).map_err(BackupError::io("removing", &self.dir))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.is_finished {
            // The error that led here is worth more than a second one.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Applies an entry as far as the plan goes. False: that was the end.
fn apply(store: &mut Store, item: &ReadItem, stop: Stop) -> Result<bool, BackupError> {
    let upto = match stop {
        Stop::AfterRevision(revision) => revision,
        Stop::AfterEntry(seq) if item.entry.seq > seq => return Ok(false),
        Stop::AfterEntry(_) | Stop::End => i64::MAX,
    };
    let refused = |error: BadCommand| {
        BackupError::damaged(&format!("journal entry {}", item.entry.seq), error.to_string())
    };
    for (payload, _) in commands(&item.entry).map_err(refused)? {
        store.replay_upto(payload, upto).map_err(refused)?;
    }
    Ok(store.head().revision < upto)
}

fn build(
    mut store: Store,
    plan: &Plan,
    options: &Options,
    identity: Identity,
) -> Result<Restored, BackupError> {
    let source = store.head();
    store.publish(source);
    let mut freed = Vec::new();
    while !store.compact_step(STEP, &mut freed) {
        freed.clear();
    }
    let unversioned = store.unversioned();
    let mut run = HistoryRun::of_swept(source);
    while !run.step(&store, STEP) {}
    let versions = run.finish();
    let mark = bump_revision(source, options.bump).ok_or_else(|| {
        let bump = options.bump;
        BackupError::Refused(format!("--bump-revision {bump} leaves no revisions to be written"))
    })?;
    let restored = Restored {
        journal: plan.full.journal.clone(),
        full_revision: plan.full.revision,
        source,
        mark,
        known_at: plan.mark.map(|mark| mark.time),
        versions: versions.len(),
        leases: unversioned.leases.len(),
        users: unversioned.auth.users.len(),
        damage: Vec::new(),
    };
    let mut target = DataDirBuilder::begin(&options.data_dir, source.compact_revision, options.keys.clone())?;
    for piece in pieces(&versions) {
        target.add(piece.to_vec())?;
    }
    target.finish(mark, unversioned, Some(identity))?;
    Ok(restored)
}

/// Whole revisions, about as much at a time as a data file should hold.
fn pieces(versions: &[Record]) -> impl Iterator<Item = &[Record]> {
    let mut rest = versions;
    std::iter::from_fn(move || {
        let (mut bytes, mut end) = (0, 0);
        while end < rest.len() {
            let next = end == 0 || rest[end - 1].mod_revision() != rest[end].mod_revision();
            if next && bytes >= PIECE_BYTES {
                break;
            }
            bytes += rest[end].saved_len();
            end += 1;
        }
        let piece = &rest[..end];
        rest = &rest[end..];
        (!piece.is_empty()).then_some(piece)
    })
}
