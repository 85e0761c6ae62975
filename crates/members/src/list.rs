//! Member list: which servers make up a cluster, as its journal says.
//!
//! The leader keeps the list. Every other server registers with it at an interval, which is also
//! its heartbeat. Whenever the list changes the leader puts all of it into the journal, in an entry
//! without effects, and every server that reads the entry has it. Each server keeps the newest list
//! that it has read in a file beside its data.
//!
//! A name belongs to one data directory, whose member id was drawn when it was made. A newcomer
//! with a name that is taken is refused while the holder lives, and takes its place once the holder
//! has been silent for a while: a lost machine is replaced by one of the same name. A member that
//! was replaced or removed is not admitted again.
//!
//! Pure: the times of heartbeats are given.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vetch_journal::{Draft, Entry, Kind, PartId, Payload};

/// Members of a cluster.
const MEMBERS_MAX: usize = 100;
/// Removed member ids that are remembered; beyond them the oldest are forgotten.
const REMOVED_MAX: usize = 1000;
/// Bytes of an encoded member.
const MEMBER_BYTES_MAX: usize = 4096;
/// How long the holder of a name must have been silent for another server to take its place.
const NAME_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for another incarnation of the same server: usually it was restarted.
const INCARNATION_TIMEOUT: Duration = Duration::from_secs(2);
/// A heartbeat may have been in flight when the newcomer began to register.
const HEARTBEAT_SLACK: Duration = Duration::from_millis(300);

const MARK: &[u8; 8] = b"MEMBERS1";

/// A server of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    /// Drawn at random at every start.
    pub incarnation: u64,
    pub name: String,
    pub client_urls: Vec<String>,
    pub peer_urls: Vec<String>,
}

/// The leader's answer to a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// The server is a member.
    Accepted,
    /// Its place may become free: register again.
    Wait,
    /// It is not admitted, for this reason.
    Refused(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberList {
    /// Drawn by the first leader; 0 before. A server that knows it reads the journal, and so is one
    /// of this cluster.
    pub(crate) key: u64,
    members: BTreeMap<u64, Member>,
    removed: VecDeque<u64>,
}

/// What the leader knows about heartbeats.
pub(crate) trait Liveness {
    /// How long ago that incarnation of that member sent a heartbeat to this leader.
    fn last_heartbeat(&self, member: &Member) -> Option<Duration>;
    /// How long this server has been the leader.
    fn leading_for(&self) -> Duration;
}

impl MemberList {
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Member> {
        self.members.get(&id)
    }

    pub(crate) fn is_removed(&self, id: u64) -> bool {
        self.removed.contains(&id)
    }

    /// Decides about a server that has been trying to register for `waited`.
    pub(crate) fn judge(
        &self,
        newcomer: &Member,
        waited: Duration,
        liveness: &impl Liveness,
    ) -> Registration {
        if self.is_removed(newcomer.id) {
            return Registration::Refused(
                "this server was removed from the cluster, or replaced by another one of its name; to join as a new one, \
                 start it with an empty data directory"
                    .into(),
            );
        }
        if encoded_len(newcomer) > MEMBER_BYTES_MAX {
            return Registration::Refused("its name and addresses are too long".into());
        }
        if let Some(known) =
            self.members.get(&newcomer.id).filter(|known| known.incarnation != newcomer.incarnation)
        {
            let text = "another server runs with the identity of this one: was its data directory copied?";
            return release_place(known, waited, INCARNATION_TIMEOUT, liveness, text.into());
        }
        if let Some(holder) = self.holder(newcomer) {
            let text = format!(
                "the name {:?} belongs to another server, member {:x}, which is alive: choose another --name",
                holder.name, holder.id
            );
            return release_place(holder, waited, NAME_TIMEOUT, liveness, text);
        }
        if self.members.len() >= MEMBERS_MAX && !self.members.contains_key(&newcomer.id) {
            return Registration::Refused(format!("a cluster has at most {MEMBERS_MAX} members"));
        }
        Registration::Accepted
    }

    /// Another member with the same name.
    fn holder(&self, newcomer: &Member) -> Option<&Member> {
        self.members.values().find(|member| member.name == newcomer.name && member.id != newcomer.id)
    }

    /// Adds a member, in the place of one with its name. False if nothing changed.
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

    /// Removes a member for good. False if there is none with this id.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let was_there = self.members.remove(&id).is_some();
        if was_there {
            self.removed.push_back(id);
            if self.removed.len() > REMOVED_MAX {
                self.removed.pop_front();
            }
        }
        was_there
    }

    /// An entry with the whole list.
    pub(crate) fn entry(&self) -> Draft {
        let mut draft = Draft::new(Kind::Barrier);
        draft.begin_part(PartId::default());
        draft.payload().extend_from_slice(MARK);
        draft.payload().extend_from_slice(&self.encode());
        draft.end_part(0);
        draft
    }

    /// The list in an entry, if it has one.
    pub fn from_entry(entry: &Entry) -> Option<MemberList> {
        let Payload::Inline(payload) = &entry.parts.first()?.payload else { return None };
        if entry.kind != Kind::Barrier {
            return None;
        }
        MemberList::decode(payload.strip_prefix(MARK.as_slice())?)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.key.to_le_bytes().to_vec();
        put_len(&mut out, self.members.len());
        for member in self.members.values() {
            out.extend_from_slice(&member.id.to_le_bytes());
            out.extend_from_slice(&member.incarnation.to_le_bytes());
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

    /// `None` if these are not the bytes of a list.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<MemberList> {
        let bytes = &mut bytes;
        let mut list = MemberList { key: take_number(bytes)?, ..MemberList::default() };
        for _ in 0..take_len(bytes)? {
            let (id, incarnation, name) = (take_number(bytes)?, take_number(bytes)?, take_text(bytes)?);
            let (client_urls, peer_urls) = (take_texts(bytes)?, take_texts(bytes)?);
            list.members.insert(id, Member { id, incarnation, name, client_urls, peer_urls });
        }
        for _ in 0..take_len(bytes)? {
            list.removed.push_back(take_number(bytes)?);
        }
        bytes.is_empty().then_some(list)
    }
}

/// Whether `holder` has been silent for so long that a server that has waited for its place gets
/// it.
fn release_place(
    holder: &Member,
    waited: Duration,
    timeout: Duration,
    liveness: &impl Liveness,
    refusal: String,
) -> Registration {
    match liveness.last_heartbeat(holder) {
        // It sent a heartbeat since: it lives.
        Some(ago) if ago + HEARTBEAT_SLACK < waited => Registration::Refused(refusal),
        Some(ago) if ago < timeout => Registration::Wait,
        None if liveness.leading_for() < timeout => Registration::Wait,
        _ => Registration::Accepted,
    }
}

fn encoded_len(member: &Member) -> usize {
    let members = BTreeMap::from([(member.id, member.clone())]);
    MemberList { members, ..MemberList::default() }.encode().len()
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

    fn member(id: u64, incarnation: u64, name: &str) -> Member {
        let urls = |port: u64| vec![format!("http://10.0.0.{id}:{port}")];
        Member { id, incarnation, name: name.into(), client_urls: urls(2379), peer_urls: urls(2380) }
    }

    fn list(members: &[Member]) -> MemberList {
        let mut list = MemberList::default();
        members.iter().for_each(|member| assert!(list.admit(member)));
        list
    }

    struct Heartbeats {
        ago: Option<u64>,
        leading_for: u64,
    }

    impl Liveness for Heartbeats {
        fn last_heartbeat(&self, _: &Member) -> Option<Duration> {
            self.ago.map(Duration::from_millis)
        }

        fn leading_for(&self) -> Duration {
            Duration::from_millis(self.leading_for)
        }
    }

    fn judged(
        list: &MemberList,
        newcomer: &Member,
        waited: u64,
        ago: Option<u64>,
        leading_for: u64,
    ) -> Registration {
        list.judge(newcomer, Duration::from_millis(waited), &Heartbeats { ago, leading_for })
    }

    fn is_refused(registration: &Registration) -> bool {
        matches!(registration, Registration::Refused(_))
    }

    #[test]
    fn a_name_is_refused_while_its_holder_lives_and_free_once_it_is_silent() {
        let list = list(&[member(1, 1, "a")]);
        let newcomer = member(2, 2, "a");
        assert_eq!(judged(&list, &newcomer, 0, Some(500), 60_000), Registration::Wait);
        assert!(is_refused(&judged(&list, &newcomer, 1_000, Some(100), 60_000)), "it sent a heartbeat since");
        assert_eq!(judged(&list, &newcomer, 5_000, Some(5_500), 60_000), Registration::Wait);
        assert_eq!(judged(&list, &newcomer, 9_800, Some(10_000), 60_000), Registration::Accepted);
        // A new leader gives every member the time to send a heartbeat.
        assert_eq!(judged(&list, &newcomer, 60_000, None, 9_000), Registration::Wait);
        assert_eq!(judged(&list, &newcomer, 60_000, None, 10_000), Registration::Accepted);
        assert_eq!(judged(&list, &member(3, 1, "b"), 0, None, 0), Registration::Accepted);
    }

    #[test]
    fn a_replaced_or_removed_member_is_not_admitted_again() {
        let mut list = list(&[member(1, 1, "a"), member(3, 1, "c")]);
        assert!(list.admit(&member(2, 2, "a")));
        assert_eq!(list.members().map(|member| member.id).collect::<Vec<_>>(), [2, 3]);
        assert!(is_refused(&judged(&list, &member(1, 9, "a"), 0, None, 60_000)));
        assert!(list.remove(3) && !list.remove(3));
        assert!(is_refused(&judged(&list, &member(3, 1, "c"), 0, Some(0), 60_000)));
    }

    #[test]
    fn another_incarnation_is_admitted_once_the_first_has_ended() {
        let list = list(&[member(1, 1, "a")]);
        assert_eq!(judged(&list, &member(1, 1, "a"), 0, Some(0), 60_000), Registration::Accepted);
        assert_eq!(judged(&list, &member(1, 2, "a"), 500, Some(900), 60_000), Registration::Wait);
        assert_eq!(judged(&list, &member(1, 2, "a"), 1_500, Some(2_000), 60_000), Registration::Accepted);
        assert!(
            is_refused(&judged(&list, &member(1, 2, "a"), 1_500, Some(200), 60_000)),
            "a copied directory"
        );
    }

    #[test]
    fn a_list_round_trips() {
        let mut list = list(&[member(1, 7, "a"), member(2, 8, "b"), member(3, 9, "c")]);
        list.remove(2);
        list.key = 77;
        let mut tip = Tip::genesis(2);
        let chained = list.entry().chain(&mut tip);
        assert_eq!(tip.next_rev, 2, "it takes no revision");
        let entry = Entry::decode(chained.bytes()).unwrap();
        assert_eq!(MemberList::from_entry(&entry), Some(list.clone()));
        let bytes = list.encode();
        for len in 0..bytes.len() {
            assert_eq!(MemberList::decode(&bytes[..len]), None, "{len} bytes of {}", bytes.len());
        }
        let plain = Draft::new(Kind::Barrier).chain(&mut tip);
        assert_eq!(MemberList::from_entry(&Entry::decode(plain.bytes()).unwrap()), None);
    }
}
