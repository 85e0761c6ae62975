//! Damage by whole sectors: zeroed, overwritten with the content of any other, and swapped.
//! Acknowledged entries are all there or recovery is refused, with one exception that no format can
//! avoid: a sector of the **last record** that reads as zeros. The next record would have proven
//! that it was complete; without one, the disk looks exactly as if the power had gone during its
//! write. Then that record is cut, and only that one.

use std::path::PathBuf;

use vetch_journal::{JournalError, MemDisk, SECTOR};

use crate::bitrot::{Image, image};
use crate::support::{genesis, recover, tell};

/// A sector of the journal: its file and where it begins.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    file: PathBuf,
    at: usize,
}

impl Place {
    fn read(&self, disk: &MemDisk) -> Vec<u8> {
        disk.content(&self.file).expect("it exists")[self.at..self.at + SECTOR].to_vec()
    }

    fn write(&self, disk: &MemDisk, sector: &[u8]) {
        let mut content = disk.content(&self.file).expect("it exists");
        content[self.at..self.at + SECTOR].copy_from_slice(sector);
        disk.overwrite(&self.file, &content);
    }
}

fn places(image: &Image) -> Vec<Place> {
    let of = |file: &PathBuf| {
        let len = image.disk.content(file).expect("it exists").len();
        (0..len).step_by(SECTOR).map(|at| Place { file: file.clone(), at }).collect::<Vec<_>>()
    };
    image.segments.iter().flat_map(of).collect()
}

/// The sectors of the last record that are not zero.
fn last_record(image: &Image) -> Vec<Place> {
    let last = image.segments.last().expect("there are segments");
    let in_last: Vec<Place> = places(image).into_iter().filter(|place| place.file == *last).collect();
    let begins = in_last.iter().rposition(|place| place.read(&image.disk).starts_with(b"VJRN"));
    let record = &in_last[begins.expect("there is a record")..];
    record.iter().filter(|place| place.read(&image.disk) != [0; SECTOR]).cloned().collect()
}

#[derive(Debug, Default, PartialEq)]
struct Outcomes {
    refused: usize,
    harmless: usize,
    lost_last: usize,
}

impl Outcomes {
    fn judge(&mut self, image: &Image, disk: &MemDisk, may_lose: bool, what: &str) {
        let is_changed = disk.files() != image.disk.files();
        match recover(disk, genesis()).map(|(found, _, _)| found) {
            Err(JournalError::Corrupt(_)) => self.refused += 1,
            Err(other) => panic!("{what}: {other}"),
            Ok(found) if found == image.entries => self.harmless += 1,
            Ok(found) => {
                assert!(is_changed && may_lose, "{what}: lost without a word");
                assert!(
                    found == image.entries[..image.entries.len() - 1],
                    "{what}: more than the last record"
                );
                self.lost_last += 1;
            }
        }
    }
}

#[test]
fn a_zeroed_sector_is_refused_except_in_the_last_record() {
    let image = image();
    let exception = last_record(&image);
    let mut outcomes = Outcomes::default();
    for place in places(&image) {
        let disk = image.disk.process_exit();
        place.write(&disk, &[0; SECTOR]);
        outcomes.judge(&image, &disk, exception.contains(&place), &format!("{place:?} zeroed"));
    }
    assert_eq!(outcomes.lost_last, exception.len(), "the exception is exactly that: {outcomes:?}");
    assert!(outcomes.refused > 10, "{outcomes:?}");
}

/// The content of one sector is found at another: a duplicate, or a write that went to the wrong
/// place.
#[test]
fn a_sector_overwritten_by_another_is_refused_unless_it_zeroes_one_of_the_last_record() {
    let image = image();
    let exception = last_record(&image);
    let mut outcomes = Outcomes::default();
    for from in places(&image) {
        let content = from.read(&image.disk);
        for to in places(&image) {
            let disk = image.disk.process_exit();
            to.write(&disk, &content);
            let may_lose = exception.contains(&to) && content == [0; SECTOR];
            outcomes.judge(&image, &disk, may_lose, &format!("{from:?} written to {to:?}"));
        }
    }
    tell!("journal, misdirected sectors: {outcomes:?}");
    assert!(outcomes.refused > 300 && outcomes.harmless > 10 && outcomes.lost_last > 0, "{outcomes:?}");
}

/// Two sectors changed places. Where one of the last record was swapped with zeros, what it held is
/// usually found and refused; not in the unused end of an older segment, which is never read.
#[test]
fn two_swapped_sectors_are_refused_unless_one_of_the_last_record_went_where_no_read_looks() {
    let image = image();
    let exception = last_record(&image);
    let mut outcomes = Outcomes::default();
    let all = places(&image);
    for (n, one) in all.iter().enumerate() {
        for other in &all[n + 1..] {
            let disk = image.disk.process_exit();
            one.write(&disk, &other.read(&image.disk));
            other.write(&disk, &one.read(&image.disk));
            let zeroed = exception.iter().any(|place| place.read(&disk) == [0; SECTOR]);
            let is_moved_back = *one.file != *other.file;
            outcomes.judge(
                &image,
                &disk,
                zeroed && is_moved_back,
                &format!("{one:?} swapped with {other:?}"),
            );
        }
    }
    tell!("journal, swapped sectors: {outcomes:?}");
    assert!(outcomes.refused > 100 && outcomes.harmless > 0, "{outcomes:?}");
}
