//! The same engine on real files: modes, lock, and a life with restarts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use vetch_journal::{
    Disk, Journal, LocalConfig, LocalJournal, LockError, Position, RealDisk, Recovery, read_file,
    write_atomically,
};

use crate::support::{append, genesis, noise};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777
}

fn open(dir: &Path) -> Recovery {
    let config = LocalConfig { segment_len: 64 << 10, ..LocalConfig::default() };
    LocalJournal::recover(Arc::new(RealDisk), dir, config, genesis()).expect("recoverable")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "maintenance runs beside the journal")]
fn a_life_on_real_files() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = temp.path().join("a/journal");
    let (mut journal, _) = open(&dir).finish().expect("empty");
    journal.claim().expect("writable");
    let maintenance = journal.maintenance();
    let background = std::thread::spawn(move || maintenance.run().expect("space"));
    let mut acked = Vec::new();
    for n in 0..20 {
        acked.extend(append(&mut journal, &[noise(n, 9000), noise(n + 100, 10)]).expect("writable"));
    }
    background.join().expect("it ran");
    assert!(journal.segments() >= 3);
    for name in RealDisk.list(&dir).expect("listed") {
        assert_eq!(mode(&dir.join(&name)), 0o600, "{name}");
    }
    assert_eq!((mode(&dir), mode(&temp.path().join("a"))), (0o700, 0o700));
    drop(journal);
    let mut recovery = open(&dir);
    let mut found = Vec::new();
    while let Some(item) = recovery.next_entry().expect("intact") {
        found.push(item.entry);
    }
    assert_eq!(found[1..], acked[..]);
    let (mut journal, report) = recovery.finish().expect("intact");
    assert_eq!(report.cut, None);
    journal.trim(Position(30)).expect("removable");
    assert!(journal.segments() < report.segments);
    assert_eq!(RealDisk.list(&dir).expect("listed").len(), journal.segments() + 1, "and the lock");
}

#[test]
fn a_held_directory_is_refused_with_its_name() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let held = RealDisk.lock_dir(temp.path()).expect("free");
    match RealDisk.lock_dir(temp.path()) {
        Err(LockError::Held(dir)) => assert_eq!(dir, temp.path()),
        other => panic!("{other:?}"),
    }
    drop(held);
    RealDisk.lock_dir(temp.path()).expect("free again");
    assert_eq!(mode(&temp.path().join("LOCK")), 0o600);
}

#[test]
fn small_files_are_replaced_as_a_whole() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    for content in [&b"first"[..], b"second, longer", b"3"] {
        write_atomically(&RealDisk, temp.path(), "manifest", content).expect("writable");
        assert_eq!(read_file(&RealDisk, &temp.path().join("manifest")).expect("readable"), content);
    }
    assert_eq!(RealDisk.list(temp.path()).expect("listed"), ["manifest"]);
    assert!(RealDisk.free_space(temp.path()).expect("a volume") > 0);
}
