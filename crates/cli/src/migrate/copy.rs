//! The first copy: a snapshot of the etcd as a data directory, with its revisions.
//!
//! Everything is built under temporary names. The directory `member` appears when all of it is on
//! disk; an interrupted copy is discarded and begun again.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use vetch_checkpoint::identity::Identity;
use vetch_encryption::EncryptionKeys;
use vetch_snapshot::restore::{self, Options, Progress, Restored};

use super::error::MigrateError;
use super::source::{Source, SourceStatus};
use crate::commands::print_message;
use crate::commands::progress::Ticker;
use crate::migration_dir::{Marker, MigrationDir, Phase};

/// Replaces the contents of `place` by a copy of the present etcd.
pub(super) async fn copy(
    source: &Source,
    source_status: &SourceStatus,
    dir: &MigrationDir,
    marker: &mut Marker,
    keys: &EncryptionKeys,
) -> Result<(), MigrateError> {
    marker.phase = Phase::Copying;
    dir.write(marker)?;
    // Behind the marker: from this line on, no server starts here.
    print_message(&format!("migrate: copying from {}, etcd {}", source.endpoint, source_status.version));
    dir.clear()?;
    fetch(source, dir).await?;
    let options = Options {
        source: dir.snapshot(),
        source_wal: None,
        other_members: Vec::new(),
        leave_undecided: false,
        data_dir: dir.building(),
        skip_hash_check: false,
        // Revisions stay as they are, so clients can continue.
        bump: Some(0),
        // Requests that are forwarded are answered in this name already.
        identity: Some(Identity { cluster_id: source_status.cluster_id, member_id: source_status.member_id }),
    };
    let keys = keys.clone();
    let restored = tokio::task::spawn_blocking(move || build(&options, &keys)).await;
    let restored = restored.map_err(|error| MigrateError::Fatal(error.to_string()))??;
    fs::rename(dir.building().join("member"), dir.member())?;
    dir.sync()?;
    fs::remove_dir_all(dir.building())?;
    fs::remove_file(dir.snapshot())?;
    marker.phase = Phase::Following;
    dir.write(marker)?;
    print_message(&format!(
        "migrate: copied revision {} (compacted at {}): {} versions of keys, {} leases, {} users, {} roles",
        restored.mark.revision,
        restored.mark.compact_revision,
        restored.versions,
        restored.leases,
        restored.users,
        restored.roles
    ));
    Ok(())
}

async fn fetch(source: &Source, dir: &MigrationDir) -> Result<(), MigrateError> {
    let path = dir.snapshot();
    let mut file: File =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    let mut stream = source.snapshot().await?;
    let mut ticker = Ticker::new();
    let mut copied = 0;
    while let Some(message) = stream.message().await? {
        file.write_all(&message.blob)?;
        copied += message.blob.len() as u64;
        ticker.report("migrate: copying", copied, copied + message.remaining_bytes);
    }
    Ok(())
}

/// An incomplete snapshot is refused here, by its hash.
fn build(options: &Options, keys: &EncryptionKeys) -> Result<Restored, MigrateError> {
    let mut ticker = Ticker::new();
    let restored = restore::restore_encrypted(options, keys, &mut |progress| match progress {
        Progress::Hashing { done, total } => ticker.report("migrate: checking the copy", done, total),
        // A snapshot has no log to replay; the phase is reported in the same way.
        Progress::Importing { done, total } | Progress::Replaying { done, total } => {
            ticker.report("migrate: loading the copy", done, total);
        }
    });
    restored.map_err(|error| MigrateError::Fatal(format!("the copy cannot be used: {error}")))
}
