//! Golden: the bytes of a small journal and the constants of the layout. A difference here is a
//! change of the format on disk: it needs a new version number, a reader for the old one, and
//! docs/format.md.

use std::fmt::Write;
use std::sync::Arc;

use expect_test::expect_file;
use vetch_base::{Epoch, Seq};
use vetch_encryption::EncryptionKeys;
use vetch_journal::{
    ENCRYPTED_RECORD_VERSION, ENTRY_HEADER_LEN, ENTRY_VERSION, Journal, Kind, LocalConfig, LocalJournal,
    MAX_ENTRY_LEN, MemDisk, PART_HEADER_LEN, RECORD_HEADER_LEN, RECORD_VERSION, REF_LEN, SECTOR,
    SHARED_WRITE, Tip,
};

use crate::encryption::{KEYS, ring};
use crate::support::{dir, fresh, genesis, recover, tiny, writes};
use crate::vote::with_votes;

#[test]
fn the_format_is_frozen() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let mut tip = *journal.tip();
    let chained = [writes(&mut tip, 2, b"first payload, two units"), writes(&mut tip, 1, b"second")];
    journal.append_batch(&chained).expect("no faults");
    // A payload with a sector of zeros in the middle, so that the count of them shows.
    let zeros = [&[0xaa; 600][..], &[0; 1024], &[0xbb; 4]].concat();
    let chained = [writes(&mut tip, 1, &zeros)];
    journal.append_batch(&chained).expect("rolls");
    drop(journal);
    let mut text = constants();
    for (path, content) in disk.files() {
        writeln!(text, "\n{} ({} bytes)", path.display(), content.len()).expect("to memory");
        dump(&mut text, &content);
    }
    expect_file!["../../testdata/journal-v1.txt"].assert_eq(&text);
    assert_eq!(recover(&disk, genesis()).expect("intact").0.len(), 4);
}

/// A plain record, then encrypted ones in a segment of their own.
#[test]
fn the_format_of_encrypted_records_is_frozen() {
    let (disk, keys) = (MemDisk::new(), EncryptionKeys::repeatable_for_tests(ring(&["plain", KEYS[0]])));
    let config = || LocalConfig { keys: keys.clone(), ..tiny() };
    let start =
        || LocalJournal::recover(Arc::new(disk.clone()), &dir(), config(), genesis()).expect("intact");
    let (mut journal, _) = start().finish().expect("an empty directory");
    journal.claim().expect("no faults");
    keys.replace(ring(&KEYS[..1]));
    let mut tip = *journal.tip();
    for payload in [&b"first payload"[..], &[0; 1024]] {
        journal.append_batch(&[writes(&mut tip, 1, payload)]).expect("no faults");
    }
    drop(journal);
    let mut text = format!("record version {ENCRYPTED_RECORD_VERSION}\n");
    for (path, content) in disk.files() {
        writeln!(text, "\n{} ({} bytes)", path.display(), content.len()).expect("to memory");
        dump(&mut text, &content);
    }
    expect_file!["../../testdata/journal-v2.txt"].assert_eq(&text);
    assert_eq!(start().finish().expect("intact").1.entries, 3);
}

/// Records of one write, plain and encrypted.
#[test]
fn the_format_of_records_in_one_write_is_frozen() {
    let (disk, keys) = (MemDisk::new(), EncryptionKeys::repeatable_for_tests(ring(&["plain", KEYS[0]])));
    let config = || LocalConfig { keys: keys.clone(), ..tiny() };
    let start =
        || LocalJournal::recover(Arc::new(disk.clone()), &dir(), config(), genesis()).expect("intact");
    let (mut journal, _) = start().finish().expect("an empty directory");
    let mut tip = *journal.tip();
    for _ in 0..2 {
        let chained = [writes(&mut tip, 1, b"first payload"), writes(&mut tip, 2, &[0xaa; 400])];
        journal.append_replicated(&chained, Seq::ZERO).expect("no faults");
        keys.replace(ring(&KEYS[..1]));
    }
    drop(journal);
    let mut text = format!("added to the version of a record that shares a write: {SHARED_WRITE}\n");
    for (path, content) in disk.files() {
        writeln!(text, "\n{} ({} bytes)", path.display(), content.len()).expect("to memory");
        dump(&mut text, &content);
    }
    expect_file!["../../testdata/journal-v3.txt"].assert_eq(&text);
    assert_eq!(start().finish().expect("intact").1.entries, 4);
}

/// The vote, and where a journal begins anew.
#[test]
fn the_small_files_of_a_member_are_frozen() {
    let votes = with_votes(1);
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let tip = Tip { epoch: Epoch::new(5), seq: Seq::new(0x1234), hash: [0xab; 32], next_rev: 0x77 };
    journal.announce_begin(tip).expect("no faults");
    let files = votes.files().into_iter().chain(disk.files());
    let mut text = String::new();
    for (path, content) in files.filter(|(path, _)| path.extension().is_none()) {
        writeln!(text, "{} ({} bytes)", path.display(), content.len()).expect("to memory");
        dump(&mut text, &content);
    }
    expect_file!["../../testdata/member-v1.txt"].assert_eq(&text);
}

fn constants() -> String {
    let kinds: Vec<String> =
        (0..=u8::MAX).filter_map(|n| Some(format!("{n} {:?}", Kind::from_number(n)?))).collect();
    format!(
        "record version {RECORD_VERSION}, header {RECORD_HEADER_LEN}, sector {SECTOR}\n\
         entry version {ENTRY_VERSION}, header {ENTRY_HEADER_LEN}, part header {PART_HEADER_LEN}, reference {REF_LEN}, \
         longest {MAX_ENTRY_LEN}\n\
         kinds: {}\n\
         default segment {}\n",
        kinds.join(", "),
        LocalConfig::default().segment_len,
    )
}

/// Sixteen bytes a line; repeated lines as one star.
fn dump(text: &mut String, content: &[u8]) {
    let mut last: Option<&[u8]> = None;
    let mut starred = false;
    for (n, line) in content.chunks(16).enumerate() {
        if last == Some(line) {
            if !starred {
                text.push_str("*\n");
            }
            starred = true;
            continue;
        }
        (last, starred) = (Some(line), false);
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{:08x}  {}", n * 16, hex.join(" ")).expect("to memory");
    }
}
