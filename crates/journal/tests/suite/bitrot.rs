//! Damage at rest: flipped bits, truncated and missing files. Acknowledged entries are all there or
//! recovery is refused with file and offset. Damage by whole sectors is in `sectors`, which has the
//! one exception.

use std::path::PathBuf;
use std::sync::Arc;

use vetch_base::Seq;
use vetch_encryption::EncryptionKeys;
use vetch_journal::{
    Disk, ENTRY_HEADER_LEN, Entry, Fault, Journal, JournalError, LocalConfig, LocalJournal, LocalReader,
    MemDisk, Op, PART_HEADER_LEN, RECORD_HEADER_LEN, Read, Recovery, SECTOR,
};

use crate::support::{append, dir, fresh, genesis, noise, path, recover, tiny};

pub(crate) struct Image {
    pub(crate) disk: MemDisk,
    pub(crate) entries: Vec<Entry>,
    pub(crate) segments: Vec<PathBuf>,
}

/// Five segments; payloads with runs of zeros longer than sectors, in the middle and in the last
/// record; and in the last segment a record of two sectors before the last one.
pub(crate) fn image() -> Image {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    append(&mut journal, &[noise(1, 300), noise(2, 10)]).expect("no faults");
    append(&mut journal, &[[noise(3, 100), vec![0; 1200], noise(4, 50)].concat()]).expect("no faults");
    append(&mut journal, &[noise(5, 600)]).expect("no faults");
    append(&mut journal, &[[noise(6, 500), vec![0; 1100], noise(7, 20)].concat()]).expect("no faults");
    append(&mut journal, &[noise(8, 600)]).expect("no faults");
    append(&mut journal, &[[noise(9, 30), vec![0; 850]].concat()]).expect("no faults");
    drop(journal);
    let (entries, _, _) = recover(&disk, genesis()).expect("no faults");
    let segments: Vec<PathBuf> =
        disk.files().into_keys().filter(|path| path.extension() == Some("journal".as_ref())).collect();
    assert_eq!((segments.len(), entries.len()), (5, 8));
    Image { disk, entries, segments }
}

/// Bytes of a segment by what they are: true where a record's header or payload lies.
fn meaning(content: &[u8]) -> Vec<bool> {
    let mut meaningful = vec![false; content.len()];
    let mut at = 0;
    while at < content.len() && content[at..at + 4] == *b"VJRN" {
        let len = u32::from_le_bytes(content[at + 28..at + 32].try_into().expect("four bytes")) as usize;
        let end = at + RECORD_HEADER_LEN + len;
        meaningful[at..end].fill(true);
        at = end.next_multiple_of(SECTOR);
    }
    meaningful
}

#[test]
fn every_flipped_bit_is_refused_or_harmless() {
    let image = image();
    let (mut refused, mut harmless) = (0, 0);
    for segment in &image.segments {
        let content = image.disk.content(segment).expect("it exists");
        let meaningful = meaning(&content);
        for (byte, is_meaningful) in meaningful.into_iter().enumerate() {
            for bit in 0..8 {
                let disk = image.disk.process_exit();
                disk.flip_bit(segment, byte as u64, bit);
                let what = format!("{} byte {byte} bit {bit}", segment.display());
                match recover(&disk, genesis()) {
                    Err(JournalError::Corrupt(corrupt)) => {
                        assert!(segment.ends_with(&corrupt.file), "{what}: blamed {corrupt}");
                        refused += 1;
                    }
                    Err(other) => panic!("{what}: {other}"),
                    Ok((entries, _, _)) => {
                        assert!(!is_meaningful, "{what}: a flipped bit of a record went undetected");
                        assert_eq!(entries, image.entries, "{what}");
                        harmless += 1;
                    }
                }
            }
        }
    }
    assert!(refused > 10_000 && harmless > 1000, "{refused} refused, {harmless} harmless");
}

#[test]
fn a_truncated_segment_is_refused() {
    let image = image();
    for segment in &image.segments {
        let content = image.disk.content(segment).expect("it exists");
        for len in (0..content.len()).step_by(SECTOR / 2) {
            let disk = image.disk.process_exit();
            disk.overwrite(segment, &content[..len]);
            let error = recover(&disk, genesis())
                .err()
                .unwrap_or_else(|| panic!("{} cut to {len}", segment.display()));
            assert!(matches!(error, JournalError::Corrupt(_)), "{error}");
        }
    }
}

#[test]
fn a_missing_segment_is_refused() {
    let image = image();
    for segment in &image.segments[..image.segments.len() - 1] {
        let disk = image.disk.process_exit();
        disk.remove(segment).expect("it exists");
        let error = recover(&disk, genesis()).err().expect("entries are missing");
        assert!(matches!(error, JournalError::Corrupt(_)), "{error}");
    }
}

#[test]
fn a_lost_last_record_is_seen_when_an_empty_segment_waits_for_the_entry_after_it() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    append(&mut journal, &[noise(1, 1300)]).expect("fills the segment");
    journal.maintenance().run().expect("space");
    disk.inject(Fault::FailNext(Op::Write, std::io::ErrorKind::Other));
    append(&mut journal, &[noise(2, 10)]).expect_err("the new segment stays empty");
    drop(journal);
    let disk = disk.process_exit();
    let mut content = disk.content(&path("0000000000000001.journal")).expect("it exists");
    content[512..].fill(0);
    disk.overwrite(&path("0000000000000001.journal"), &content);
    let error = recover(&disk, genesis()).err().expect("entry 2 is lost");
    assert!(error.to_string().contains("records end at entry 1 but the next segment"), "{error}");
}

/// The first records of a journal with the same content under another identity.
fn first_segment_of_another_journal() -> Vec<u8> {
    let disk = MemDisk::new();
    let config = LocalConfig { new_journal_id: Some(99), ..tiny() };
    let recovery = LocalJournal::recover(Arc::new(disk.clone()), &dir(), config, genesis());
    let (mut journal, _) = recovery.and_then(Recovery::finish).expect("an empty directory");
    journal.claim().expect("no faults");
    append(&mut journal, &[noise(1, 300)]).expect("no faults");
    disk.content(&path("0000000000000001.journal")).expect("it exists")
}

#[test]
fn a_record_of_another_journal_is_refused_even_if_it_would_fit() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    append(&mut journal, &[noise(1, 300)]).expect("no faults");
    drop(journal);
    let segment = path("0000000000000001.journal");
    let mut content = disk.content(&segment).expect("it exists");
    content[512..1024].copy_from_slice(&first_segment_of_another_journal()[512..1024]);
    disk.overwrite(&segment, &content);
    let error = recover(&disk, genesis()).err().expect("a stranger");
    assert!(error.to_string().contains("belongs to another journal"), "{error}");
}

#[test]
fn a_torn_write_that_carries_a_stored_copy_of_a_journal_is_still_torn() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let at_a_sector = 512 - RECORD_HEADER_LEN - ENTRY_HEADER_LEN - PART_HEADER_LEN;
    let copy = first_segment_of_another_journal()[512..1024].to_vec();
    append(&mut journal, &[[noise(1, at_a_sector), copy].concat()]).expect("no faults");
    drop(journal);
    let segment = path("0000000000000001.journal");
    let mut content = disk.content(&segment).expect("it exists");
    assert_eq!(content[1024..1028], *b"VJRN", "the copy lies where a record could begin");
    content[512..1024].fill(0);
    disk.overwrite(&segment, &content);
    let (entries, _, report) = recover(&disk, genesis()).expect("only torn");
    assert_eq!((entries.len(), report.cut.map(|cut| cut.offset)), (1, Some(1024)));
}

#[test]
fn an_unreadable_sector_is_named() {
    let image = image();
    let disk = image.disk.process_exit();
    disk.inject(Fault::UnreadableRange(image.segments[0].clone(), 600..601));
    match recover(&disk, genesis()).err() {
        Some(JournalError::Corrupt(corrupt)) => {
            assert_eq!((corrupt.file.as_str(), corrupt.offset), ("0000000000000001.journal", 512));
            assert!(corrupt.reason.starts_with("cannot be read"), "{}", corrupt.reason);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn refusal_says_where_what_and_what_next() {
    let image = image();
    let disk = image.disk.process_exit();
    disk.flip_bit(&path("0000000000000001.journal"), 600, 3);
    let error = recover(&disk, genesis()).err().expect("damaged").to_string();
    expect_test::expect![[r#"
        the journal is damaged: 0000000000000001.journal at byte 512: the payload of a record does not match its checksum. Nothing was changed. Keep a copy of the directory, check the disk, then restore from a backup or a healthy copy; do not delete journal files to get past this, they hold acknowledged writes"#]]
    .assert_eq(&error);
    assert_eq!(disk.pending(), [], "a refusal changes nothing");
}

#[test]
fn offline_reader_sees_the_torn_tail_and_leaves_it() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    append(&mut journal, &[noise(1, 1200)]).expect("no faults");
    drop(journal);
    let segment = path("0000000000000001.journal");
    let mut content = disk.content(&segment).expect("it exists");
    content[1024..1536].fill(0);
    disk.overwrite(&segment, &content);
    let mut reader =
        LocalReader::open(Arc::new(disk.clone()), &dir(), None, &EncryptionKeys::none()).expect("readable");
    assert_eq!(reader.next_entry().expect("intact").map(|item| item.entry.seq), Some(Seq::FIRST));
    assert!(reader.next_entry().expect("only torn").is_none());
    let torn = reader.torn_tail().expect("torn");
    assert_eq!((torn.offset, torn.bytes), (512, 1536));
    assert_eq!(torn.reason, "1 sectors of the last write are missing");
    assert_eq!(disk.content(&segment).expect("it exists"), content);
}
