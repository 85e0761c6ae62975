//! Values that look like records. A client chooses what is in a payload, and so what a torn write
//! leaves behind.

use vetch_journal::{Journal, MemDisk, SECTOR, Tip};

use crate::support::{append, fresh, genesis, noise, path, recover};

/// An intact header as a client could write it, who knows everything but the journal's id.
fn forged_header(version: u16) -> Vec<u8> {
    let mut header = vec![0; 48];
    header[0..4].copy_from_slice(b"VJRN");
    header[4..6].copy_from_slice(&version.to_le_bytes());
    header[8..16].copy_from_slice(&0xbad_u64.to_le_bytes());
    header[16..24].copy_from_slice(&5_u64.to_le_bytes());
    header[24] = 1;
    header[40] = 4;
    let crc = crc32c::crc32c(&header[..44]);
    header[44..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// A payload that has `forged` at the beginning of a sector once it is written, and fills that
/// sector and the one before it.
fn aimed(forged: &[u8]) -> Vec<u8> {
    let payload = |before: usize| [noise(1, before), forged.to_vec(), noise(2, 300)].concat();
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let name = "0000000000000001.journal";
    append(&mut journal, &[payload(0)]).expect("nothing fails here");
    let content = disk.content(&path(name)).expect("nothing fails here");
    let at =
        (SECTOR..content.len()).find(|&at| content[at..].starts_with(forged)).expect("nothing fails here");
    payload(SECTOR - at % SECTOR)
}

/// Loses the first sector of the record that begins at `at`, as a power loss during its write may.
fn tear(disk: &MemDisk, name: &str, at: usize, forged: &[u8]) {
    let mut content = disk.content(&path(name)).expect("nothing fails here");
    assert!(content[at..].starts_with(b"VJRN") && content[at + SECTOR..].starts_with(forged));
    content[at..at + SECTOR].fill(0);
    disk.overwrite(&path(name), &content);
}

/// Of a version that this one does not know, too: which journal it is of says the same place in
/// every version.
#[test]
fn a_torn_write_of_a_value_like_a_header_is_cut() {
    for version in [1, 2, 3, 9] {
        let forged = forged_header(version);
        let disk = MemDisk::new();
        let mut journal = fresh(&disk);
        append(&mut journal, &[aimed(&forged)]).expect("nothing fails here");
        drop(journal);
        tear(&disk, "0000000000000001.journal", SECTOR, &forged);
        let (entries, _, report) =
            recover(&disk, genesis()).unwrap_or_else(|error| panic!("{version}: {error}"));
        assert_eq!((entries.len(), report.cut.is_some()), (1, true), "version {version}");
    }
}

/// The same in a new segment, with a checkpoint right before it: the journal's id is known from the
/// segment before.
#[test]
fn so_is_one_at_the_beginning_of_a_segment() {
    for version in [1, 3] {
        let forged = forged_header(version);
        let (disk, before) = with_a_record_in_a_new_segment(&aimed(&forged));
        tear(&disk, "0000000000000003.journal", 0, &forged);
        let (entries, _, report) =
            recover(&disk, before).unwrap_or_else(|error| panic!("{version}: {error}"));
        assert_eq!((entries.len(), report.cut.is_some()), (0, true), "version {version}");
    }
}

/// What is appended behind a torn beginning belongs to the same journal as what lies before it.
#[test]
fn a_journal_keeps_its_id_when_its_last_segment_begins_anew() {
    let (disk, before) = with_a_record_in_a_new_segment(&noise(3, 600));
    let name = "0000000000000003.journal";
    let len = disk.content(&path(name)).expect("nothing fails here").len();
    disk.overwrite(&path(name), &vec![0; len]);
    let config = vetch_journal::LocalConfig { new_journal_id: None, ..crate::support::tiny() };
    let disks = std::sync::Arc::new(disk.clone());
    let recovery = vetch_journal::LocalJournal::recover(disks, &crate::support::dir(), config, before)
        .expect("nothing fails here");
    let (mut journal, _) = recovery.finish().expect("nothing fails here");
    journal.claim().expect("nothing fails here");
    append(&mut journal, &[noise(4, 10)]).expect("nothing fails here");
    drop(journal);
    let (entries, _, _) = recover(&disk, genesis()).expect("nothing fails here");
    assert_eq!(entries.len(), 4);
}

/// A journal whose third entry is alone in the second segment, and the tip before it.
fn with_a_record_in_a_new_segment(payload: &[u8]) -> (MemDisk, Tip) {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    append(&mut journal, &[noise(5, 1000)]).expect("nothing fails here");
    let before = *journal.tip();
    append(&mut journal, &[payload.to_vec()]).expect("nothing fails here");
    assert_eq!(journal.segments(), 2);
    (disk, before)
}
