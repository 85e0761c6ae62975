//! Recovery of a journal from mutated segments: refused, or the same entries every time and a
//! journal that goes on.

use std::path::Path;
use std::sync::Arc;

use vetch_journal::{
    Draft, Entry, Journal, JournalError, Kind, LocalConfig, LocalJournal, LocalReader, MemDisk, PartId, Read,
    Tip,
};

use crate::image;
use crate::repair::{self, Chain};

pub const DIR: &str = "/journal";

pub fn config(is_encrypted: bool) -> LocalConfig {
    let keys = image::keys(is_encrypted);
    LocalConfig { segment_len: 1024, spares: 0, new_journal_id: Some(7), keys, ..LocalConfig::default() }
}

/// The file of a number: segments by the first entry in them, and one spare.
fn name(number: u8) -> String {
    if number == 255 { "spare-1.tmp".to_owned() } else { format!("{:016x}.journal", u64::from(number) + 1) }
}

pub fn run(data: &[u8]) {
    let (flags, mut files) = image::parse(data);
    files.sort_by_key(|(number, _)| *number);
    files.dedup_by_key(|(number, _)| *number);
    let mut chain = Chain::default();
    for (_, content) in &mut files {
        if flags.checksums() || flags.chain() {
            repair::segment(content, flags.chain().then_some(&mut chain));
        }
    }
    let files = files.into_iter().map(|(number, content)| (name(number), content));
    judge(&image::disk(Path::new(DIR), files));
}

fn judge(disk: &MemDisk) {
    let offline = read_offline(disk);
    let Ok((found, mut journal)) = recover(disk) else { return };
    if let Ok(offline) = offline {
        assert!(offline.ends_with(&found), "the offline reader saw the same");
    }
    let mut tip = journal.claim().expect("a recovered journal goes on");
    let mut draft = Draft::new(Kind::Writes);
    draft.begin_part(PartId { partition: 0, owner_epoch: tip.epoch.get(), pseq: tip.seq.get() });
    draft.payload().extend_from_slice(&[7; 600]);
    draft.end_part(1);
    journal.append_batch(&[draft.chain(&mut tip)]).expect("a recovered journal goes on");
    drop(journal);
    let (more, _) = recover(disk).expect("recovered before");
    assert!(more.starts_with(&found) && more.len() == found.len() + 2, "what was found stays");
}

fn recover(disk: &MemDisk) -> Result<(Vec<Entry>, LocalJournal), JournalError> {
    let open =
        || LocalJournal::recover(Arc::new(disk.clone()), Path::new(DIR), config(false), Tip::genesis(2));
    let mut recovery = open()?;
    let mut entries = Vec::new();
    while let Some(item) = recovery.next_entry()? {
        entries.push(item.entry);
    }
    let (journal, _) = recovery.finish()?;
    Ok((entries, journal))
}

fn read_offline(disk: &MemDisk) -> Result<Vec<Entry>, JournalError> {
    let mut reader = LocalReader::open(Arc::new(disk.clone()), Path::new(DIR), None, &image::keys(false))?;
    let mut entries = Vec::new();
    while let Some(item) = reader.next_entry()? {
        entries.push(item.entry);
    }
    Ok(entries)
}
