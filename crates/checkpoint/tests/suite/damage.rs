//! Damaged files: found wherever the damage is, passed over where the checkpoint before allows it,
//! refused otherwise.

use vetch_base::Seq;
use vetch_checkpoint::LoadError;
use vetch_journal::{Disk, Fault};
use vetch_store::Mark;

use crate::world::{TINY, World, damage, dir, names, open, paths};

/// Two checkpoints. The older file is in both, the newer file only in the newest.
fn world_with_two_checkpoints() -> World {
    let mut world = World::new(TINY);
    (0..12).for_each(|n| world.put(&format!("first/{n:02}"), "value of the first checkpoint"));
    world.checkpoint().unwrap();
    (0..4).for_each(|n| world.put(&format!("second/{n:02}"), "value of the second"));
    world.checkpoint().unwrap();
    assert_eq!(paths(&world.disk, ".data").len(), 2);
    world
}

#[test]
fn every_flipped_bit_of_a_shared_data_file_is_refused_with_file_and_offset() {
    let world = world_with_two_checkpoints();
    let shared = &paths(&world.disk, ".data")[0];
    let len = world.disk.content(shared).unwrap().len() as u64;
    let before = names(&world.disk);
    for byte in 0..len {
        let disk = world.disk.process_exit();
        disk.flip_bit(shared, byte, (byte % 8) as u8);
        let Err(LoadError::Damaged(found)) = open(&disk, TINY) else { panic!("byte {byte} was not noticed") };
        assert_eq!(&found.file, shared);
        // Blocks are about a hundred bytes, and the footer is one piece.
        assert!(
            found.offset <= byte && byte < found.offset + 250,
            "byte {byte} reported at {}",
            found.offset
        );
        assert_eq!(names(&disk), before, "nothing was changed");
    }
    let disk = world.disk.process_exit();
    damage(&disk, shared);
    let message = open(&disk, TINY).map(|_| ()).unwrap_err().to_string();
    for part in ["0000000000000001.data", "at byte", "restore from a backup"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn every_flipped_bit_of_the_newest_checkpoint_makes_the_one_before_take_over() {
    let world = world_with_two_checkpoints();
    let before = names(&world.disk);
    for path in [&paths(&world.disk, ".data")[1], &paths(&world.disk, ".manifest")[1]] {
        let len = world.disk.content(path).unwrap().len() as u64;
        for byte in 0..len {
            let disk = world.disk.process_exit();
            disk.flip_bit(path, byte, (byte % 8) as u8);
            let loaded = open(&disk, TINY).unwrap();
            assert_eq!(loaded.report.number, Some(1), "byte {byte} of {path:?} was not noticed");
            let why = loaded.report.fell_back.unwrap();
            assert!(why.contains(path.to_str().unwrap()), "{why}");
            assert_eq!(names(&disk), before, "the evidence stays");
        }
    }
}

#[test]
fn life_goes_on_after_a_fallback() {
    for ending in [".data", ".manifest"] {
        let world = world_with_two_checkpoints();
        let disk = world.disk.process_exit();
        damage(&disk, &paths(&disk, ending)[1]);
        let mut recovered = world.recover(&disk).unwrap();
        world.assert_same(&recovered);
        recovered.put("third", "value");
        let report = recovered.checkpoint().unwrap();
        assert_eq!(report.number, 3, "numbers are never used twice");
        recovered.assert_same(&recovered.recover(&disk).unwrap());
        let manifests = ["0000000000000001.manifest", "0000000000000003.manifest"];
        assert_eq!(paths(&disk, ".manifest"), manifests.map(|name| dir().join(name)));
    }
}

#[test]
fn lost_shortened_and_unreadable_files_are_damage_too() {
    let world = world_with_two_checkpoints();
    let newest = paths(&world.disk, ".data")[1].clone();
    let content = world.disk.content(&newest).unwrap();
    for breakage in 0..4 {
        let disk = world.disk.process_exit();
        match breakage {
            0 => disk.remove(&newest).unwrap(),
            1 => disk.overwrite(&newest, &content[..content.len() - 1]),
            2 => disk.overwrite(&newest, &[&content[..], b"\0"].concat()),
            _ => disk.inject(Fault::UnreadableRange(newest.clone(), 40..41)),
        }
        let loaded = open(&disk, TINY).unwrap();
        assert_eq!(loaded.report.number, Some(1), "breakage {breakage}");
    }
}

#[test]
fn a_file_in_the_place_of_another_is_damage() {
    let world = world_with_two_checkpoints();
    let data = paths(&world.disk, ".data");
    let disk = world.disk.process_exit();
    disk.overwrite(&data[1], &world.disk.content(&data[0]).unwrap());
    assert_eq!(open(&disk, TINY).unwrap().report.number, Some(1));
}

#[test]
fn a_bad_first_checkpoint_falls_back_to_the_whole_journal() {
    let mut world = World::new(TINY);
    world.put("a", "b");
    world.checkpoint().unwrap();
    damage(&world.disk, &paths(&world.disk, ".manifest")[0]);
    let loaded = open(&world.disk, TINY).unwrap();
    assert_eq!((loaded.report.number, loaded.tip.seq), (None, Seq::ZERO));
    assert!(loaded.report.fell_back.unwrap().contains("the journal from its beginning"));
    let mut recovered = world.recover(&world.disk).unwrap();
    world.assert_same(&recovered);
    recovered.checkpoint().unwrap();
    assert_eq!(names(&world.disk), ["0000000000000002.data", "0000000000000002.manifest"]);
}

#[test]
fn with_both_manifests_bad_the_directory_is_refused() {
    let world = world_with_two_checkpoints();
    paths(&world.disk, ".manifest").iter().for_each(|path| damage(&world.disk, path));
    let error = open(&world.disk, TINY).map(|_| ()).unwrap_err();
    assert!(matches!(&error, LoadError::Damaged(found) if found.file.ends_with("0000000000000002.manifest")));
}

/// The content with a checksum that is right.
fn with_checksum(mut content: Vec<u8>) -> Vec<u8> {
    content.truncate(content.len() - 4);
    let crc = crc32c::crc32c(&content);
    content.extend_from_slice(&crc.to_le_bytes());
    content
}

#[test]
fn absurd_numbers_behind_a_good_checksum_are_damage() {
    let world = world_with_two_checkpoints();
    let newest = paths(&world.disk, ".manifest")[1].clone();
    let content = world.disk.content(&newest).unwrap();
    let (epoch, seq, next_rev, revision, compact, next_id) = (24, 32, 72, 80, 88, 96);
    let single = [epoch, seq, next_rev, revision, compact, next_id];
    let mut lies: Vec<Vec<(usize, i64)>> =
        single.iter().flat_map(|&at| [vec![(at, i64::MAX)], vec![(at, i64::MIN)]]).collect();
    lies.push(vec![(revision, i64::MAX), (next_rev, i64::MIN)]);
    lies.push(vec![(revision, i64::MAX - 1), (next_rev, i64::MAX)]);
    for lie in lies {
        let mut absurd = content.clone();
        for &(at, number) in &lie {
            absurd[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let disk = world.disk.process_exit();
        disk.overwrite(&newest, &with_checksum(absurd));
        let loaded = open(&disk, TINY).unwrap_or_else(|error| panic!("{lie:?}: {error}"));
        assert_eq!(loaded.report.number, Some(1), "{lie:?}");
    }
}

#[test]
fn what_a_newer_version_wrote_is_refused_and_not_passed_over() {
    let world = world_with_two_checkpoints();
    let newest = paths(&world.disk, ".manifest")[1].clone();
    let content = world.disk.content(&newest).unwrap();
    let mut newer = content.clone();
    newer[8] = 3;
    world.disk.overwrite(&newest, &with_checksum(newer));
    let error = open(&world.disk, TINY).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("manifest version 3 is not known to this version"), "{error}");

    // An unknown section is skipped if it says that it may be.
    for (flags, is_refused) in [(0u8, false), (1, true)] {
        let mut with_section = content[..content.len() - 4].to_vec();
        with_section[12] += 1;
        with_section.extend_from_slice(&[77, 0, flags, 0, 3, 0, 0, 0, b'n', b'e', b'w', 0, 0, 0, 0]);
        world.disk.overwrite(&newest, &with_checksum(with_section));
        match open(&world.disk, TINY) {
            Ok(loaded) => assert!(!is_refused && loaded.report.number == Some(2)),
            Err(error) => assert!(is_refused && error.to_string().contains("section 77"), "{error}"),
        }
    }
}

#[test]
fn leftovers_of_unfinished_runs_are_removed_and_strangers_are_not() {
    let world = world_with_two_checkpoints();
    let before = names(&world.disk);
    let extra = ["00000000000000ff.data", "0000000000000009.manifest.tmp", "README", "LOCK", "1.data"];
    for name in extra {
        world.disk.create(&dir().join(name)).unwrap();
    }
    let loaded = open(&world.disk, TINY).unwrap();
    assert_eq!(loaded.report.removed, ["0000000000000009.manifest.tmp", "00000000000000ff.data"]);
    let mut expected = [before, extra[2..].iter().map(|&name| name.to_owned()).collect()].concat();
    expected.sort();
    assert_eq!(names(&world.disk), expected);
}

#[test]
fn a_file_found_damaged_while_rewriting_is_reported_and_left_alone() {
    let mut world = World::new(TINY);
    (0..15).for_each(|n| world.put(&format!("{n:02}"), &"x".repeat(50)));
    world.checkpoint().unwrap();
    damage(&world.disk, &paths(&world.disk, ".data")[0]);
    (0..12).for_each(|n| world.put(&format!("{n:02}"), "short"));
    world.compact_fully(world.store.head().revision);
    let report = world.checkpoint().unwrap();
    assert_eq!((report.damaged.len(), report.rewritten_files, report.files), (1, 0, 2), "{report:?}");
    assert!(report.damaged[0].file.ends_with("0000000000000001.data"));
    world.put("more", "v");
    assert_eq!(world.checkpoint().unwrap().damaged, [], "it is not tried again");
    // Neither of the checkpoints is anything to start from, so none of the journal may be trimmed:
    // the start begins with it.
    assert_eq!(world.checkpointer.trim_to(), None);
    let loaded = open(&world.disk, TINY).unwrap();
    assert_eq!((loaded.mark, loaded.report.number), (Mark::START, None));
}
