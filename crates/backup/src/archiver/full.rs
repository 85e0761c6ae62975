//! A full backup: the files of the newest checkpoint that are not there yet, and last of all the
//! document that names them.
//!
//! Checkpoint files never change and are shared between checkpoints, so a full backup costs what
//! changed. Only files that the previous full backup names count as being there: a file that no
//! backup names may be removed at any time.

use std::fs::File;
use std::path::Path;
use std::thread::JoinHandle;

use vetch_base::Seq;
use vetch_checkpoint::{CheckpointFiles, PinnedCheckpoint};
use vetch_journal::RealDisk;
use vetch_node::archive::Archive;

use super::Settings;
use super::session::Session;
use crate::depot::{Depot, Put};
use crate::error::BackupError;
use crate::format::{ChunkInfo, FORMAT, FileInfo, Full, decode, encode, file_name, full_name};
use crate::{prune, times};

type Outcome = Result<Option<Full>, BackupError>;

/// One that is being made, on a thread of its own, so that chunks go on meanwhile.
pub(super) struct FullRun {
    thread: JoinHandle<Outcome>,
}

impl FullRun {
    pub(super) fn start(
        archive: &Archive,
        settings: &Settings,
        session: &Session,
    ) -> std::io::Result<FullRun> {
        let (archive, settings) = (archive.clone(), settings.clone());
        let journal = session.journal().to_owned();
        let (chunks, before) = (session.chunks().to_vec(), session.newest_full().cloned());
        let make = move || {
            let depot = settings.location.open_to_write()?;
            let full = make(&depot, &archive, &journal, before.as_ref(), chunks)?;
            if let Some(retention) = settings.retention {
                let keep = prune::Keep { span: retention, fulls: 1 };
                // The full backup is there all the same, and the next one tries again.
                match prune::prune(&depot, Some(&journal), keep, times::now(), false) {
                    Ok(pruned) => tracing::debug!(?pruned, "old backups removed"),
                    Err(error) => tracing::error!(%error, "old backups could not be removed"),
                }
            }
            Ok(full)
        };
        Ok(FullRun { thread: std::thread::Builder::new().name("vetch-full".to_owned()).spawn(make)? })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    pub(super) fn join(self) -> Outcome {
        let failed = |_| BackupError::Refused("the thread of the full backup has failed".to_owned());
        self.thread.join().map_err(failed)?
    }
}

/// None: there is no checkpoint that is newer than the full backup before.
fn make(
    depot: &Depot,
    archive: &Archive,
    journal: &str,
    before: Option<&Full>,
    chunks: Vec<ChunkInfo>,
) -> Outcome {
    let pinned = archive.pin_checkpoint();
    let files = pinned.as_ref().map(PinnedCheckpoint::files);
    // Before the first checkpoint the journal begins with nothing.
    let (seq, revision, compact_revision) = files.map_or((Seq::ZERO, 1, -1), |files| {
        (files.tip.seq, files.mark.revision, files.mark.compact_revision)
    });
    if before.is_some_and(|before| before.seq >= seq) {
        return Ok(None);
    }
    let copied = match files {
        Some(files) => copy(depot, archive, journal, before, files)?,
        None => Vec::new(),
    };
    let full = Full {
        format: FORMAT,
        journal: journal.to_owned(),
        seq,
        revision,
        compact_revision,
        time: times::now(),
        files: copied,
        chunks,
    };
    let name = full_name(journal, seq);
    let full = match depot.put_new(&name, encode(&full))? {
        Put::Created => full,
        // One whose arrival was not confirmed.
        Put::Exists => decode(&name, &depot.get(&name)?)?,
    };
    let metrics = archive.metrics();
    metrics.fulls.add(1);
    metrics.full_revision.set(full.revision);
    metrics.full_time.set(i64::try_from(full.time).unwrap_or(i64::MAX));
    Ok(Some(full))
}

fn copy(
    depot: &Depot,
    archive: &Archive,
    journal: &str,
    before: Option<&Full>,
    files: &CheckpointFiles,
) -> Result<Vec<FileInfo>, BackupError> {
    let dir = archive.checkpoint_dir();
    // What rotted on the disk must not replace what is good elsewhere.
    vetch_checkpoint::audit(&RealDisk, &dir, files.number, archive.keys())?;
    let mut copied = Vec::with_capacity(files.data.len() + 1);
    for name in files.data.iter().chain([&files.manifest]) {
        let path = dir.join(name);
        let info = describe(name, &path)?;
        if !before.is_some_and(|before| before.files.contains(&info)) {
            let sent = depot.put_file(&file_name(journal, &info.hash, name), &path)?;
            if sent.to_hex().as_str() != info.hash {
                return Err(BackupError::damaged(
                    &path.display().to_string(),
                    "it changed while it was copied",
                ));
            }
        }
        copied.push(info);
    }
    Ok(copied)
}

fn describe(name: &str, path: &Path) -> Result<FileInfo, BackupError> {
    let file = File::open(path).map_err(BackupError::io("opening", path))?;
    let size = file.metadata().map_err(BackupError::io("reading", path))?.len();
    let mut hash = blake3::Hasher::new();
    hash.update_reader(file).map_err(BackupError::io("reading", path))?;
    Ok(FileInfo { name: name.to_owned(), size, hash: hash.finalize().to_hex().to_string() })
}
