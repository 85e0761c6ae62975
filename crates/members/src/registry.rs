//! Member registry: keeps the member list for the journal thread of a node. See `list`.
//!
//! While this server leads it admits others and puts every change of the list into the journal.
//! While another one leads, it takes the list from the journal.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use vetch_base::Seq;
use vetch_cluster::{ReplicaId, Ticket};
use vetch_journal::{Disk, Draft, read_file, write_atomically};

use crate::list::{Liveness, Member, MemberList, Registration};

/// How often the list is published although nothing changed, for servers that have read only a part
/// of the journal.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(2);
/// How often the leader checks that it is on the list itself.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// A server whose last heartbeat is more recent may become the leader by a transfer.
const ALIVE_TIMEOUT: Duration = Duration::from_millis(1500);

const FILE: &str = "members";
const MAGIC: &[u8; 8] = b"VETCHMB1";

/// A command about members, for the leader.
pub enum MemberCommand {
    Register {
        member: Member,
        waited: Duration,
        reply: oneshot::Sender<Registration>,
    },
    /// Replies false if there is no such member.
    Remove {
        id: u64,
        reply: oneshot::Sender<bool>,
    },
    /// Replies with the server that could lead next: `id`, or the one with the newest heartbeat.
    FindTransferTarget {
        id: Option<u64>,
        reply: oneshot::Sender<Option<ReplicaId>>,
    },
}

/// A reply that waits until the list with its change is committed.
enum PendingReply {
    Registered(oneshot::Sender<Registration>),
    Removed(oneshot::Sender<bool>),
}

/// The leader has not admitted this server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this server is not let into the cluster: {0}")]
pub struct Refused(pub String);

pub struct MemberRegistry {
    me: Member,
    /// As committed in the journal, and as in the file.
    committed: MemberList,
    /// The same with the changes that this leader has made since.
    list: MemberList,
    /// The sequence number of the entry with the committed list.
    committed_seq: Seq,
    /// Incarnations that sent a heartbeat while this server leads, and when.
    heartbeats: HashMap<u64, (u64, Duration)>,
    leading_since: Duration,
    last_published: Option<Duration>,
    last_check: Option<Duration>,
    /// The list has changed since it was last proposed.
    changed: bool,
    proposed: Option<(Ticket, MemberList)>,
    /// Replies that wait for the list in flight.
    waiting: Vec<PendingReply>,
    /// Replies that wait for the next one.
    next: Vec<PendingReply>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

struct Heartbeats<'a> {
    registry: &'a MemberRegistry,
    now: Duration,
}

impl Liveness for Heartbeats<'_> {
    fn last_heartbeat(&self, member: &Member) -> Option<Duration> {
        if member.id == self.registry.me.id {
            return (member.incarnation == self.registry.me.incarnation).then_some(Duration::ZERO);
        }
        let (incarnation, at) = self.registry.heartbeats.get(&member.id)?;
        (*incarnation == member.incarnation).then(|| self.now.saturating_sub(*at))
    }

    fn leading_for(&self) -> Duration {
        self.now.saturating_sub(self.registry.leading_since)
    }
}

impl MemberRegistry {
    /// With the newest list that an earlier incarnation has read. An unreadable file is ignored:
    /// the journal has the list again.
    pub fn load(disk: Arc<dyn Disk>, dir: PathBuf, me: Member) -> MemberRegistry {
        let (committed_seq, list) = match read_file(disk.as_ref(), &dir.join(FILE)) {
            Ok(bytes) => decode(&bytes).unwrap_or_else(|| {
                tracing::warn!(
                    file = FILE,
                    "the member list is damaged; it will be read from the journal again"
                );
                Default::default()
            }),
            Err(_) => Default::default(),
        };
        MemberRegistry {
            me,
            committed: list.clone(),
            list,
            committed_seq,
            heartbeats: HashMap::new(),
            leading_since: Duration::ZERO,
            last_published: None,
            last_check: None,
            changed: false,
            proposed: None,
            waiting: Vec::new(),
            next: Vec::new(),
            disk,
            dir,
        }
    }

    pub fn members(&self) -> Arc<Vec<Member>> {
        Arc::new(self.committed.members().cloned().collect())
    }

    pub fn key(&self) -> u64 {
        self.committed.key
    }

    pub fn get(&self, id: u64) -> Option<&Member> {
        self.committed.get(id)
    }

    /// Whether this server was removed, or replaced.
    pub fn is_removed(&self) -> bool {
        self.committed.is_removed(self.me.id)
    }

    /// This server begins to lead.
    pub fn begin_leading(&mut self, now: Duration) {
        self.heartbeats.clear();
        (self.leading_since, self.last_published, self.last_check) = (now, None, None);
        if self.list.key == 0 {
            self.list.key = RandomState::new().hash_one(self.me.incarnation).max(1);
        }
    }

    /// This server no longer leads: callers have to ask the new leader.
    pub fn begin_following(&mut self) {
        self.waiting.clear();
        self.next.clear();
        (self.changed, self.proposed) = (false, None);
        self.list = self.committed.clone();
    }

    /// A list was read in the journal. False if it changes nothing.
    pub fn read(&mut self, list: MemberList, number: Seq) -> bool {
        if number <= self.committed_seq {
            return false;
        }
        self.committed_seq = number;
        let is_news = self.committed != list;
        if is_news {
            self.list = list.clone();
            self.set_committed(list);
        }
        is_news
    }

    /// Executes a command. A reply to a change of the list waits until the change is committed.
    pub fn execute(&mut self, now: Duration, command: MemberCommand) {
        match command {
            MemberCommand::Register { member, waited, reply } => self.register(now, &member, waited, reply),
            MemberCommand::Remove { id, reply } => {
                if self.list.remove(id) {
                    self.changed = true;
                    self.next.push(PendingReply::Removed(reply));
                } else {
                    let _ = reply.send(false);
                }
            }
            MemberCommand::FindTransferTarget { id, reply } => {
                let _ = reply.send(self.transfer_target(now, id));
            }
        }
    }

    fn register(
        &mut self,
        now: Duration,
        member: &Member,
        waited: Duration,
        reply: oneshot::Sender<Registration>,
    ) {
        let judged = self.list.judge(member, waited, &Heartbeats { registry: self, now });
        if judged != Registration::Accepted {
            let _ = reply.send(judged);
            return;
        }
        self.heartbeats.insert(member.id, (member.incarnation, now));
        self.changed |= self.list.admit(member);
        if self.changed {
            self.next.push(PendingReply::Registered(reply));
        } else if self.proposed.is_some() {
            self.waiting.push(PendingReply::Registered(reply));
        } else {
            let _ = reply.send(judged);
        }
    }

    fn transfer_target(&self, now: Duration, id: Option<u64>) -> Option<ReplicaId> {
        let alive = self.heartbeats.iter().filter(|(_, (_, at))| now.saturating_sub(*at) < ALIVE_TIMEOUT);
        let wanted =
            alive.filter(|(one, _)| id.is_none_or(|id| **one == id) && self.list.get(**one).is_some());
        let last = wanted.max_by_key(|(_, (_, at))| *at);
        last.map(|(member, (incarnation, _))| ReplicaId { member: *member, incarnation: *incarnation })
    }

    /// Keeps this server on the list. An error if another one has its place.
    pub fn check_own_place(&mut self, now: Duration) -> Result<(), Refused> {
        if self.last_check.is_some_and(|last| now < last + CHECK_INTERVAL) {
            return Ok(());
        }
        self.last_check = Some(now);
        let me = self.me.clone();
        match self.list.judge(
            &me,
            now.saturating_sub(self.leading_since),
            &Heartbeats { registry: self, now },
        ) {
            Registration::Accepted => self.changed |= self.list.admit(&me),
            Registration::Wait => {}
            Registration::Refused(why) => return Err(Refused(why)),
        }
        Ok(())
    }

    /// The entry that has to be proposed now, if any.
    pub fn due(&self, now: Duration) -> Option<Draft> {
        let is_late = self.last_published.is_none_or(|last| now >= last + PUBLISH_INTERVAL);
        (self.proposed.is_none() && (self.changed || is_late)).then(|| self.list.entry())
    }

    pub fn proposed(&mut self, now: Duration, ticket: Ticket) {
        let list = self.list.clone();
        (self.proposed, self.changed, self.last_published) = (Some((ticket, list)), false, Some(now));
        self.waiting.append(&mut self.next);
    }

    /// An own append is committed. True if it was the list.
    pub fn committed(&mut self, ticket: Ticket, number: Seq) -> bool {
        let Some((_, list)) = self.proposed.take_if(|(proposed, _)| *proposed == ticket) else {
            return false;
        };
        self.committed_seq = number;
        if self.committed != list {
            self.set_committed(list);
        }
        true
    }

    /// Sends the replies that waited for the committed list.
    pub fn reply_committed(&mut self) {
        for pending in self.waiting.drain(..) {
            match pending {
                PendingReply::Registered(reply) => drop(reply.send(Registration::Accepted)),
                PendingReply::Removed(reply) => {
                    let _ = reply.send(true);
                }
            }
        }
    }

    /// An own append was dropped. If it was the list, it is proposed again.
    pub fn dropped(&mut self, ticket: Ticket) {
        if self.proposed.take_if(|(proposed, _)| *proposed == ticket).is_some() {
            self.changed = true;
        }
    }

    /// A list is committed. It is saved for the next incarnation; if that fails, that one reads it
    /// from the journal again.
    fn set_committed(&mut self, list: MemberList) {
        self.committed = list;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.committed_seq.get().to_le_bytes());
        bytes.extend_from_slice(&self.committed.encode());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        if let Err(error) = write_atomically(self.disk.as_ref(), &self.dir, FILE, &bytes) {
            tracing::warn!(%error, file = FILE, "the member list cannot be saved");
        }
    }
}

/// The sequence number of its entry, and the list.
fn decode(bytes: &[u8]) -> Option<(Seq, MemberList)> {
    let (body, checksum) = bytes.split_last_chunk()?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let (number, list) = body.strip_prefix(MAGIC.as_slice())?.split_first_chunk()?;
    Some((Seq::new(u64::from_le_bytes(*number)), MemberList::decode(list)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use vetch_journal::MemDisk;

    fn member(id: u64, name: &str) -> Member {
        Member { id, incarnation: id, name: name.into(), client_urls: Vec::new(), peer_urls: Vec::new() }
    }

    fn registry(disk: &Arc<MemDisk>, id: u64, name: &str) -> MemberRegistry {
        disk.create_dir_all(Path::new("/d")).unwrap();
        MemberRegistry::load(Arc::clone(disk) as Arc<dyn Disk>, PathBuf::from("/d"), member(id, name))
    }

    fn register(
        registry: &mut MemberRegistry,
        now: u64,
        id: u64,
        name: &str,
    ) -> oneshot::Receiver<Registration> {
        let (reply, answer) = oneshot::channel();
        let command = MemberCommand::Register { member: member(id, name), waited: Duration::ZERO, reply };
        registry.execute(Duration::from_secs(now), command);
        answer
    }

    #[test]
    fn a_registration_is_accepted_once_it_is_committed() {
        let disk = Arc::new(MemDisk::new());
        let mut leader = registry(&disk, 1, "a");
        leader.begin_leading(Duration::ZERO);
        leader.check_own_place(Duration::ZERO).unwrap();
        let mut answer = register(&mut leader, 1, 2, "b");
        assert!(leader.due(Duration::from_secs(1)).is_some());
        leader.proposed(Duration::from_secs(1), Ticket(1));
        assert!(answer.try_recv().is_err());
        let mut late = register(&mut leader, 1, 3, "c");
        assert!(leader.members().is_empty(), "nothing is committed yet");
        assert!(leader.due(Duration::from_secs(1)).is_none(), "one at a time");
        leader.dropped(Ticket(1));
        assert!(leader.due(Duration::from_secs(1)).is_some());
        leader.proposed(Duration::from_secs(1), Ticket(2));
        assert!(leader.committed(Ticket(2), Seq::new(9)));
        leader.reply_committed();
        assert_eq!(
            (answer.try_recv(), late.try_recv()),
            (Ok(Registration::Accepted), Ok(Registration::Accepted))
        );
        assert_eq!(
            register(&mut leader, 2, 3, "c").try_recv(),
            Ok(Registration::Accepted),
            "nothing to wait for"
        );
        // The next incarnation knows them all, and no older list replaces theirs.
        let mut next = registry(&disk, 1, "a");
        assert_eq!(next.members().len(), 3);
        assert!(!next.read(MemberList::default(), Seq::new(9)));
        assert!(next.read(MemberList::default(), Seq::new(10)));
        assert!(next.members().is_empty());
    }

    #[test]
    fn only_a_live_server_can_be_a_transfer_target() {
        let disk = Arc::new(MemDisk::new());
        let mut leader = registry(&disk, 1, "a");
        leader.begin_leading(Duration::ZERO);
        drop((register(&mut leader, 1, 2, "b"), register(&mut leader, 2, 3, "c")));
        leader.proposed(Duration::from_secs(2), Ticket(1));
        leader.committed(Ticket(1), Seq::new(3));
        let next = |id| leader.transfer_target(Duration::from_secs(3), id);
        assert_eq!(next(None), Some(ReplicaId { member: 3, incarnation: 3 }));
        assert_eq!((next(Some(2)), next(Some(9))), (None, None));
    }

    #[test]
    fn a_damaged_list_is_ignored() {
        let disk = Arc::new(MemDisk::new());
        let mut leader = registry(&disk, 1, "a");
        leader.check_own_place(Duration::ZERO).unwrap();
        leader.proposed(Duration::ZERO, Ticket(1));
        leader.committed(Ticket(1), Seq::new(5));
        let good = read_file(disk.as_ref(), Path::new("/d/members")).unwrap();
        assert!(decode(&good).is_some());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(decode(&bad).is_none(), "byte {at}");
        }
    }
}
