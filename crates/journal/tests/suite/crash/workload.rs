//! Workloads: what a process does with its journal, drawn from a seed, with sizes chosen to hurt.

use vetch_encryption::EncryptionKeys;
use vetch_journal::{ENTRY_HEADER_LEN, LocalConfig, PART_HEADER_LEN, RECORD_HEADER_LEN, SECTOR};
use vetch_testkit::random::Rng;

use crate::encryption::{KEYS, ring};
use crate::support::noise;

/// One thing a process does.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// One batch, an entry for each payload.
    Append(Vec<Vec<u8>>),
    /// Prepares spare segments and removes retired ones.
    Maintain,
    /// A checkpoint is durable here; everything before it is given up and removed at once.
    Trim,
    /// The same, but removal is left to the next maintenance.
    Retire,
    /// Reads everything behind the checkpoint while the journal is open.
    ReadBack,
    /// The process ends and the next one begins.
    Restart,
    /// Another key is used from now on, or none; the number says which. Then the journal may be
    /// told at once.
    Rekey(usize, bool),
    /// Entries of a journal with several members, of which this many at the end are not committed.
    Replicate(Vec<Vec<u8>>, u64),
    /// This many entries are cut from the end, or those that are not committed.
    Cut(u64),
    /// A checkpoint of another member is installed, this far ahead of what is committed.
    Begin(u64),
    /// Reads on behind the checkpoint as another thread does.
    Follow,
}

#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) config: LocalConfig,
    pub(super) steps: Vec<Step>,
}

/// Every ring opens everything; they differ in what they encrypt with.
pub(super) const RINGS: [&[&str]; 3] = [&KEYS, &[KEYS[1], KEYS[0]], &["plain", KEYS[0], KEYS[1]]];

impl Workload {
    /// The workload of this seed: about `len` steps on tiny segments.
    pub(super) fn new(seed: u64, len: u64) -> Workload {
        Workload::of(seed, len, step)
    }

    /// The same for a member of several.
    pub(super) fn of_member(seed: u64, len: u64) -> Workload {
        Workload::of(seed, len, step_of_member)
    }

    fn of(seed: u64, len: u64, step: fn(&mut Rng, u64) -> Step) -> Workload {
        let mut rng = Rng::split_mix(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 0x1405);
        // Half of the workloads know of keys.
        let is_encrypted = seed % 2 == 1;
        let sectors = [1, 2, 3, 4, 4, 7][rng.below(6)];
        let config = LocalConfig {
            segment_len: sectors * SECTOR as u64,
            spares: rng.below(3),
            new_journal_id: Some(seed + 1),
            keys: if is_encrypted {
                EncryptionKeys::repeatable_for_tests(ring(RINGS[0]))
            } else {
                EncryptionKeys::none()
            },
            ..LocalConfig::default()
        };
        let len = len / 2 + rng.below(len as usize) as u64;
        let mut steps: Vec<Step> = (0..len).map(|n| step(&mut rng, n)).collect();
        if is_encrypted {
            (0..3).for_each(|_| {
                steps.insert(rng.below(steps.len()), Step::Rekey(rng.below(RINGS.len()), rng.below(2) == 0))
            });
        }
        Workload { config, steps }
    }
}

fn step(rng: &mut Rng, n: u64) -> Step {
    match rng.below(16) {
        0..=1 => Step::Maintain,
        2 => Step::Trim,
        3 => Step::Retire,
        4 => Step::ReadBack,
        5..=6 => Step::Restart,
        7 => Step::Append((0..2 + rng.below(9) as u64).map(|i| noise(n * 16 + i, rng.below(40))).collect()),
        8..=10 => Step::Append((0..2 + rng.below(2)).map(|_| payload(rng, 600)).collect()),
        _ => Step::Append(vec![payload(rng, 2200)]),
    }
}

fn step_of_member(rng: &mut Rng, n: u64) -> Step {
    match rng.below(20) {
        0..=7 => {
            let max = [60, 600, 1400][rng.below(3)];
            let payloads = (0..1 + rng.below(5)).map(|_| payload(rng, max)).collect();
            Step::Replicate(payloads, [0, 2, 4, 9][rng.below(4)])
        }
        8..=12 => Step::Cut(1 + rng.below(6) as u64),
        13..=14 => Step::Begin(rng.below(4) as u64),
        15..=16 => Step::Follow,
        _ => step(rng, n),
    }
}

/// Lengths around the borders of sectors, or anything; contents with and without zero sectors.
fn payload(rng: &mut Rng, max: usize) -> Vec<u8> {
    let headers = RECORD_HEADER_LEN + ENTRY_HEADER_LEN + PART_HEADER_LEN;
    let len = match rng.below(3) {
        0 => SECTOR * (1 + rng.below(4)) - headers + rng.below(3) - 1,
        1 => rng.below(60),
        _ => rng.below(max),
    };
    let mut content = noise(rng.draw(), len);
    match rng.below(4) {
        0 => content.fill(0),
        1 => {
            let (from, to) = (rng.below(len + 1), rng.below(len + 1));
            content[from.min(to)..from.max(to)].fill(0);
        }
        _ => {}
    }
    content
}
