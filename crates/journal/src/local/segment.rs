//! Names and lengths of segment files.

use vetch_base::Seq;
use vetch_encryption::KeyId;

use crate::entry::Tip;
use crate::local::header::SECTOR;

const SUFFIX: &str = ".journal";
const SPARE_PREFIX: &str = "spare-";
const SPARE_SUFFIX: &str = ".tmp";

/// A segment that has its place in the order.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Sequence number of the first entry in it, or of the entry it waits for.
    pub(super) first_seq: Seq,
    pub(super) name: String,
    /// The key of its records, or none in it if they are plain; none at all as long as there are no
    /// records.
    pub(super) key: Option<Option<KeyId>>,
    /// The tip before its first entry, where recovery had to read it.
    pub(super) before: Option<Tip>,
}

impl Segment {
    pub(super) fn new(first_seq: Seq) -> Segment {
        Segment { first_seq, name: format!("{:016x}{SUFFIX}", first_seq.get()), key: None, before: None }
    }

    /// The segment that a writer begins behind `tip`.
    pub(super) fn behind(tip: Tip) -> Segment {
        Segment { before: Some(tip), ..Segment::new(tip.seq.next()) }
    }

    fn parse(name: &str) -> Option<Segment> {
        let first_seq = Seq::new(u64::from_str_radix(name.strip_suffix(SUFFIX)?, 16).ok()?);
        // Only the canonical spelling, so that one number never has two files.
        Some(Segment::new(first_seq)).filter(|segment| segment.name == name && first_seq > Seq::ZERO)
    }

    /// The segments among the names in a directory, oldest first.
    pub(super) fn among(names: &[String]) -> Vec<Segment> {
        let mut segments: Vec<Segment> = names.iter().filter_map(|name| Segment::parse(name)).collect();
        segments.sort_by_key(|segment| segment.first_seq);
        segments
    }
}

pub(super) fn spare_name(number: u64) -> String {
    format!("{SPARE_PREFIX}{number}{SPARE_SUFFIX}")
}

pub(super) fn is_spare(name: &str) -> bool {
    name.starts_with(SPARE_PREFIX) && name.ends_with(SPARE_SUFFIX)
}

/// Rounds up to whole sectors, at least one.
pub(super) fn whole_sectors(len: u64) -> u64 {
    len.max(1).next_multiple_of(SECTOR as u64)
}
