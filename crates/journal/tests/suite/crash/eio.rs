//! Every read of a recovery fails, once or from then on, or returns too little. Recovery then
//! succeeds with everything or is refused with a file and an offset; it never takes what it could
//! not read for the end of the journal.

use std::sync::Arc;

use vetch_journal::{Fault, JournalError, MemDisk};
use vetch_testkit::faulty_disk::{Calls, FaultyDisk};

use super::life::{Life, recover};
use super::workload::Workload;
use super::{for_seeds, workloads};
use crate::support::tell;

/// The disk of a life that the power ended, so that some have torn tails, and some of its last
/// write.
fn image(workload: &Workload, seed: u64) -> (Life, MemDisk) {
    let mut whole = Life::new(&workload.config);
    whole.live(workload).expect("without faults a life succeeds");
    let mut life = Life::new(&workload.config);
    life.disk.inject(Fault::CrashAt(whole.disk.ops() * 3 / 4 + seed % 5));
    let _ = life.live(workload);
    let mut n = seed;
    let disk = life.disk.power_loss(&mut |_| {
        n += 1;
        !n.is_multiple_of(3)
    });
    (life, disk)
}

fn enumerate(workload: &Workload, seed: u64) -> [u64; 2] {
    let (life, image) = image(workload, seed);
    let (mut cases, mut refused) = (0, 0);
    for (calls, stays) in [(Calls::Reads, false), (Calls::Reads, true), (Calls::ShortReads, false)] {
        for at in 0.. {
            let disk = image.process_exit();
            let faulty = FaultyDisk::new(&disk, calls, at, stays);
            let outcome = recover(Arc::new(faulty.clone()), &life.config, life.checkpoint);
            if !faulty.was_hit() {
                outcome.expect("nothing failed");
                break;
            }
            cases += 1;
            let what = format!("workload {seed}, {calls:?} {at} failed, stays: {stays}");
            match outcome.map(|(found, _, _)| found) {
                Ok(found) => life.assert_known(&found, &what),
                // Small enough to be read as one, and checked as one.
                Err(JournalError::Corrupt(corrupt)) if corrupt.file == "begin" => refused += 1,
                Err(JournalError::Corrupt(corrupt)) => {
                    let names =
                        corrupt.reason.contains("cannot be read") || corrupt.reason.contains("shorter");
                    assert!(names && corrupt.file.ends_with(".journal"), "{what}: {corrupt}");
                    refused += 1;
                }
                Err(JournalError::Io { path, .. }) => {
                    let name = path.file_name().expect("a file").to_string_lossy();
                    assert!(name.ends_with(".journal") || name == "begin", "{what}: {path:?}");
                    refused += 1;
                }
                Err(other) => panic!("{what}: {other}"),
            }
            // Once the disk can be read again, nothing is missing.
            let (found, _, _) =
                recover(Arc::new(disk), &life.config, life.checkpoint).expect("readable again");
            life.assert_known(&found, &format!("{what}, then readable again"));
        }
    }
    [cases, refused]
}

#[test]
fn a_read_that_fails_anywhere_in_recovery_is_refused_or_harmless() {
    let count = workloads(50);
    let [cases, refused] = for_seeds(count, |seed| enumerate(&Workload::new(seed, 14), seed));
    let of_member = |seed| enumerate(&Workload::of_member(seed, 14), seed);
    let [more, more_refused] = for_seeds(count, of_member);
    let (cases, refused, count) = (cases + more, refused + more_refused, 2 * count);
    tell!("journal, failed reads: {count} workloads, {cases} cases, {refused} refused");
    assert!(refused > 3 * count && cases > refused, "{refused} of {cases} refused");
}
