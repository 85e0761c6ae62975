//! A small journal on a `MemDisk`, and how to fill and read it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_journal::{
    ChainedEntry, Draft, Entry, Journal, JournalError, Kind, LocalConfig, LocalJournal, MemDisk, PartId,
    RecoveryReport, Tip,
};
use vetch_testkit::random::Rng;

/// Says a line that is seen even when the test passes.
macro_rules! tell {
    ($($line:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($line)*);
    }};
}
pub(crate) use tell;

pub(crate) const DIR: &str = "/data/journal";

pub(crate) fn dir() -> PathBuf {
    PathBuf::from(DIR)
}

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// Segments of four sectors, so that a handful of appends rolls.
pub(crate) fn tiny() -> LocalConfig {
    LocalConfig { segment_len: 2048, new_journal_id: Some(0x1122_3344_5566_7788), ..LocalConfig::default() }
}

pub(crate) fn genesis() -> Tip {
    Tip::genesis(2)
}

/// Recovers from `start`: the entries behind it, the journal and the report.
pub(crate) fn recover(
    disk: &MemDisk,
    start: Tip,
) -> Result<(Vec<Entry>, LocalJournal, RecoveryReport), JournalError> {
    let mut recovery = LocalJournal::recover(Arc::new(disk.clone()), &dir(), tiny(), start)?;
    let mut entries = Vec::new();
    while let Some(item) = recovery.next_entry()? {
        assert_eq!(item.position.0, item.entry.seq.get());
        entries.push(item.entry);
    }
    let (journal, report) = recovery.finish()?;
    assert_eq!(report.entries, entries.len() as u64);
    Ok((entries, journal, report))
}

/// A fresh journal, claimed.
pub(crate) fn fresh(disk: &MemDisk) -> LocalJournal {
    let (entries, mut journal, _) = recover(disk, genesis()).expect("an empty directory is a journal");
    assert!(entries.is_empty());
    journal.claim().expect("nothing fails yet");
    journal
}

/// An entry of one part on `tip`, with `count` write units.
pub(crate) fn writes(tip: &mut Tip, count: u32, payload: &[u8]) -> ChainedEntry {
    let mut draft = Draft::with_capacity(Kind::Writes, payload.len());
    draft.begin_part(PartId { partition: 7, owner_epoch: tip.epoch.get(), pseq: tip.seq.get() });
    draft.payload().extend_from_slice(payload);
    draft.end_part(count);
    draft.chain(tip)
}

/// A batch of entries, one per payload, behind the journal's tip.
pub(crate) fn batch(journal: &LocalJournal, payloads: &[Vec<u8>]) -> Vec<ChainedEntry> {
    let mut tip = *journal.tip();
    payloads.iter().map(|payload| writes(&mut tip, 1, payload)).collect()
}

pub(crate) fn append(journal: &mut LocalJournal, payloads: &[Vec<u8>]) -> Result<Vec<Entry>, JournalError> {
    let chained = batch(journal, payloads);
    journal.append_batch(&chained)?;
    Ok(decoded(&chained))
}

pub(crate) fn decoded(chained: &[ChainedEntry]) -> Vec<Entry> {
    chained.iter().map(|entry| Entry::decode(entry.bytes()).expect("chained entries decode")).collect()
}

/// Bytes without a zero, different for every seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::split_mix(seed);
    (0..len).map(|_| (rng.draw() % 255) as u8 + 1).collect()
}
