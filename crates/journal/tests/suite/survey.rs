//! The survey: it sees what recovery sees, and goes on where recovery must stop.

use vetch_encryption::EncryptionKeys;
use vetch_journal::{Journal, MemDisk, Sight, survey};

use crate::support::{append, dir, fresh, genesis, noise, recover};

#[derive(Debug, Default)]
struct Seen {
    segments: usize,
    records: usize,
    entries: Vec<u64>,
    damage: Vec<(String, u64)>,
    torn: usize,
}

fn look(disk: &MemDisk) -> Seen {
    let mut seen = Seen::default();
    survey(disk, &dir(), &EncryptionKeys::none(), &mut |sight| match sight {
        Sight::Segment { .. } => seen.segments += 1,
        Sight::Record(_) => seen.records += 1,
        Sight::Entry { entry, .. } => seen.entries.push(entry.seq.get()),
        Sight::Damage(damage) => seen.damage.push((damage.file, damage.offset)),
        Sight::Encrypted { .. } => unreachable!("nothing is encrypted here"),
        Sight::Torn(_) => seen.torn += 1,
    })
    .expect("the directory can be listed");
    seen
}

/// Two segments, eight entries.
fn journal() -> MemDisk {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    for n in 0..7 {
        append(&mut journal, &[noise(n, 100)]).expect("no faults");
    }
    assert_eq!((journal.segments(), journal.tip().seq.get()), (2, 8));
    disk
}

#[test]
fn a_whole_journal_is_seen_as_recovery_sees_it() {
    let disk = journal();
    let seen = look(&disk);
    assert_eq!((seen.segments, seen.records, seen.torn), (2, 8, 0));
    assert_eq!(seen.entries, (1..=8).collect::<Vec<_>>());
    assert!(seen.damage.is_empty(), "{seen:?}");
}

/// Whatever recovery refuses, the survey names too, at the same place or before; and all entries
/// that are not touched are shown.
#[test]
fn every_flipped_bit_that_recovery_refuses_is_named_and_the_rest_is_shown() {
    let disk = journal();
    for (path, content) in
        disk.files().into_iter().filter(|(path, _)| path.extension() == Some("journal".as_ref()))
    {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        for byte in 0..content.len() as u64 {
            let broken = disk.process_exit();
            broken.flip_bit(&path, byte, (byte % 8) as u8);
            let seen = look(&broken);
            let is_refused = recover(&broken.process_exit(), genesis()).is_err();
            // Bits behind the end look like an interrupted write to the survey as well.
            assert_eq!(is_refused, !seen.damage.is_empty(), "byte {byte} of {name}: {seen:?}");
            if is_refused {
                let (file, offset) = &seen.damage[0];
                assert!(*file == name && *offset <= byte, "byte {byte} of {name}: {seen:?}");
            }
            assert!(seen.entries.len() >= 7, "byte {byte} of {name}: {seen:?}");
        }
    }
}

#[test]
fn a_cut_or_missing_segment_is_named_and_the_others_are_shown() {
    let disk = journal();
    let files: Vec<_> =
        disk.files().into_keys().filter(|path| path.extension() == Some("journal".as_ref())).collect();
    let cut = disk.process_exit();
    let content = cut.content(&files[0]).expect("it exists");
    cut.overwrite(&files[0], &content[..700]);
    let seen = look(&cut);
    assert!(!seen.damage.is_empty() && seen.entries.ends_with(&[8]), "{seen:?}");
    let empty = disk.process_exit();
    empty.overwrite(&files[0], &[]);
    let seen = look(&empty);
    assert!(!seen.damage.is_empty() && seen.entries.ends_with(&[8]), "{seen:?}");
}
