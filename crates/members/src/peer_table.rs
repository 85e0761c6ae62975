//! Peer table: which servers share the journal, where they are, and how far each has a checkpoint
//! on disk. From that follows how much of the journal may be trimmed.
//!
//! Servers report to the leader, and the leader publishes the table in its announcements. So every
//! server knows where to fetch a checkpoint, and a new leader begins with what the one before it
//! knew.
//!
//! Pure: the time is given.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf, BufMut};
use vetch_base::{Epoch, Seq};
use vetch_cluster::{CheckpointMismatch, LogIndex, trim_floor};
use vetch_journal::{Position, Tip};

/// Servers in the table; reports of others are dropped.
const PEERS_MAX: usize = 64;
/// A trim does not wait for a server that sent no report for this long: it fetches a checkpoint
/// when it returns.
const LAGGARD_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a leader that inherited no table waits for reports.
const UNKNOWN_PEERS_TIMEOUT: Duration = Duration::from_secs(600);
/// After this long without a report a server is removed from the table.
const GONE_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// Bytes of a URL.
const URL_MAX: usize = 1024;

/// A server's report to the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub member: u64,
    pub url: String,
    /// The checkpoint before its newest, both of which it has read back: from where it needs the
    /// journal.
    pub vote: Option<LogIndex>,
    /// Records from here on are needed by a server that is fetching a checkpoint from it.
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
pub struct PeerTable {
    servers: BTreeMap<u64, Server>,
    /// Until when there may be servers that are not in the table.
    incomplete_until: Option<Duration>,
}

#[derive(Debug)]
struct Server {
    url: String,
    vote: Option<LogIndex>,
    keep: Option<Position>,
    reported_at: Duration,
}

impl PeerTable {
    /// For a server that begins in the middle of a journal: it does not know the others.
    pub fn incomplete(now: Duration) -> PeerTable {
        PeerTable { incomplete_until: Some(now + UNKNOWN_PEERS_TIMEOUT), ..PeerTable::default() }
    }

    /// A server reported.
    pub fn update(&mut self, now: Duration, report: Report) {
        let Report { member, url, vote, keep } = report;
        let has_room = self.servers.len() < PEERS_MAX || self.servers.contains_key(&member);
        if has_room && url.len() <= URL_MAX {
            self.servers.insert(member, Server { url, vote, keep, reported_at: now });
        }
    }

    /// The leader announced its table.
    pub fn set_announced(&mut self, now: Duration, peers: Vec<Peer>) {
        let known = |peer: Peer| {
            (peer.member, Server { url: peer.url, vote: peer.vote, keep: None, reported_at: now })
        };
        self.servers = peers.into_iter().take(PEERS_MAX).map(known).collect();
        self.incomplete_until = None;
    }

    /// From now on this server gets the reports. All servers get the full time for their first one.
    pub fn begin_leading(&mut self, now: Duration) {
        self.servers.values_mut().for_each(|known| known.reported_at = now);
        self.incomplete_until = self.incomplete_until.map(|_| now + UNKNOWN_PEERS_TIMEOUT);
    }

    pub fn forget_gone(&mut self, now: Duration) {
        self.servers.retain(|_, known| now < known.reported_at + GONE_TIMEOUT);
    }

    pub fn peers(&self) -> Vec<Peer> {
        let peer = |(member, known): (&u64, &Server)| Peer {
            member: *member,
            url: known.url.clone(),
            vote: known.vote,
        };
        self.servers.iter().map(peer).collect()
    }

    /// Records below this position may be trimmed: a majority has checkpoints there or later, and
    /// no server that reported lately needs them. `pressed`: the log has little room left, so the
    /// trim does not wait for servers that are behind.
    pub fn floor(&self, now: Duration, pressed: bool) -> Result<Option<Position>, CheckpointMismatch> {
        if self.incomplete_until.is_some_and(|until| now < until) {
            return Ok(None);
        }
        let held: Vec<(u64, LogIndex)> =
            self.servers.iter().filter_map(|(member, known)| Some((*member, known.vote?))).collect();
        let Some(agreed) = trim_floor(self.servers.len(), &held)? else { return Ok(None) };
        let lately = || self.servers.values().filter(|known| now < known.reported_at + LAGGARD_TIMEOUT);
        let behind = lately().filter(|_| !pressed).filter_map(|known| known.vote).map(|vote| vote.position);
        let kept = lately().filter_map(|known| known.keep);
        Ok(behind.chain(kept).chain([agreed]).min())
    }
}

/// Per peer: member, length of the URL, URL, whether there is a vote, and the vote.
pub(crate) fn encode(peers: &[Peer], out: &mut Vec<u8>) {
    for peer in peers {
        out.put_u64_le(peer.member);
        out.put_u16_le(u16::try_from(peer.url.len()).expect("longer ones are dropped"));
        out.put_slice(peer.url.as_bytes());
        out.put_u8(peer.vote.is_some().into());
        if let Some(LogIndex { position, tip }) = &peer.vote {
            out.put_u64_le(position.0);
            out.put_u64_le(tip.epoch.get());
            out.put_u64_le(tip.seq.get());
            out.put_slice(&tip.hash);
            out.put_i64_le(tip.next_rev);
        }
    }
}

/// `None` if these are not the bytes of a table.
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
    let (epoch, seq) = (Epoch::new(bytes.try_get_u64_le().ok()?), Seq::new(bytes.try_get_u64_le().ok()?));
    let (hash, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(LogIndex { position, tip: Tip { epoch, seq, hash: *hash, next_rev: bytes.try_get_i64_le().ok()? } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(at: u64) -> LogIndex {
        LogIndex {
            position: Position(at),
            tip: Tip { epoch: Epoch::new(1), seq: Seq::new(at), hash: [at as u8; 32], next_rev: 2 },
        }
    }

    fn report(member: u64, vote: Option<u64>) -> Report {
        Report { member, url: format!("http://server-{member}"), vote: vote.map(index), keep: None }
    }

    fn table(votes: &[Option<u64>]) -> PeerTable {
        let mut table = PeerTable::default();
        for (member, vote) in votes.iter().enumerate() {
            table.update(Duration::ZERO, report(member as u64, *vote));
        }
        table
    }

    const LATER: Duration = Duration::from_secs(121);

    fn floor_of(votes: &[Option<u64>], now: Duration, pressed: bool) -> Option<u64> {
        table(votes).floor(now, pressed).unwrap().map(|position| position.0)
    }

    #[test]
    fn a_majority_decides_and_a_trim_waits_for_live_servers() {
        assert_eq!(floor_of(&[Some(5)], Duration::ZERO, false), Some(5), "alone");
        assert_eq!(floor_of(&[Some(5), None], Duration::ZERO, false), None);
        assert_eq!(floor_of(&[Some(5), Some(9), None], Duration::ZERO, false), Some(5));
        assert_eq!(floor_of(&[Some(5), Some(9), Some(2)], Duration::ZERO, false), Some(2), "still there");
        assert_eq!(floor_of(&[Some(5), Some(9), Some(2)], Duration::ZERO, true), Some(5), "little room");
        assert_eq!(floor_of(&[Some(5), Some(9), Some(2)], LATER, false), Some(5), "no server reported");
    }

    #[test]
    fn a_server_that_is_gone_is_removed_and_returns_with_its_next_report() {
        let mut table = table(&[Some(5), Some(4), Some(3)]);
        let tomorrow = Duration::from_secs(24 * 3600);
        table.update(tomorrow, report(0, Some(50)));
        table.forget_gone(tomorrow);
        assert_eq!(table.floor(tomorrow, false).unwrap(), Some(Position(50)));
        table.update(tomorrow, report(1, None));
        assert_eq!(table.floor(tomorrow, false).unwrap(), None, "one of two is no majority");
    }

    #[test]
    fn a_leader_with_an_incomplete_table_waits_for_reports() {
        let mut table = PeerTable::incomplete(Duration::ZERO);
        table.begin_leading(LATER);
        table.update(LATER, report(0, Some(5)));
        assert_eq!(table.floor(LATER, true).unwrap(), None);
        assert_eq!(
            table.floor(LATER + UNKNOWN_PEERS_TIMEOUT, false).unwrap(),
            Some(Position(5)),
            "no report came"
        );
        table.begin_leading(LATER);
        table.set_announced(LATER, vec![Peer { member: 0, url: String::new(), vote: Some(index(5)) }]);
        assert_eq!(table.floor(LATER, false).unwrap(), Some(Position(5)));
    }

    #[test]
    fn what_a_transfer_needs_is_kept_even_when_there_is_little_room() {
        let mut table = table(&[Some(5), Some(9), Some(9)]);
        table.update(Duration::ZERO, Report { keep: Some(Position(3)), ..report(2, Some(9)) });
        assert_eq!(table.floor(Duration::ZERO, true).unwrap(), Some(Position(3)));
    }

    #[test]
    fn servers_that_disagree_keep_everything() {
        let mut table = table(&[Some(5), Some(5), Some(5)]);
        let other = LogIndex { tip: Tip { hash: [9; 32], ..index(5).tip }, ..index(5) };
        table.update(Duration::ZERO, Report { vote: Some(other), ..report(1, None) });
        assert!(table.floor(Duration::ZERO, true).is_err());
    }

    #[test]
    fn a_table_round_trips() {
        let peers = table(&[Some(5), None, Some(7)]).peers();
        let mut bytes = Vec::new();
        encode(&peers, &mut bytes);
        assert_eq!(decode(&bytes), Some(peers));
        // Cut between two servers it is a shorter table; anywhere else it is invalid.
        let whole = (0..bytes.len()).filter(|&len| decode(&bytes[..len]).is_some()).count();
        assert_eq!(whole, 3);
    }
}
