//! The disk that loses power must lose what it should, and keep what it must.

use std::io::ErrorKind;
use std::path::Path;

use super::{Fault, MemDisk, Op, Pending};
use crate::disk::{Disk, LockError, read_file, write_atomically};

fn disk() -> MemDisk {
    let disk = MemDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk
}

#[test]
fn unsynced_sectors_survive_one_by_one() {
    let disk = disk();
    let file = disk.create(Path::new("/d/f")).unwrap();
    file.write_at(0, &[1; 1536]).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    file.write_at(100, &[2; 1000]).unwrap();
    assert_eq!(disk.pending().len(), 3);
    let booted = disk.power_loss(&mut |pending| matches!(pending, Pending::Sector { sector: 1, .. }));
    let content = booted.content(Path::new("/d/f")).unwrap();
    assert_eq!(content, [[1; 512], [2; 512], [1; 512]].concat());
}

#[test]
fn names_wait_for_the_directory() {
    let disk = disk();
    let file = disk.create(Path::new("/d/a")).unwrap();
    file.write_at(0, b"x").unwrap();
    file.sync_data().unwrap();
    assert!(disk.power_loss(&mut |_| false).files().is_empty(), "synced data under a name that was not");
    disk.sync_dir(Path::new("/d")).unwrap();
    disk.rename(Path::new("/d/a"), Path::new("/d/b")).unwrap();
    assert!(disk.power_loss(&mut |_| false).content(Path::new("/d/a")).is_some());
    assert!(disk.power_loss(&mut |_| true).content(Path::new("/d/b")).is_some());
    disk.sync_dir(Path::new("/d")).unwrap();
    disk.remove(Path::new("/d/b")).unwrap();
    assert_eq!(disk.power_loss(&mut |_| false).files().len(), 1);
}

#[test]
fn a_failed_sync_drops_what_it_covered() {
    let disk = disk();
    write_atomically(&disk, Path::new("/d"), "f", &[1; 512]).unwrap();
    let file = disk.open_write(Path::new("/d/f")).unwrap();
    file.write_at(0, &[2; 512]).unwrap();
    disk.inject(Fault::FailNext(Op::SyncData, ErrorKind::Other));
    assert!(file.sync_data().is_err());
    assert!(file.sync_data().is_ok(), "the lie of every kernel");
    assert_eq!(read_file(&disk, Path::new("/d/f")).unwrap(), [2; 512], "readers see the page cache");
    assert_eq!(disk.power_loss(&mut |_| true).content(Path::new("/d/f")).unwrap(), [1; 512]);
}

#[test]
fn after_the_crash_point_nothing_works() {
    let disk = disk();
    let file = disk.create(Path::new("/d/f")).unwrap();
    disk.inject(Fault::CrashAt(1));
    file.write_at(0, &[1; 512]).unwrap();
    assert!(!disk.has_crashed());
    assert!(file.sync_data().is_err());
    assert!(disk.has_crashed());
    assert!(file.write_at(0, &[1; 512]).is_err());
    assert!(disk.open(Path::new("/d/f")).is_err());
    assert_eq!(disk.pending().len(), 3, "a sector, the length and the name");
}

#[test]
fn space_is_finite_and_comes_back() {
    let disk = disk();
    disk.inject(Fault::Capacity(1000));
    let file = disk.create(Path::new("/d/f")).unwrap();
    file.allocate(800).unwrap();
    let other = disk.create(Path::new("/d/g")).unwrap();
    assert_eq!(other.write_at(0, &[1; 300]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(disk.free_space(Path::new("/d")).unwrap(), 200);
    disk.remove(Path::new("/d/f")).unwrap();
    other.write_at(0, &[1; 300]).unwrap();
}

#[test]
fn a_directory_is_locked_once() {
    let disk = disk();
    let held = disk.lock_dir(Path::new("/d")).unwrap();
    assert!(matches!(disk.lock_dir(Path::new("/d")), Err(LockError::Held(_))));
    drop(held);
    disk.lock_dir(Path::new("/d")).unwrap();
}

#[test]
fn a_killed_process_leaves_its_unsynced_work_to_be_read_and_to_be_lost() {
    let disk = disk();
    let file = disk.create(Path::new("/d/f")).unwrap();
    file.write_at(0, &[1; 512]).unwrap();
    disk.inject(Fault::FailNext(Op::SyncData, ErrorKind::Other));
    file.sync_data().unwrap_err();
    file.write_at(512, &[2; 512]).unwrap();
    let next = disk.process_killed();
    assert_eq!(next.content(Path::new("/d/f")).unwrap().len(), 1024);
    assert_eq!(next.pending(), disk.pending());
    next.open_write(Path::new("/d/f")).unwrap().sync_data().unwrap();
    next.sync_dir(Path::new("/d")).unwrap();
    let booted = next.power_loss(&mut |_| false).content(Path::new("/d/f")).unwrap();
    assert_eq!((booted[0], booted[512]), (0, 2), "what a failed sync lost stays lost; the rest was synced");
    assert!(disk.process_killed().power_loss(&mut |_| false).files().is_empty());
}

#[test]
fn an_atomic_write_is_atomic_whatever_an_interrupted_one_left() {
    let (dir, path) = (Path::new("/d"), Path::new("/d/f"));
    let left = disk();
    left.create(Path::new("/d/f.tmp")).unwrap();
    left.sync_dir(dir).unwrap();
    for crash in 0.. {
        let disk = left.process_exit();
        disk.inject(Fault::CrashAt(crash));
        let written = write_atomically(&disk, dir, "f", &[1; 512]);
        for kept in 0..1 << disk.pending().len() {
            let mut bits = (0..).map(|bit| kept >> bit & 1 == 1);
            let booted = disk.power_loss(&mut |_| bits.next().unwrap());
            let content = booted.content(path);
            assert!(content.is_none() || content == Some(vec![1; 512]), "crash at {crash}, kept {kept:b}");
        }
        if written.is_ok() {
            return assert!(crash > 5, "there were operations to crash in");
        }
    }
}
