//! Trim: which records may be deleted. A record may go when a majority of all servers hold a
//! checkpoint that covers it and agree about its state. The record that made the agreed tip stays:
//! a server that starts from a checkpoint there compares it with the checkpoint.

use vetch_base::Seq;
use vetch_journal::Position;

use super::log_state::LogIndex;

/// Servers hold different states at the same entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "servers {one} and {other} hold checkpoints at entry {seq} that differ: one of them is damaged, nothing may be trimmed"
)]
pub struct CheckpointMismatch {
    pub one: u64,
    pub other: u64,
    pub seq: Seq,
}

/// The lowest position that must stay, given the newest verified checkpoint of each of `servers`
/// servers by member id. `None` if less than a majority holds one.
pub fn trim_floor(servers: usize, held: &[(u64, LogIndex)]) -> Result<Option<Position>, CheckpointMismatch> {
    for (at, (one, index)) in held.iter().enumerate() {
        let differs = |(_, other): &&(u64, LogIndex)| other.tip.seq == index.tip.seq && *other != *index;
        if let Some((other, _)) = held[at + 1..].iter().find(differs) {
            return Err(CheckpointMismatch { one: *one, other: *other, seq: index.tip.seq });
        }
    }
    let mut positions: Vec<Position> = held.iter().map(|(_, index)| index.position).collect();
    positions.sort_unstable_by(|one, other| other.cmp(one));
    let floor = positions.get(servers / 2).copied();
    let covered = |floor: Position| held.iter().filter(|(_, index)| index.position >= floor).count();
    assert!(floor.is_none_or(|floor| covered(floor) > servers / 2), "a majority covers what is trimmed");
    Ok(floor)
}
