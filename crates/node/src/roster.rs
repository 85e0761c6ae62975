//! Roster: which servers share the journal, where they are, and how far each has a checkpoint on
//! disk. From that follows how much of the journal may be given up.
//!
//! Servers tell the writer of themselves, and the writer tells everybody: the roster travels in its
//! announcements. So every server knows where a checkpoint can be had, and a new writer begins with
//! what its predecessor knew.
//!
//! Pure: the time is given.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf, BufMut};
use vetch_cluster::{CheckpointMismatch, LogIndex, trim_floor};
use vetch_journal::{Position, Tip};

/// Servers that are remembered; one more is not.
const MOST: usize = 64;
/// A server that was not heard of for this long is not waited for: its checkpoint is behind, and it
/// takes another's when it returns.
const LAGGARD: Duration = Duration::from_secs(120);
/// How long a writer that inherited no roster waits for servers to tell of themselves.
const UNKNOWN: Duration = Duration::from_secs(600);
/// And for this long it is gone: it does not count any more.
const GONE: Duration = Duration::from_secs(24 * 3600);
/// The longest URL that is remembered.
const LONGEST_URL: usize = 1024;

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub member: u64,
    pub url: String,
    /// The checkpoint before its newest, both of which it has read back: what it needs the journal
    /// from.
    pub vote: Option<LogIndex>,
    /// Records from here on are needed by somebody who is taking a checkpoint from it.
    pub keep: Option<Position>,
}

/// A server on the same journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub member: u64,
    pub url: String,
    pub vote: Option<LogIndex>,
}

#[derive(Debug, Default)]
pub(crate) struct Roster {
    servers: BTreeMap<u64, Known>,
    /// Until when there may be servers that nobody told of.
    unknown: Option<Duration>,
}

#[derive(Debug)]
struct Known {
    url: String,
    vote: Option<LogIndex>,
    keep: Option<Position>,
    heard: Duration,
}

impl Roster {
    /// Of a server that begins in the middle of a journal: it has not heard who the others are.
    pub(crate) fn unknown(now: Duration) -> Roster {
        Roster { unknown: Some(now + UNKNOWN), ..Roster::default() }
    }

    /// A server told of itself.
    pub(crate) fn heard(&mut self, now: Duration, report: Report) {
        let Report { member, url, vote, keep } = report;
        let has_room = self.servers.len() < MOST || self.servers.contains_key(&member);
        if has_room && url.len() <= LONGEST_URL {
            self.servers.insert(member, Known { url, vote, keep, heard: now });
        }
    }

    /// The writer told of everybody.
    pub(crate) fn told(&mut self, now: Duration, peers: Vec<Peer>) {
        let known =
            |peer: Peer| (peer.member, Known { url: peer.url, vote: peer.vote, keep: None, heard: now });
        self.servers = peers.into_iter().take(MOST).map(known).collect();
        self.unknown = None;
    }

    /// From now on this server is the one that is told: everybody has been heard a moment ago, as
    /// far as it knows.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.servers.values_mut().for_each(|known| known.heard = now);
        self.unknown = self.unknown.map(|_| now + UNKNOWN);
    }

    pub(crate) fn forget_gone(&mut self, now: Duration) {
        self.servers.retain(|_, known| now < known.heard + GONE);
    }

    pub(crate) fn peers(&self) -> Vec<Peer> {
        let peer = |(member, known): (&u64, &Known)| Peer {
            member: *member,
            url: known.url.clone(),
            vote: known.vote,
        };
        self.servers.iter().map(peer).collect()
    }

    /// Records below this position may go: a majority has checkpoints there or later, and nobody
    /// who was heard of lately needs them. `pressed`: there is little room, so that who is behind
    /// is not waited for.
    pub(crate) fn floor(&self, now: Duration, pressed: bool) -> Result<Option<Position>, CheckpointMismatch> {
        if self.unknown.is_some_and(|until| now < until) {
            return Ok(None);
        }
        let held: Vec<(u64, LogIndex)> =
            self.servers.iter().filter_map(|(member, known)| Some((*member, known.vote?))).collect();
        let Some(agreed) = trim_floor(self.servers.len(), &held)? else { return Ok(None) };
        let lately = || self.servers.values().filter(|known| now < known.heard + LAGGARD);
        let behind = lately().filter(|_| !pressed).filter_map(|known| known.vote).map(|vote| vote.position);
        let kept = lately().filter_map(|known| known.keep);
        Ok(behind.chain(kept).chain([agreed]).min())
    }
}

/// Of a roster: member, length of the URL, URL, whether there is a vote, and the vote.
pub(crate) fn encode(peers: &[Peer], out: &mut Vec<u8>) {
    for peer in peers {
        out.put_u64_le(peer.member);
        out.put_u16_le(u16::try_from(peer.url.len()).expect("longer ones are not remembered"));
        out.put_slice(peer.url.as_bytes());
        out.put_u8(peer.vote.is_some().into());
        if let Some(LogIndex { position, tip }) = &peer.vote {
            out.put_u64_le(position.0);
            out.put_u64_le(tip.epoch);
            out.put_u64_le(tip.seq);
            out.put_slice(&tip.hash);
            out.put_i64_le(tip.next_rev);
        }
    }
}

/// None if these are not the bytes of a roster.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Peer>> {
    let mut peers = Vec::new();
    while !bytes.is_empty() {
        let member = bytes.try_get_u64_le().ok()?;
        let len = usize::from(bytes.try_get_u16_le().ok()?);
        let (url, rest) = bytes.split_at_checked(len)?;
        bytes = rest;
        let url = String::from_utf8(url.to_vec()).ok()?;
        let vote = match bytes.try_get_u8().ok()? {
            0 => None,
            1 => Some(take_index(&mut bytes)?),
            _ => return None,
        };
        peers.push(Peer { member, url, vote });
    }
    Some(peers)
}

fn take_index(bytes: &mut &[u8]) -> Option<LogIndex> {
    let position = Position(bytes.try_get_u64_le().ok()?);
    let (epoch, seq) = (bytes.try_get_u64_le().ok()?, bytes.try_get_u64_le().ok()?);
    let (hash, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(LogIndex { position, tip: Tip { epoch, seq, hash: *hash, next_rev: bytes.try_get_i64_le().ok()? } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(at: u64) -> LogIndex {
        LogIndex { position: Position(at), tip: Tip { epoch: 1, seq: at, hash: [at as u8; 32], next_rev: 2 } }
    }

    fn report(member: u64, vote: Option<u64>) -> Report {
        Report { member, url: format!("http://server-{member}"), vote: vote.map(index), keep: None }
    }

    fn roster(votes: &[Option<u64>]) -> Roster {
        let mut roster = Roster::default();
        for (member, vote) in votes.iter().enumerate() {
            roster.heard(Duration::ZERO, report(member as u64, *vote));
        }
        roster
    }

    const LATER: Duration = Duration::from_secs(121);

    fn floor_of(votes: &[Option<u64>], now: Duration, pressed: bool) -> Option<u64> {
        roster(votes).floor(now, pressed).unwrap().map(|position| position.0)
    }

    #[test]
    fn a_majority_decides_and_who_was_heard_of_is_waited_for() {
        assert_eq!(floor_of(&[Some(5)], Duration::ZERO, false), Some(5), "alone");
        assert_eq!(floor_of(&[Some(5), None], Duration::ZERO, false), None);
        assert_eq!(floor_of(&[Some(5), Some(9), None], Duration::ZERO, false), Some(5));
        assert_eq!(floor_of(&[Some(5), Some(9), Some(2)], Duration::ZERO, false), Some(2), "still there");
        assert_eq!(floor_of(&[Some(5), Some(9), Some(2)], Duration::ZERO, true), Some(5), "little room");
        assert_eq!(floor_of(&[Some(5), Some(9), Some(2)], LATER, false), Some(5), "nobody was heard of");
    }

    #[test]
    fn who_is_gone_for_good_does_not_count_and_comes_back_by_telling_of_itself() {
        let mut roster = roster(&[Some(5), Some(4), Some(3)]);
        let tomorrow = Duration::from_secs(24 * 3600);
        roster.heard(tomorrow, report(0, Some(50)));
        roster.forget_gone(tomorrow);
        assert_eq!(roster.floor(tomorrow, false).unwrap(), Some(Position(50)));
        roster.heard(tomorrow, report(1, None));
        assert_eq!(roster.floor(tomorrow, false).unwrap(), None, "one of two is no majority");
    }

    #[test]
    fn who_does_not_know_the_others_waits_for_them() {
        let mut roster = Roster::unknown(Duration::ZERO);
        roster.begin(LATER);
        roster.heard(LATER, report(0, Some(5)));
        assert_eq!(roster.floor(LATER, true).unwrap(), None);
        assert_eq!(roster.floor(LATER + UNKNOWN, false).unwrap(), Some(Position(5)), "nobody came");
        roster.begin(LATER);
        roster.told(LATER, vec![Peer { member: 0, url: String::new(), vote: Some(index(5)) }]);
        assert_eq!(roster.floor(LATER, false).unwrap(), Some(Position(5)));
    }

    #[test]
    fn what_a_transfer_needs_is_kept_even_when_there_is_little_room() {
        let mut roster = roster(&[Some(5), Some(9), Some(9)]);
        roster.heard(Duration::ZERO, Report { keep: Some(Position(3)), ..report(2, Some(9)) });
        assert_eq!(roster.floor(Duration::ZERO, true).unwrap(), Some(Position(3)));
    }

    #[test]
    fn servers_that_disagree_keep_everything() {
        let mut roster = roster(&[Some(5), Some(5), Some(5)]);
        let other = LogIndex { tip: Tip { hash: [9; 32], ..index(5).tip }, ..index(5) };
        roster.heard(Duration::ZERO, Report { vote: Some(other), ..report(1, None) });
        assert!(roster.floor(Duration::ZERO, true).is_err());
    }

    #[test]
    fn a_roster_is_read_as_it_was_written_and_nothing_else_is() {
        let peers = roster(&[Some(5), None, Some(7)]).peers();
        let mut bytes = Vec::new();
        encode(&peers, &mut bytes);
        assert_eq!(decode(&bytes), Some(peers));
        // Cut between two servers it is a shorter roster; anywhere else it is none.
        let whole = (0..bytes.len()).filter(|&len| decode(&bytes[..len]).is_some()).count();
        assert_eq!(whole, 3);
    }
}
