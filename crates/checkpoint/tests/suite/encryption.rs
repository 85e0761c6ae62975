//! Encrypted checkpoints: what they hide, what they withstand, and keys that come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use vetch_checkpoint::LoadError;
use vetch_encryption::{EncryptionKeys, KeyError, KeyId};
use vetch_journal::MemDisk;

use crate::world::{KEYS, TINY, World, keys, open_through, paths, ring};

fn id(name: &str) -> KeyId {
    KeyId::new(name).unwrap()
}

/// Two checkpoints. The older file is in both, the newer file only in the newest.
fn world_with_two_checkpoints(keys: EncryptionKeys) -> World {
    let mut world = World::encrypted(TINY, keys);
    (0..12).for_each(|n| world.put(&format!("first/{n:02}"), "value of the first checkpoint"));
    world.checkpoint().unwrap();
    (0..4).for_each(|n| world.put(&format!("second/{n:02}"), "value of the second"));
    world.checkpoint().unwrap();
    assert_eq!(paths(&world.disk, ".data").len(), 2);
    world
}

fn load(disk: &MemDisk, keys: &EncryptionKeys) -> Result<Option<u64>, LoadError> {
    open_through(Arc::new(disk.clone()), TINY, keys).map(|loaded| loaded.report.number)
}

#[test]
fn nothing_of_keys_and_values_is_to_be_seen_and_everything_comes_back() {
    let world = world_with_two_checkpoints(keys(&KEYS[..1]));
    for (path, content) in world.disk.files() {
        for secret in [&b"value"[..], b"first", b"second/"] {
            assert!(!content.windows(secret.len()).any(|piece| piece == secret), "{path:?}");
        }
    }
    world.assert_same(&world.recover(&world.disk.process_exit()).unwrap());
}

#[test]
fn a_missing_and_a_wrong_key_are_refused_by_name_and_not_taken_for_damage() {
    let world = world_with_two_checkpoints(keys(&KEYS[..1]));
    let renamed = KEYS[1].replace("b ", "a ");
    let cases = [
        (EncryptionKeys::none(), KeyError::NoKeys { id: id("a") }),
        (keys(&KEYS[1..]), KeyError::Missing { id: id("a"), given: "b".into() }),
        (keys(&[&renamed]), KeyError::Wrong { id: id("a") }),
    ];
    for (keys, expected) in cases {
        let files = world.disk.files();
        let Err(LoadError::Key { source, .. }) = load(&world.disk.process_exit(), &keys) else {
            panic!("{expected}")
        };
        assert_eq!(source, expected);
        assert_eq!(world.disk.files(), files);
    }
}

/// Rotation: runs encrypt what is old anew, until nothing needs the old key; taken away a step too
/// early, it is asked for.
#[test]
fn runs_get_rid_of_an_old_key_and_until_then_it_is_asked_for() {
    let both = [KEYS[1], KEYS[0]];
    for (from, to) in [
        (vec![KEYS[0]], both.to_vec()),
        (vec!["plain"], both.to_vec()),
        (vec![KEYS[0]], vec!["plain", KEYS[0]]),
    ] {
        let mut world = world_with_two_checkpoints(keys(&from));
        assert!(!world.checkpointer.has_stale_keys());
        let (old, target) = (world.keys.current(), keys(&to).current());
        world.keys.replace(ring(&to));
        let mut runs = 0;
        while world.checkpointer.has_stale_keys() {
            assert!(world.checkpointer.files_by_key().contains_key(&old));
            if old.is_some() {
                let without = if target.is_some() { keys(&KEYS[1..]) } else { EncryptionKeys::none() };
                let refused = load(&world.disk.process_exit(), &without);
                assert!(matches!(refused, Err(LoadError::Key { .. })), "{from:?} {runs}: {refused:?}");
            }
            world.assert_same(&world.recover(&world.disk.process_exit()).unwrap());
            world.checkpoint().unwrap();
            runs += 1;
            assert!(runs < 10, "it comes to an end");
        }
        assert!(runs >= 2, "the checkpoint before the newest counts as well");
        let files: BTreeMap<_, _> = world.checkpointer.files_by_key();
        assert_eq!(files.keys().copied().collect::<Vec<_>>(), [target]);
        let enough = if target.is_some() { keys(&KEYS[1..]) } else { EncryptionKeys::none() };
        assert!(load(&world.disk.process_exit(), &enough).is_ok(), "nothing needs the old key");
        world.assert_same(&world.recover(&world.disk.process_exit()).unwrap());
    }
}

#[test]
fn every_flipped_bit_of_an_encrypted_checkpoint_is_found() {
    let world = world_with_two_checkpoints(keys(&KEYS[..1]));
    let shared = &paths(&world.disk, ".data")[0];
    for byte in 0..world.disk.content(shared).unwrap().len() as u64 {
        let disk = world.disk.process_exit();
        disk.flip_bit(shared, byte, (byte % 8) as u8);
        let Err(LoadError::Damaged(found)) = load(&disk, &world.keys) else {
            panic!("byte {byte} was not noticed")
        };
        assert_eq!(&found.file, shared);
        assert!(
            found.offset <= byte && byte < found.offset + 250,
            "byte {byte} reported at {}",
            found.offset
        );
    }
    for path in [&paths(&world.disk, ".data")[1], &paths(&world.disk, ".manifest")[1]] {
        for byte in 0..world.disk.content(path).unwrap().len() as u64 {
            let disk = world.disk.process_exit();
            disk.flip_bit(path, byte, (byte % 8) as u8);
            assert_eq!(load(&disk, &world.keys).unwrap(), Some(1), "byte {byte} of {path:?} was not noticed");
        }
    }
}

/// An attacker who can write to the disk can make checksums fit, but not authentication tags: these
/// refuse a block that was altered or moved, and a file of another store with the same name and
/// key.
#[test]
fn what_was_made_to_fit_is_refused() {
    let world = world_with_two_checkpoints(keys(&KEYS[..1]));
    let path = &paths(&world.disk, ".data")[0];
    let refused = |content: &[u8]| {
        let disk = world.disk.process_exit();
        disk.overwrite(path, content);
        let Err(LoadError::Damaged(found)) = load(&disk, &world.keys) else { panic!("it was read") };
        found.reason
    };
    let whole = world.disk.content(path).unwrap();
    let mut altered = whole.clone();
    altered[100 + 12] ^= 1;
    let len = u32::from_le_bytes(altered[100..104].try_into().unwrap()) as usize;
    let crc = crc32c::crc32c(
        &[&1u64.to_le_bytes()[..], &100u64.to_le_bytes(), &altered[100..108], &altered[112..112 + len]]
            .concat(),
    );
    altered[108..112].copy_from_slice(&crc.to_le_bytes());
    assert!(refused(&altered).contains("altered"), "{}", refused(&altered));
    // The same place, the same length, another store: salts differ there, as they do in every file.
    let random = || EncryptionKeys::new(ring(&KEYS[..1]));
    let (one, other) = (world_with_two_checkpoints(random()), world_with_two_checkpoints(random()));
    let foreign = other.disk.content(path).unwrap();
    assert_eq!(foreign.len(), one.disk.content(path).unwrap().len());
    one.disk.overwrite(path, &foreign);
    let found = load(&one.disk.process_exit(), &one.keys);
    assert!(matches!(found, Err(LoadError::Damaged(_))), "{found:?}");
}
