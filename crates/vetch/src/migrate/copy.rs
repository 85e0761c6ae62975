//! The first copy: a snapshot of the etcd, made into a data directory with its revisions as they
//! are.
//!
//! Everything is built under other names. The directory `member` appears when all of it is on disk;
//! an interrupted copy is thrown away and begun again.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use vetch_node::config::Identity;
use vetch_node::seal::Keys;
use vetch_snapshot::restore::{self, Options, Progress, Restored};

use super::marker::{Marker, Phase, Place};
use super::source::{Source, Standing};
use super::trouble::Trouble;
use crate::commands::progress::Ticker;
use crate::commands::say;

/// Replaces whatever is in `place` by a copy of the etcd as it is now.
pub(super) async fn copy(
    source: &Source,
    standing: &Standing,
    place: &Place,
    marker: &mut Marker,
    keys: &Keys,
) -> Result<(), Trouble> {
    marker.phase = Phase::Copying;
    place.write(marker)?;
    place.clear()?;
    fetch(source, place).await?;
    let options = Options {
        source: place.snapshot(),
        source_wal: None,
        other_members: Vec::new(),
        leave_undecided: false,
        data_dir: place.building(),
        skip_hash_check: false,
        // Clients go on where they are.
        bump: Some(0),
        // Requests that are passed on are answered in this name already.
        identity: Some(Identity { cluster_id: standing.cluster_id, member_id: standing.member_id }),
    };
    let keys = keys.clone();
    let restored = tokio::task::spawn_blocking(move || build(&options, &keys)).await;
    let restored = restored.map_err(|error| Trouble::Fatal(error.to_string()))??;
    fs::rename(place.building().join("member"), place.member())?;
    place.sync()?;
    fs::remove_dir_all(place.building())?;
    fs::remove_file(place.snapshot())?;
    marker.phase = Phase::Following;
    place.write(marker)?;
    say(&format!(
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

async fn fetch(source: &Source, place: &Place) -> Result<(), Trouble> {
    let path = place.snapshot();
    let mut file: File =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    let mut stream = source.snapshot().await?;
    let mut ticker = Ticker::new();
    let mut copied = 0;
    while let Some(message) = stream.message().await? {
        file.write_all(&message.blob)?;
        copied += message.blob.len() as u64;
        ticker.tell("migrate: copying", copied, copied + message.remaining_bytes);
    }
    Ok(())
}

/// A snapshot that came incomplete is refused here, by the hash behind it.
fn build(options: &Options, keys: &Keys) -> Result<Restored, Trouble> {
    let mut ticker = Ticker::new();
    let restored = restore::restore_sealed(options, keys, &mut |progress| match progress {
        Progress::Hashing { done, total } => ticker.tell("migrate: checking the copy", done, total),
        // A snapshot has no log to be replayed; it would be progress of the same kind.
        Progress::Importing { done, total } | Progress::Replaying { done, total } => {
            ticker.tell("migrate: loading the copy", done, total);
        }
    });
    restored.map_err(|error| Trouble::Fatal(format!("the copy cannot be used: {error}")))
}
