//! Trim: how much of the log may be given up. A record may go when a majority of all servers hold a
//! checkpoint that covers it and agree about what it led to. The record that made the agreed tip
//! stays: whoever begins from a checkpoint there compares it with what the checkpoint remembers.

use vetch_journal::Position;

use crate::view::Index;

/// Servers hold different states at one place in the order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "servers {one} and {other} hold checkpoints at entry {seq} that differ: one of them is damaged, nothing may be trimmed"
)]
pub struct Disagreement {
    pub one: u64,
    pub other: u64,
    pub seq: u64,
}

/// The lowest position that has to stay, given the newest verified checkpoint of each of `servers`
/// servers, by number of server; nothing if less than a majority holds one.
pub fn floor(servers: usize, held: &[(u64, Index)]) -> Result<Option<Position>, Disagreement> {
    for (at, (one, index)) in held.iter().enumerate() {
        let differs = |(_, other): &&(u64, Index)| other.tip.seq == index.tip.seq && *other != *index;
        if let Some((other, _)) = held[at + 1..].iter().find(differs) {
            return Err(Disagreement { one: *one, other: *other, seq: index.tip.seq });
        }
    }
    let mut positions: Vec<Position> = held.iter().map(|(_, index)| index.position).collect();
    positions.sort_unstable_by(|one, other| other.cmp(one));
    Ok(positions.get(servers / 2).copied())
}
