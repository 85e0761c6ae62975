//! The vote: whatever happens, what was saved is there, and never anything else.

use std::path::Path;

use vetch_base::{Epoch, MemberId};
use vetch_journal::{Disk, Fault, MemDisk, Pending, SECTOR, Vote, VoteError, VoteFile, Voter};
use vetch_testkit::faulty_disk::{Calls, FaultyDisk};
use vetch_testkit::subsets::subsets;

const DIR: &str = "/data/member";
const FILE: &str = "/data/member/vote";

fn voter() -> Voter {
    Voter { cluster: 0x1122_3344_5566_7788, member: MemberId::new(0xaabb) }
}

fn vote(term: u64, member: u64) -> Vote {
    Vote { term: Epoch::new(term), vote: Some(MemberId::new(member)).filter(|id| id.get() > 0) }
}

/// An election or two.
fn votes() -> [Vote; 4] {
    [vote(1, 0), vote(1, 7), vote(4, 0xaabb), vote(5, 0)]
}

fn disk() -> MemDisk {
    let disk = MemDisk::new();
    disk.create_dir_all(Path::new(DIR)).expect("no faults");
    disk
}

fn open(disk: &dyn Disk) -> Result<VoteFile, VoteError> {
    VoteFile::open(disk, Path::new(DIR), voter())
}

/// The file of a member that was told all of `votes`, but for the last `fewer`.
pub(crate) fn with_votes(fewer: usize) -> MemDisk {
    let disk = disk();
    let mut file = VoteFile::create(&disk, Path::new(DIR), voter()).expect("no faults");
    for vote in &votes()[..votes().len() - fewer] {
        file.save(*vote).expect("no faults");
    }
    disk
}

#[test]
fn a_vote_comes_back() {
    let disk = with_votes(0);
    let booted = disk.power_loss(&mut |_| false);
    let mut file = open(&booted).expect("durable");
    assert_eq!(file.vote(), vote(5, 0));
    file.save(vote(5, 9)).expect("no faults");
    let ops = booted.ops();
    file.save(vote(5, 9)).expect("no faults");
    assert_eq!(booted.ops(), ops, "what is saved is not written again");
    let again = VoteFile::create(&booted, Path::new(DIR), voter()).expect_err("there is one");
    assert!(matches!(again, VoteError::Io { .. }), "{again}");
    assert_eq!(open(&booted).expect("as it was").vote(), vote(5, 9));
}

#[test]
#[should_panic(expected = "a member votes once in a term")]
fn a_second_vote_in_a_term_is_a_bug() {
    let mut file = VoteFile::create(&disk(), Path::new(DIR), voter()).expect("no faults");
    file.save(vote(3, 1)).expect("no faults");
    let _ = file.save(vote(3, 2));
}

#[test]
fn one_damaged_copy_is_made_good_and_two_are_refused() {
    for slot in 0..2 {
        for bit in 0..52 * 8 {
            let disk = with_votes(0);
            disk.flip_bit(Path::new(FILE), (slot * SECTOR) as u64 + bit / 8, (bit % 8) as u8);
            assert_eq!(open(&disk).expect("the other copy").vote(), vote(5, 0));
            assert_eq!(disk.content(Path::new(FILE)), with_votes(0).content(Path::new(FILE)), "made good");
            disk.flip_bit(Path::new(FILE), bit / 8, 3);
            disk.flip_bit(Path::new(FILE), SECTOR as u64 + bit / 8, 3);
            let content = disk.content(Path::new(FILE));
            assert!(matches!(open(&disk), Err(VoteError::Damaged(_))));
            assert_eq!(disk.content(Path::new(FILE)), content, "nothing was changed");
        }
    }
    let disk = with_votes(0);
    disk.overwrite(Path::new(FILE), &[]);
    assert!(matches!(open(&disk), Err(VoteError::Damaged(_))));
    disk.remove(Path::new(FILE)).expect("it exists");
    assert!(matches!(open(&disk), Err(VoteError::Io { .. })), "a missing vote is not a new one");
}

/// Should a disk tear the very sector that it writes, a start tears the older copy first.
#[test]
fn a_start_never_risks_the_only_copy_of_the_newest_vote() {
    let (older, newer) = (with_votes(1), with_votes(0));
    for newest in 0..2 {
        let disk = older.process_exit();
        let slot = newest * SECTOR..(newest + 1) * SECTOR;
        let mut content = older.content(Path::new(FILE)).expect("it exists");
        content[slot.clone()].copy_from_slice(&newer.content(Path::new(FILE)).expect("it exists")[slot]);
        disk.overwrite(Path::new(FILE), &content);
        // Its first operation makes the name durable, the second writes.
        disk.inject(Fault::CrashAt(1));
        open(&disk).expect_err("the power goes");
        let [Pending::Sector { sector, .. }] = disk.pending()[..] else { panic!("one sector is written") };
        let torn = disk.power_loss(&mut |_| true);
        torn.flip_bit(Path::new(FILE), sector * SECTOR as u64 + 40, 0);
        assert_eq!(open(&torn).expect("the other copy").vote(), vote(5, 0));
    }
}

#[test]
fn the_vote_of_another_member_is_refused() {
    let others = [Voter { cluster: 1, ..voter() }, Voter { member: MemberId::new(1), ..voter() }];
    for other in others {
        let error = VoteFile::open(&with_votes(0), Path::new(DIR), other).expect_err("not its own");
        assert!(matches!(error, VoteError::Foreign { .. }), "{error}");
    }
}

/// A member that makes the file and is told of all votes, as far as it comes. Returns what it
/// answered last, and what was under way.
fn live(disk: &dyn Disk) -> (Option<Vote>, Option<Vote>) {
    let mut answered = None;
    let Ok(mut file) = VoteFile::create(disk, Path::new(DIR), voter()) else {
        return (None, Some(Vote::default()));
    };
    for vote in [Vote::default()].into_iter().chain(votes()) {
        if file.save(vote).is_err() {
            return (answered, Some(vote));
        }
        answered = Some(vote);
    }
    (answered, None)
}

/// What the next start finds, and that it stays so whatever happens during the start and behind it.
fn judge(image: &MemDisk, answered: Option<Vote>, under_way: Option<Vote>, what: &str, depth: u32) -> u64 {
    let disk = image.process_exit();
    let Ok(mut file) = open(&disk) else {
        assert!(answered.is_none() && disk.content(Path::new(FILE)).is_none(), "{what}: not there");
        return 1;
    };
    let found = file.vote();
    let known = [answered, under_way];
    assert!(known.contains(&Some(found)), "{what}: {found:?} found, {known:?} known");
    file.save(vote(99, 1)).expect("it goes on");
    drop(file);
    assert_eq!(open(&disk.power_loss(&mut |_| false)).expect("durable").vote(), vote(99, 1), "{what}");
    let mut cases = 1;
    for at in 0.. {
        let disk = image.process_exit();
        disk.inject(Fault::CrashAt(at));
        // Once it is open, others may be told of what it says.
        let opened = open(&disk).map(|file| file.vote());
        let acted = opened.as_ref().ok().copied();
        if depth > 0 {
            for set in subsets(disk.pending().len(), 6, 4, at) {
                let mut fates = set.iter();
                let booted = disk.power_loss(&mut |_| *fates.next().expect("asked once"));
                let (known, other) = if acted.is_some() { (acted, acted) } else { (answered, under_way) };
                let what = format!("{what}, then power lost at {at} of the start, kept {set:?}");
                cases += judge(&booted, known, other, &what, depth - 1);
            }
        }
        if !disk.has_crashed() {
            return cases;
        }
    }
    unreachable!("a start has an end")
}

#[test]
fn power_loss_and_kills_at_every_operation_keep_what_was_answered() {
    let (mut cases, mut points) = (0, 0);
    for at in 0.. {
        let disk = disk();
        disk.inject(Fault::CrashAt(at));
        let (answered, under_way) = live(&disk);
        for set in subsets(disk.pending().len(), 6, 4, at) {
            let mut fates = set.iter();
            let booted = disk.power_loss(&mut |_| *fates.next().expect("asked once"));
            cases += judge(&booted, answered, under_way, &format!("power lost at {at}, kept {set:?}"), 2);
        }
        // Killed: the next process reads what was not synced, acts upon it, and the power goes.
        let killed = disk.process_killed();
        if let Ok(file) = open(&killed) {
            let acted = Some(file.vote());
            let booted = killed.power_loss(&mut |_| false);
            cases += judge(&booted, acted, acted, &format!("killed at {at}, then power lost"), 1);
        }
        points += 1;
        if !disk.has_crashed() {
            break;
        }
    }
    assert!(points > 15 && cases > 500, "{points} points, {cases} cases");
}

/// After a failed sync the file is closed for good, and the kernel shows what the disk lacks.
#[test]
fn a_failed_sync_ends_it_and_nothing_that_was_answered_is_lost() {
    let mut failures = 0;
    for at in 0.. {
        let disk = disk();
        let faulty = FaultyDisk::new(&disk, Calls::Syncs, at, false);
        let (answered, under_way) = live(&faulty);
        if !faulty.was_hit() {
            break;
        }
        failures += 1;
        let what = format!("sync {at} failed");
        judge(&disk.power_loss(&mut |_| false), answered, under_way, &what, 1);
        let killed = disk.process_killed();
        if let Ok(file) = open(&killed) {
            let acted = Some(file.vote());
            assert!([answered, under_way].contains(&acted), "{what}");
            judge(&killed.power_loss(&mut |_| false), acted, acted, &format!("{what}, then killed"), 1);
        }
    }
    assert!(failures > 8, "{failures}");
    let disk = with_votes(1);
    let mut file = open(&disk).expect("durable");
    disk.inject(Fault::FailNext(vetch_journal::Op::SyncData, std::io::ErrorKind::Other));
    let cause = file.save(vote(9, 0)).expect_err("the sync fails").to_string();
    assert_eq!(file.save(vote(10, 0)).expect_err("for good").to_string(), cause);
    assert_eq!(file.vote(), vote(4, 0xaabb));
}
