//! Prune: forgetting what no promise covers any more.
//!
//! What is promised is a time span: every point in it, of what was archived, can be restored. For
//! that the newest full backup from before the span has to stay, with everything behind it. Full
//! backups go first, then chunks, then files, so that an interruption at any point leaves nothing
//! that seems restorable and is not.

use std::collections::HashSet;
use std::time::Duration;

use crate::catalog::{Catalog, Timeline};
use crate::depot::Depot;
use crate::error::BackupError;
use crate::format::{ChunkInfo, Name, chunk_name, file_name, full_name};
use vetch_base::Seq;

/// A file that no full backup names may belong to one that is being made, so it is left alone when
/// it is younger.
const UNNAMED: Duration = Duration::from_secs(24 * 3600);

/// What must stay restorable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Every point that is not older than this.
    pub span: Duration,
    /// And at least so many full backups of a journal.
    pub fulls: usize,
}

/// What went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    pub fulls: usize,
    pub chunks: usize,
    pub files: usize,
    pub bytes: u64,
}

/// Removes what `keep` does not cover, of one journal or of all; with `dry`, only counts it.
pub fn prune(
    depot: &Depot,
    journal: Option<&str>,
    keep: Keep,
    now: u64,
    dry: bool,
) -> Result<Pruned, BackupError> {
    let catalog = Catalog::read(depot)?;
    let mut pruned = Pruned::default();
    for timeline in catalog.timelines.iter().filter(|t| journal.is_none_or(|id| t.journal == id)) {
        prune_timeline(depot, timeline, keep, now, dry, &mut pruned)?;
    }
    Ok(pruned)
}

fn prune_timeline(
    depot: &Depot,
    timeline: &Timeline,
    keep: Keep,
    now: u64,
    dry: bool,
    pruned: &mut Pruned,
) -> Result<(), BackupError> {
    let Some(oldest_kept) = oldest_kept(timeline, keep, now) else { return Ok(()) };
    let (gone, kept) = timeline.fulls.split_at(oldest_kept);
    let base = kept.first().expect("at least one stays").seq;
    for full in gone {
        pruned.fulls += 1;
        remove(depot, &full_name(&timeline.journal, full.seq), dry)?;
    }
    for chunk in timeline.unreachable(base) {
        pruned.chunks += 1;
        pruned.bytes += chunk.size;
        remove(depot, &chunk_name(&timeline.journal, chunk.first_seq), dry)?;
    }
    let named: HashSet<String> = (kept.iter())
        .flat_map(|full| &full.files)
        .map(|file| file_name(&timeline.journal, &file.hash, &file.name))
        .collect();
    let was_named: HashSet<String> = (gone.iter())
        .flat_map(|full| &full.files)
        .map(|file| file_name(&timeline.journal, &file.hash, &file.name))
        .collect();
    for file in depot.list(Some(&format!("{}/files", timeline.journal)))? {
        let is_ours = matches!(Name::parse(&file.name), Some(Name::File { .. }));
        // A full backup that is damaged may name it as well; by hand that could still be of use.
        let is_forgotten = now.saturating_sub(file.modified) > millis(UNNAMED) && timeline.damage.is_empty();
        let is_old = is_forgotten || was_named.contains(&file.name);
        if is_ours && !named.contains(&file.name) && is_old {
            pruned.files += 1;
            pruned.bytes += file.size;
            remove(depot, &file.name, dry)?;
        }
    }
    Ok(())
}

/// The place of the oldest full backup that stays. None: none goes.
fn oldest_kept(timeline: &Timeline, keep: Keep, now: u64) -> Option<usize> {
    let from = now.saturating_sub(millis(keep.span));
    let before_span = timeline.fulls.iter().rposition(|full| full.time <= from)?;
    let enough = timeline.fulls.len().checked_sub(keep.fulls.max(1))?;
    Some(before_span.min(enough)).filter(|&index| index > 0 || timeline.has_unreachable())
}

impl Timeline {
    /// Whether there are chunks from before the first full backup, which an interrupted removal
    /// leaves.
    fn has_unreachable(&self) -> bool {
        self.fulls.first().is_some_and(|full| self.unreachable(full.seq).next().is_some())
    }

    /// Chunks that nothing from entry `base` on needs. The segment that goes on behind it is read
    /// from its beginning.
    fn unreachable(&self, base: Seq) -> impl Iterator<Item = &ChunkInfo> {
        let goes_on = self.chunks.iter().find(|chunk| chunk.last_seq > base).or(self.chunks.last());
        let segment = goes_on.map_or(Seq::ZERO, |chunk| chunk.segment);
        self.chunks.iter().filter(move |chunk| chunk.last_seq <= base && chunk.segment < segment)
    }
}

fn remove(depot: &Depot, name: &str, dry: bool) -> Result<(), BackupError> {
    if dry { Ok(()) } else { depot.remove(name) }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
