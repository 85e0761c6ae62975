//! Members: which servers make up a cluster, as its journal says.
//!
//! The writer keeps the roll. Every other server introduces itself to it, again and again, which is
//! also how the writer knows who lives. Whenever the roll changes the writer puts all of it into
//! the journal, in an entry without effect on the keys, and everybody who reads that has it. Each
//! server keeps the newest roll it has read in a file beside its data.
//!
//! A name belongs to one data directory, whose number was drawn when it was made. A newcomer with a
//! name that is taken is refused while the other one lives, and takes its place once that has been
//! silent for a while: a machine that is gone is replaced by one of the same name. Whoever was
//! replaced or removed is not let in again.
//!
//! Pure: who was heard of when is given.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vetch_journal::{Draft, Entry, Kind, PartId, Payload};

/// Members of a cluster, at most.
const MOST: usize = 100;
/// Numbers that are not let in again; beyond them the oldest are forgotten.
const MOST_REMOVED: usize = 1000;
/// Bytes of a member on the roll.
const LONGEST: usize = 4096;
/// How long the holder of a name must not have been heard of for another server to take its place.
pub const NAME_KEPT: Duration = Duration::from_secs(10);
/// The same for another life of the same server: it has mostly been started again.
const LIFE_KEPT: Duration = Duration::from_secs(2);
/// A sign of life may have been on its way when the newcomer began to ask.
const SLACK: Duration = Duration::from_millis(300);

const MARK: &[u8; 8] = b"MEMBERS1";

/// A server of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    /// Drawn at every start.
    pub life: u64,
    pub name: String,
    pub client_urls: Vec<String>,
    pub peer_urls: Vec<String>,
}

/// What a server that introduces itself is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Introduced {
    /// It is on the roll.
    Known,
    /// Its place may be free; ask again.
    Wait,
    /// It is not let in, for this reason.
    Refused(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Roll {
    /// Drawn by the first writer; 0 before. Whoever knows it can read the journal, and so is a
    /// server of this cluster.
    pub(crate) key: u64,
    members: BTreeMap<u64, Member>,
    removed: VecDeque<u64>,
}

/// What the writer knows of when members were last heard of.
pub(crate) trait Heard {
    /// How long ago that life of that member was heard of by this writer.
    fn ago(&self, member: &Member) -> Option<Duration>;
    /// How long this writer has been listening.
    fn listening(&self) -> Duration;
}

impl Roll {
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Member> {
        self.members.get(&id)
    }

    pub(crate) fn is_removed(&self, id: u64) -> bool {
        self.removed.contains(&id)
    }

    /// Judges a server that has been asking to be let in for some time.
    pub(crate) fn judge(&self, newcomer: &Member, asking: Duration, heard: &impl Heard) -> Introduced {
        if self.is_removed(newcomer.id) {
            return Introduced::Refused(
                "this server was removed from the cluster, or replaced by another one of its name; to join as a new one, \
                 start it with an empty data directory"
                    .into(),
            );
        }
        if encoded_len(newcomer) > LONGEST {
            return Introduced::Refused("its name and addresses are too long".into());
        }
        if let Some(known) = self.members.get(&newcomer.id).filter(|known| known.life != newcomer.life) {
            let text = "another server runs with the identity of this one: was its data directory copied?";
            return place_of(known, asking, LIFE_KEPT, heard, text.into());
        }
        if let Some(holder) = self.holder(newcomer) {
            let text = format!(
                "the name {:?} belongs to another server, member {:x}, which is alive: choose another --name",
                holder.name, holder.id
            );
            return place_of(holder, asking, NAME_KEPT, heard, text);
        }
        if self.members.len() >= MOST && !self.members.contains_key(&newcomer.id) {
            return Introduced::Refused(format!("a cluster has at most {MOST} members"));
        }
        Introduced::Known
    }

    /// Another member with the same name.
    fn holder(&self, newcomer: &Member) -> Option<&Member> {
        self.members.values().find(|member| member.name == newcomer.name && member.id != newcomer.id)
    }

    /// Puts a member on the roll, in the place of one with its name. False if nothing changed.
    pub(crate) fn admit(&mut self, member: &Member) -> bool {
        if self.members.get(&member.id) == Some(member) {
            return false;
        }
        if let Some(id) = self.holder(member).map(|holder| holder.id) {
            self.remove(id);
        }
        self.members.insert(member.id, member.clone());
        true
    }

    /// Takes a member off the roll for good. False if there is none.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let was_there = self.members.remove(&id).is_some();
        if was_there {
            self.removed.push_back(id);
            if self.removed.len() > MOST_REMOVED {
                self.removed.pop_front();
            }
        }
        was_there
    }

    /// An entry that tells the whole roll.
    pub(crate) fn entry(&self) -> Draft {
        let mut draft = Draft::new(Kind::Barrier);
        draft.begin_part(PartId::default());
        draft.payload().extend_from_slice(MARK);
        draft.payload().extend_from_slice(&self.encode());
        draft.end_part(0);
        draft
    }

    /// The roll that an entry tells, if it does.
    pub(crate) fn told_by(entry: &Entry) -> Option<Roll> {
        let Payload::Inline(payload) = &entry.parts.first()?.payload else { return None };
        if entry.kind != Kind::Barrier {
            return None;
        }
        Roll::decode(payload.strip_prefix(MARK.as_slice())?)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.key.to_le_bytes().to_vec();
        put_len(&mut out, self.members.len());
        for member in self.members.values() {
            out.extend_from_slice(&member.id.to_le_bytes());
            out.extend_from_slice(&member.life.to_le_bytes());
            put_text(&mut out, &member.name);
            for urls in [&member.client_urls, &member.peer_urls] {
                put_len(&mut out, urls.len());
                urls.iter().for_each(|url| put_text(&mut out, url));
            }
        }
        put_len(&mut out, self.removed.len());
        self.removed.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
        out
    }

    /// None if these are not the bytes of a roll.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Roll> {
        let bytes = &mut bytes;
        let mut roll = Roll { key: take_number(bytes)?, ..Roll::default() };
        for _ in 0..take_len(bytes)? {
            let (id, life, name) = (take_number(bytes)?, take_number(bytes)?, take_text(bytes)?);
            let (client_urls, peer_urls) = (take_texts(bytes)?, take_texts(bytes)?);
            roll.members.insert(id, Member { id, life, name, client_urls, peer_urls });
        }
        for _ in 0..take_len(bytes)? {
            roll.removed.push_back(take_number(bytes)?);
        }
        bytes.is_empty().then_some(roll)
    }
}

/// Whether the place of `holder` is free for somebody who has been asking for it for some time.
fn place_of(
    holder: &Member,
    asking: Duration,
    kept: Duration,
    heard: &impl Heard,
    refusal: String,
) -> Introduced {
    match heard.ago(holder) {
        // It was heard of since: it lives.
        Some(ago) if ago + SLACK < asking => Introduced::Refused(refusal),
        Some(ago) if ago < kept => Introduced::Wait,
        None if heard.listening() < kept => Introduced::Wait,
        _ => Introduced::Known,
    }
}

fn encoded_len(member: &Member) -> usize {
    let members = BTreeMap::from([(member.id, member.clone())]);
    Roll { members, ..Roll::default() }.encode().len()
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn take_len(bytes: &mut &[u8]) -> Option<usize> {
    let (len, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    usize::try_from(u32::from_le_bytes(*len)).ok()
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let len = take_len(bytes)?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

fn take_texts(bytes: &mut &[u8]) -> Option<Vec<String>> {
    (0..take_len(bytes)?).map(|_| take_text(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_journal::Tip;

    fn member(id: u64, life: u64, name: &str) -> Member {
        let urls = |port: u64| vec![format!("http://10.0.0.{id}:{port}")];
        Member { id, life, name: name.into(), client_urls: urls(2379), peer_urls: urls(2380) }
    }

    fn roll(members: &[Member]) -> Roll {
        let mut roll = Roll::default();
        members.iter().for_each(|member| assert!(roll.admit(member)));
        roll
    }

    struct Ears {
        ago: Option<u64>,
        listening: u64,
    }

    impl Heard for Ears {
        fn ago(&self, _: &Member) -> Option<Duration> {
            self.ago.map(Duration::from_millis)
        }

        fn listening(&self) -> Duration {
            Duration::from_millis(self.listening)
        }
    }

    fn judged(roll: &Roll, newcomer: &Member, asking: u64, ago: Option<u64>, listening: u64) -> Introduced {
        roll.judge(newcomer, Duration::from_millis(asking), &Ears { ago, listening })
    }

    fn is_refused(introduced: &Introduced) -> bool {
        matches!(introduced, Introduced::Refused(_))
    }

    #[test]
    fn a_name_is_refused_while_its_holder_lives_and_free_once_it_is_silent() {
        let roll = roll(&[member(1, 1, "a")]);
        let newcomer = member(2, 2, "a");
        assert_eq!(judged(&roll, &newcomer, 0, Some(500), 60_000), Introduced::Wait);
        assert!(
            is_refused(&judged(&roll, &newcomer, 1_000, Some(100), 60_000)),
            "heard of since it was asked for"
        );
        assert_eq!(judged(&roll, &newcomer, 5_000, Some(5_500), 60_000), Introduced::Wait);
        assert_eq!(judged(&roll, &newcomer, 9_800, Some(10_000), 60_000), Introduced::Known);
        // A new writer gives everybody the time to be heard of.
        assert_eq!(judged(&roll, &newcomer, 60_000, None, 9_000), Introduced::Wait);
        assert_eq!(judged(&roll, &newcomer, 60_000, None, 10_000), Introduced::Known);
        assert_eq!(judged(&roll, &member(3, 1, "b"), 0, None, 0), Introduced::Known);
    }

    #[test]
    fn whoever_was_replaced_or_removed_stays_away() {
        let mut roll = roll(&[member(1, 1, "a"), member(3, 1, "c")]);
        assert!(roll.admit(&member(2, 2, "a")));
        assert_eq!(roll.members().map(|member| member.id).collect::<Vec<_>>(), [2, 3]);
        assert!(is_refused(&judged(&roll, &member(1, 9, "a"), 0, None, 60_000)));
        assert!(roll.remove(3) && !roll.remove(3));
        assert!(is_refused(&judged(&roll, &member(3, 1, "c"), 0, Some(0), 60_000)));
    }

    #[test]
    fn another_life_of_a_server_is_let_in_once_the_first_has_ended() {
        let roll = roll(&[member(1, 1, "a")]);
        assert_eq!(judged(&roll, &member(1, 1, "a"), 0, Some(0), 60_000), Introduced::Known);
        assert_eq!(judged(&roll, &member(1, 2, "a"), 500, Some(900), 60_000), Introduced::Wait);
        assert_eq!(judged(&roll, &member(1, 2, "a"), 1_500, Some(2_000), 60_000), Introduced::Known);
        assert!(
            is_refused(&judged(&roll, &member(1, 2, "a"), 1_500, Some(200), 60_000)),
            "a copied directory"
        );
    }

    #[test]
    fn a_roll_is_read_as_it_was_written() {
        let mut roll = roll(&[member(1, 7, "a"), member(2, 8, "b"), member(3, 9, "c")]);
        roll.remove(2);
        roll.key = 77;
        let mut tip = Tip::genesis(2);
        let chained = roll.entry().chain(&mut tip);
        assert_eq!(tip.next_rev, 2, "it takes no revision");
        let entry = Entry::decode(chained.bytes()).unwrap();
        assert_eq!(Roll::told_by(&entry), Some(roll.clone()));
        let bytes = roll.encode();
        for len in 0..bytes.len() {
            assert_eq!(Roll::decode(&bytes[..len]), None, "{len} bytes of {}", bytes.len());
        }
        let plain = Draft::new(Kind::Barrier).chain(&mut tip);
        assert_eq!(Roll::told_by(&Entry::decode(plain.bytes()).unwrap()), None);
    }
}
