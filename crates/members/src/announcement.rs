//! Announcement: an entry without effects in which the leader publishes its address and its peers.

use bytes::Bytes;
use vetch_cluster::Record;
use vetch_journal::{Draft, Entry, Kind, PartId, Payload};

use crate::peer_table::{self, Peer};
use crate::{Leader, Proof};

pub fn encode(leader: &Leader, peers: &[Peer]) -> Draft {
    let mut draft = Draft::new(Kind::Barrier);
    draft.begin_part(PartId::default());
    draft.payload().extend_from_slice(&leader.member.to_le_bytes());
    draft.payload().extend_from_slice(leader.url.as_bytes());
    draft.end_part(0);
    draft.begin_part(PartId::default());
    peer_table::encode(peers, draft.payload());
    draft.end_part(0);
    draft
}

/// The leader that an entry announces. `None` if it is no announcement.
pub fn leader_of(entry: &Entry) -> Option<Leader> {
    let Payload::Inline(payload) = &entry.parts.first()?.payload else { return None };
    if entry.kind != Kind::Barrier {
        return None;
    }
    let (member, url) = payload.split_first_chunk()?;
    // Other barriers have a payload, too.
    let url = String::from_utf8(url.to_vec()).ok().filter(|url| url.starts_with("http"))?;
    Some(Leader { member: u64::from_le_bytes(*member), url })
}

/// The peers in an announcement.
pub fn peers_of(entry: &Entry) -> Option<Vec<Peer>> {
    let Payload::Inline(payload) = &entry.parts.get(1)?.payload else { return None };
    peer_table::decode(payload)
}

/// The newest announcement in a record, for a server that cannot read the whole journal: its peers,
/// and the proof that the server has read it.
pub fn find_in_record(record: &Bytes) -> Option<(Proof, Vec<Peer>)> {
    let record = Record::decode(record).ok()?;
    let mut entries = record.entries().iter().rev();
    entries.find_map(|(entry, hash)| {
        let Leader { member, url } = leader_of(entry)?;
        let mut peers = peers_of(entry)?;
        // Last, because the leader has most to do.
        peers.retain(|peer| peer.member != member);
        peers.push(Peer { member, url, vote: None });
        Some((Proof { seq: entry.seq, hash: *hash }, peers))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_base::{Epoch, Seq};
    use vetch_journal::Tip;

    #[test]
    fn an_announcement_round_trips() {
        let leader = Leader { member: 7, url: "http://10.0.0.1:2379".into() };
        let mut tip = Tip { epoch: Epoch::new(3), seq: Seq::new(9), hash: [1; 32], next_rev: 5 };
        let peers = vec![
            Peer { member: 7, url: "http://10.0.0.1:2379".into(), vote: None },
            Peer { member: 8, url: "b".into(), vote: None },
        ];
        let chained = encode(&leader, &peers).chain(&mut tip);
        let entry = Entry::decode(chained.bytes()).unwrap();
        assert_eq!(leader_of(&entry), Some(leader));
        assert_eq!(peers_of(&entry), Some(peers));
        let (proof, found) = find_in_record(chained.bytes()).unwrap();
        assert_eq!((proof.seq, proof.hash), (tip.seq, tip.hash));
        assert_eq!(found.iter().map(|peer| peer.member).collect::<Vec<_>>(), [8, 7]);
        assert_eq!(tip.next_rev, 5, "it takes no revision");
        let plain = Draft::new(Kind::Barrier).chain(&mut tip);
        assert_eq!(leader_of(&Entry::decode(plain.bytes()).unwrap()), None);
    }
}
