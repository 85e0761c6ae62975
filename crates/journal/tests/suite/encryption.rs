//! Encrypted records: what they hide, what they withstand, and keys that come and go.

use std::sync::Arc;

use vetch_encryption::{EncryptionKeys, KeyError, KeyId, KeyRing};
use vetch_journal::{
    Entry, Journal, JournalError, LocalConfig, LocalJournal, MemDisk, Position, RecoveryReport, Tip,
};

use crate::support::{append, dir, genesis, noise, tiny};

/// Made for these tests and used for nothing else.
pub(crate) const KEYS: [&str; 2] =
    ["a AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "b ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pv8="];

/// A ring of these lines, whose ciphertexts look the same every time.
pub(crate) fn ring(lines: &[&str]) -> KeyRing {
    KeyRing::parse(&lines.join("\n")).expect("a sound ring")
}

fn keys(lines: &[&str]) -> EncryptionKeys {
    EncryptionKeys::repeatable_for_tests(ring(lines))
}

fn id(name: &str) -> KeyId {
    KeyId::new(name).expect("a name")
}

type Recovered = (Vec<Entry>, LocalJournal, RecoveryReport);

fn recover(disk: &MemDisk, keys: &EncryptionKeys, start: Tip) -> Result<Recovered, JournalError> {
    let config = LocalConfig { keys: keys.clone(), ..tiny() };
    let mut recovery = LocalJournal::recover(Arc::new(disk.clone()), &dir(), config, start)?;
    let mut entries = Vec::new();
    while let Some(item) = recovery.next_entry()? {
        entries.push(item.entry);
    }
    let (journal, report) = recovery.finish()?;
    Ok((entries, journal, report))
}

fn begin(disk: &MemDisk, keys: &EncryptionKeys) -> LocalJournal {
    let (_, mut journal, _) = recover(disk, keys, genesis()).expect("it opens");
    journal.claim().expect("no faults");
    journal
}

fn found(disk: &MemDisk, keys: &EncryptionKeys) -> Result<Vec<Entry>, JournalError> {
    recover(&disk.process_exit(), keys, genesis()).map(|(entries, _, _)| entries)
}

/// Journals hold what was written, and it cannot be read without the key.
#[test]
fn a_payload_is_nowhere_to_be_seen_and_comes_back() {
    let (disk, keys) = (MemDisk::new(), keys(&KEYS[..1]));
    let mut journal = begin(&disk, &keys);
    let secret = b"the marker that must not be found anywhere".to_vec();
    append(&mut journal, &[secret.clone(), vec![0; 2000]]).expect("no faults");
    append(&mut journal, std::slice::from_ref(&secret)).expect("no faults");
    drop(journal);
    for (path, content) in disk.files() {
        assert!(!content.windows(10).any(|piece| secret.windows(10).any(|part| part == piece)), "{path:?}");
        // Zeros are encrypted as well.
        let records = content.chunks(512).filter(|sector| sector.starts_with(b"VJRN")).count();
        assert!(records == 0 || content.windows(64).filter(|piece| *piece == [0; 64]).count() < 2048);
    }
    assert_eq!(found(&disk, &keys).expect("intact").len(), 4);
}

#[test]
fn a_missing_and_a_wrong_key_are_refused_by_name_and_nothing_is_changed() {
    let disk = MemDisk::new();
    let mut journal = begin(&disk, &keys(&KEYS[..1]));
    append(&mut journal, &[noise(1, 40)]).expect("no faults");
    drop(journal);
    let renamed = KEYS[1].replace("b ", "a ");
    let cases = [
        (EncryptionKeys::none(), KeyError::NoKeys { id: id("a") }),
        (keys(&KEYS[1..]), KeyError::Missing { id: id("a"), given: "b".into() }),
        (keys(&[&renamed]), KeyError::Wrong { id: id("a") }),
    ];
    for (keys, expected) in cases {
        let files = disk.files();
        let Err(JournalError::Key { file, offset, source }) = found(&disk, &keys) else {
            panic!("{expected}")
        };
        assert_eq!((file.as_str(), offset, source), ("0000000000000001.journal", 0, expected));
        assert_eq!(disk.files(), files);
    }
}

#[test]
fn keys_come_and_go_and_each_change_begins_a_segment() {
    let (disk, keys) = (MemDisk::new(), EncryptionKeys::none());
    let mut journal = begin(&disk, &keys);
    let mut written = append(&mut journal, &[noise(1, 40)]).expect("plain");
    let rings = [vec![KEYS[0]], vec![KEYS[1], KEYS[0]], vec!["plain", KEYS[0], KEYS[1]]];
    for (n, lines) in rings.iter().enumerate() {
        keys.replace(ring(lines));
        let segments = journal.segments();
        written.extend(append(&mut journal, &[noise(n as u64 + 2, 40)]).expect("no faults"));
        written.extend(append(&mut journal, &[noise(n as u64 + 7, 40)]).expect("no faults"));
        assert_eq!(journal.segments(), segments + 1, "one more for the new key, and only one");
    }
    let counts: Vec<_> = journal.segments_by_key().into_iter().collect();
    assert_eq!(counts, [(None, 2), (Some(id("a")), 1), (Some(id("b")), 1)]);
    let mut read = journal.read(genesis()).expect("open");
    let mut live = Vec::new();
    while let Some(item) = read.next_entry().expect("intact") {
        live.push(item.entry);
    }
    drop(read);
    assert_eq!(live[1..], written, "the open journal reads all of it");
    drop(journal);
    assert_eq!(found(&disk, &keys).expect("intact")[1..], written);
    let (_, mut journal, _) = recover(&disk, &keys, genesis()).expect("intact");
    assert_eq!(journal.segments_by_key().into_iter().collect::<Vec<_>>(), counts, "also after a restart");
    journal.retire(Position(journal.tip().seq.next().get())).expect("no faults");
    let now: Vec<_> = journal.segments_by_key().into_iter().collect();
    assert_eq!(now, counts, "files that are still there count");
    assert_eq!(journal.maintenance().run().expect("no faults").removed, 3);
    assert_eq!(journal.segments_by_key().into_iter().collect::<Vec<_>>(), [(None, 1)]);
    let tip = *journal.tip();
    drop(journal);
    assert!(recover(&disk, &EncryptionKeys::none(), tip).is_ok(), "nothing needs a key any more");
}

/// Without any append, so that an idle server can get rid of a key; and the empty segment that this
/// leaves may prove too small.
#[test]
fn a_journal_follows_its_keys_before_anything_is_written() {
    let (disk, keys) = (MemDisk::new(), keys(&KEYS[..1]));
    let mut journal = begin(&disk, &keys);
    assert!(!journal.follow_keys().expect("nothing to do"));
    for (n, lines) in [[KEYS[1], KEYS[0]], [KEYS[0], KEYS[1]]].iter().enumerate() {
        keys.replace(ring(lines));
        assert_eq!(journal.follow_keys().expect("no faults"), n == 0, "an empty segment suits every key");
        assert!(!journal.follow_keys().expect("no faults"));
    }
    assert_eq!((journal.segments(), journal.room()), (2, 2048));
    // The process may end here.
    assert_eq!(found(&disk, &keys).expect("intact").len(), 1);
    append(&mut journal, &[noise(1, 5000)]).expect("a larger segment takes the place of the empty one");
    append(&mut journal, &[noise(2, 50)]).expect("no faults");
    assert_eq!(journal.segments(), 3);
    drop(journal);
    assert_eq!(found(&disk, &keys).expect("intact").len(), 3);
}

/// What is judged torn or damaged does not depend on keys, and no flipped bit is ever read.
#[test]
fn every_flipped_bit_of_an_encrypted_journal_is_refused_with_the_same_words_with_and_without_the_key() {
    let (disk, keys) = (MemDisk::new(), keys(&KEYS[..1]));
    let mut journal = begin(&disk, &keys);
    for n in 0..4 {
        append(&mut journal, &[noise(n, 300), vec![0; 300]]).expect("no faults");
    }
    drop(journal);
    let whole = found(&disk, &keys).expect("intact");
    let (mut refused, mut harmless) = (0, 0);
    for (path, content) in
        disk.files().into_iter().filter(|(path, _)| path.extension() == Some("journal".as_ref()))
    {
        for byte in 0..content.len() as u64 {
            let broken = disk.process_exit();
            broken.flip_bit(&path, byte, (byte % 8) as u8);
            match found(&broken, &keys) {
                Ok(entries) => {
                    assert_eq!(entries, whole, "byte {byte} of {path:?}");
                    harmless += 1;
                }
                Err(JournalError::Corrupt(damage)) => {
                    refused += 1;
                    match found(&broken, &EncryptionKeys::none()) {
                        // An earlier record needs the key before the damage is reached.
                        Err(JournalError::Key { file, offset, .. }) => {
                            assert!((file, offset) < (damage.file, damage.offset), "byte {byte} of {path:?}");
                        }
                        Err(JournalError::Corrupt(same)) => assert_eq!(same, damage),
                        other => panic!("byte {byte} of {path:?}: {other:?}"),
                    }
                }
                Err(other) => panic!("byte {byte} of {path:?}: {other}"),
            }
        }
    }
    assert!(refused > 3000 && harmless > 100, "{refused} refused, {harmless} harmless");
}

/// An attacker who can write to the disk can make checksums fit, but not authentication tags.
#[test]
fn a_record_that_was_moved_or_made_to_fit_does_not_decrypt() {
    let (disk, keys) = (MemDisk::new(), keys(&KEYS[..1]));
    let mut journal = begin(&disk, &keys);
    append(&mut journal, &[noise(1, 100)]).expect("no faults");
    drop(journal);
    let path = dir().join("0000000000000001.journal");
    type Edit = fn(&mut [u8]);
    let edits: [(&str, Edit); 4] = [
        ("another journal", |content| {
            content[8] ^= 1;
            content[512 + 8] ^= 1;
        }),
        ("another count of entries", |content| content[512 + 24] += 1),
        ("another salt", |content| content[512 + 80] ^= 1),
        ("another byte", |content| content[512 + 120] ^= 1),
    ];
    for (what, edit) in edits {
        let forged = disk.process_exit();
        let mut content = forged.content(&path).expect("it exists");
        edit(&mut content);
        [0, 512].iter().for_each(|&at| fix(&mut content[at..]));
        forged.overwrite(&path, &content);
        match found(&forged, &keys) {
            Err(JournalError::Corrupt(damage)) => {
                assert!(damage.reason.contains("altered"), "{what}: {damage}")
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    // Another name, and another first entry in every header to go with it.
    let forged = disk.process_exit();
    let content = forged.content(&path).expect("it exists");
    let moved = MemDisk::new();
    let journal = begin(&moved, &keys);
    drop(journal);
    let mut target = moved.content(&path).expect("it exists");
    target[512..1024].copy_from_slice(&content[512..1024]);
    target[1024..1536].copy_from_slice(&content[512..1024]);
    target[1024 + 16] += 1;
    fix(&mut target[1024..]);
    moved.overwrite(&path, &target);
    let Err(JournalError::Corrupt(damage)) = found(&moved, &keys) else {
        panic!("a repeated record was read")
    };
    assert_eq!(damage.offset, 1024, "the copy in its old place is the same record, the one behind it is not");
}

/// Makes both checksums of the record fit again.
fn fix(record: &mut [u8]) {
    let len = u32::from_le_bytes(record[28..32].try_into().expect("four bytes")) as usize;
    let crc = crc32c::crc32c(&record[48..48 + len]);
    record[32..36].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(&record[..44]);
    record[44..48].copy_from_slice(&crc.to_le_bytes());
}
