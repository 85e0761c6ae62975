//! Membership: the part of the journal's thread that keeps the roll of servers. See `members`.
//!
//! While this server writes it lets others in and puts every change of the roll into the journal;
//! while another one does, it takes the roll as it reads it there.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use vetch_cluster::{ReplicaId, Ticket};
use vetch_journal::{Disk, Draft, read_file, write_atomically};

use crate::members::{Heard, Introduced, Member, Roll};

/// How often the whole roll is told although nothing changed, for those who have only read a part
/// of the journal.
const TELL: Duration = Duration::from_secs(2);
/// How often the writer looks whether it is on the roll itself.
const LOOK: Duration = Duration::from_millis(500);
/// A server that was heard of more recently may be handed over to.
const ALIVE: Duration = Duration::from_millis(1500);

const FILE: &str = "members";
const MAGIC: &[u8; 8] = b"VETCHMB1";

/// What the writer is asked about members.
pub(crate) enum Order {
    Introduce {
        member: Member,
        asking: Duration,
        reply: oneshot::Sender<Introduced>,
    },
    /// False if there is no such member.
    Remove {
        id: u64,
        reply: oneshot::Sender<bool>,
    },
    /// Who could write next: this one, or the one heard of last.
    Successor {
        id: Option<u64>,
        reply: oneshot::Sender<Option<ReplicaId>>,
    },
}

/// Who waits until the roll that tells of it counts.
enum Told {
    Introduced(oneshot::Sender<Introduced>),
    Removed(oneshot::Sender<bool>),
}

pub(crate) struct Membership {
    pub(crate) me: Member,
    /// As the journal tells it, and as the file has it.
    counts: Roll,
    /// The same with what this writer has changed since.
    roll: Roll,
    /// The number of the entry that told it, or of the newest known to be older.
    told_at: u64,
    /// Lives heard of while this server writes, and since when it does.
    heard: HashMap<u64, (u64, Duration)>,
    since: Duration,
    last_told: Option<Duration>,
    last_look: Option<Duration>,
    /// The roll has changed since it was last proposed.
    changed: bool,
    proposed: Option<(Ticket, Roll)>,
    /// Who waits for the roll under way, and for the next.
    waiting: Vec<Told>,
    next: Vec<Told>,
    store: Arc<dyn Disk>,
    dir: PathBuf,
}

struct Ears<'a> {
    membership: &'a Membership,
    now: Duration,
}

impl Heard for Ears<'_> {
    fn ago(&self, member: &Member) -> Option<Duration> {
        if member.id == self.membership.me.id {
            return (member.life == self.membership.me.life).then_some(Duration::ZERO);
        }
        let (life, at) = self.membership.heard.get(&member.id)?;
        (*life == member.life).then(|| self.now.saturating_sub(*at))
    }

    fn listening(&self) -> Duration {
        self.now.saturating_sub(self.membership.since)
    }
}

impl Membership {
    /// With the newest roll that an earlier life has read. A file that cannot be read is as good as
    /// none: the journal tells the roll again.
    pub(crate) fn load(disk: Arc<dyn Disk>, dir: PathBuf, me: Member) -> Membership {
        let (told_at, roll) = match read_file(disk.as_ref(), &dir.join(FILE)) {
            Ok(bytes) => decode(&bytes).unwrap_or_else(|| {
                tracing::warn!(file = FILE, "the list of members is damaged; the journal will tell it again");
                Default::default()
            }),
            Err(_) => Default::default(),
        };
        Membership {
            me,
            counts: roll.clone(),
            roll,
            told_at,
            heard: HashMap::new(),
            since: Duration::ZERO,
            last_told: None,
            last_look: None,
            changed: false,
            proposed: None,
            waiting: Vec::new(),
            next: Vec::new(),
            store: disk,
            dir,
        }
    }

    pub(crate) fn members(&self) -> Arc<Vec<Member>> {
        Arc::new(self.counts.members().cloned().collect())
    }

    pub(crate) fn key(&self) -> u64 {
        self.counts.key
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Member> {
        self.counts.get(id)
    }

    /// Whether this server was removed, or replaced.
    pub(crate) fn am_removed(&self) -> bool {
        self.counts.is_removed(self.me.id)
    }

    /// This server begins to write.
    pub(crate) fn lead(&mut self, now: Duration) {
        self.heard.clear();
        (self.since, self.last_told, self.last_look) = (now, None, None);
        if self.roll.key == 0 {
            self.roll.key = RandomState::new().hash_one(self.me.life).max(1);
        }
    }

    /// This server no longer writes: who waits has to ask the one that does.
    pub(crate) fn follow(&mut self) {
        self.waiting.clear();
        self.next.clear();
        (self.changed, self.proposed) = (false, None);
        self.roll = self.counts.clone();
    }

    /// A roll was read in the journal. False if it is not news.
    pub(crate) fn read(&mut self, roll: Roll, number: u64) -> bool {
        if number <= self.told_at {
            return false;
        }
        self.told_at = number;
        let is_news = self.counts != roll;
        if is_news {
            self.roll = roll.clone();
            self.count(roll);
        }
        is_news
    }

    /// What the writer is asked. The answer to what changes the roll waits until the change counts.
    pub(crate) fn take(&mut self, now: Duration, order: Order) {
        match order {
            Order::Introduce { member, asking, reply } => self.introduce(now, &member, asking, reply),
            Order::Remove { id, reply } => {
                if self.roll.remove(id) {
                    self.changed = true;
                    self.next.push(Told::Removed(reply));
                } else {
                    let _ = reply.send(false);
                }
            }
            Order::Successor { id, reply } => {
                let _ = reply.send(self.successor(now, id));
            }
        }
    }

    fn introduce(
        &mut self,
        now: Duration,
        member: &Member,
        asking: Duration,
        reply: oneshot::Sender<Introduced>,
    ) {
        let judged = self.roll.judge(member, asking, &Ears { membership: self, now });
        if judged != Introduced::Known {
            let _ = reply.send(judged);
            return;
        }
        self.heard.insert(member.id, (member.life, now));
        self.changed |= self.roll.admit(member);
        if self.changed {
            self.next.push(Told::Introduced(reply));
        } else if self.proposed.is_some() {
            self.waiting.push(Told::Introduced(reply));
        } else {
            let _ = reply.send(judged);
        }
    }

    fn successor(&self, now: Duration, id: Option<u64>) -> Option<ReplicaId> {
        let alive = self.heard.iter().filter(|(_, (_, at))| now.saturating_sub(*at) < ALIVE);
        let wanted =
            alive.filter(|(one, _)| id.is_none_or(|id| **one == id) && self.roll.get(**one).is_some());
        let last = wanted.max_by_key(|(_, (_, at))| *at);
        last.map(|(node, (life, _))| ReplicaId { member: *node, incarnation: *life })
    }

    /// Looks after this server's own place on the roll. An error if that belongs to another.
    pub(crate) fn look(&mut self, now: Duration) -> Result<(), String> {
        if self.last_look.is_some_and(|last| now < last + LOOK) {
            return Ok(());
        }
        self.last_look = Some(now);
        let me = self.me.clone();
        match self.roll.judge(&me, now.saturating_sub(self.since), &Ears { membership: self, now }) {
            Introduced::Known => self.changed |= self.roll.admit(&me),
            Introduced::Wait => {}
            Introduced::Refused(why) => return Err(why),
        }
        Ok(())
    }

    /// The entry that has to be proposed now, if any.
    pub(crate) fn due(&self, now: Duration) -> Option<Draft> {
        let is_late = self.last_told.is_none_or(|last| now >= last + TELL);
        (self.proposed.is_none() && (self.changed || is_late)).then(|| self.roll.entry())
    }

    pub(crate) fn proposed(&mut self, now: Duration, ticket: Ticket) {
        let told = self.roll.clone();
        (self.proposed, self.changed, self.last_told) = (Some((ticket, told)), false, Some(now));
        self.waiting.append(&mut self.next);
    }

    /// An own append counts. True if it was the roll.
    pub(crate) fn committed(&mut self, ticket: Ticket, number: u64) -> bool {
        let Some((_, told)) = self.proposed.take_if(|(proposed, _)| *proposed == ticket) else {
            return false;
        };
        self.told_at = number;
        if self.counts != told {
            self.count(told);
        }
        true
    }

    /// Answers who waited for what counts now.
    pub(crate) fn answer(&mut self) {
        for told in self.waiting.drain(..) {
            match told {
                Told::Introduced(reply) => drop(reply.send(Introduced::Known)),
                Told::Removed(reply) => {
                    let _ = reply.send(true);
                }
            }
        }
    }

    /// An own append does not count; what it told is told again.
    pub(crate) fn void(&mut self, ticket: Ticket) {
        if self.proposed.take_if(|(proposed, _)| *proposed == ticket).is_some() {
            self.changed = true;
        }
    }

    /// A roll counts. It is kept for the next life; whoever cannot keep it learns it again from the
    /// journal.
    fn count(&mut self, roll: Roll) {
        self.counts = roll;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.told_at.to_le_bytes());
        bytes.extend_from_slice(&self.counts.encode());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        if let Err(error) = write_atomically(self.store.as_ref(), &self.dir, FILE, &bytes) {
            tracing::warn!(%error, file = FILE, "the list of members cannot be kept");
        }
    }
}

/// The number of the entry that told it, and the roll.
fn decode(bytes: &[u8]) -> Option<(u64, Roll)> {
    let (body, checksum) = bytes.split_last_chunk()?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let (number, roll) = body.strip_prefix(MAGIC.as_slice())?.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), Roll::decode(roll)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use vetch_journal::MemDisk;

    fn member(id: u64, name: &str) -> Member {
        Member { id, life: id, name: name.into(), client_urls: Vec::new(), peer_urls: Vec::new() }
    }

    fn membership(disk: &Arc<MemDisk>, id: u64, name: &str) -> Membership {
        disk.create_dir_all(Path::new("/d")).unwrap();
        Membership::load(Arc::clone(disk) as Arc<dyn Disk>, PathBuf::from("/d"), member(id, name))
    }

    fn introduce(
        membership: &mut Membership,
        now: u64,
        id: u64,
        name: &str,
    ) -> oneshot::Receiver<Introduced> {
        let (reply, answer) = oneshot::channel();
        let order = Order::Introduce { member: member(id, name), asking: Duration::ZERO, reply };
        membership.take(Duration::from_secs(now), order);
        answer
    }

    #[test]
    fn a_server_is_told_that_it_is_known_once_that_counts() {
        let disk = Arc::new(MemDisk::new());
        let mut writer = membership(&disk, 1, "a");
        writer.lead(Duration::ZERO);
        writer.look(Duration::ZERO).unwrap();
        let mut answer = introduce(&mut writer, 1, 2, "b");
        assert!(writer.due(Duration::from_secs(1)).is_some());
        writer.proposed(Duration::from_secs(1), Ticket(1));
        assert!(answer.try_recv().is_err());
        let mut late = introduce(&mut writer, 1, 3, "c");
        assert!(writer.members().is_empty(), "nothing counts yet");
        assert!(writer.due(Duration::from_secs(1)).is_none(), "one at a time");
        writer.void(Ticket(1));
        assert!(writer.due(Duration::from_secs(1)).is_some());
        writer.proposed(Duration::from_secs(1), Ticket(2));
        assert!(writer.committed(Ticket(2), 9));
        writer.answer();
        assert_eq!((answer.try_recv(), late.try_recv()), (Ok(Introduced::Known), Ok(Introduced::Known)));
        assert_eq!(
            introduce(&mut writer, 2, 3, "c").try_recv(),
            Ok(Introduced::Known),
            "nothing to wait for"
        );
        // The next life knows them all, and no older roll takes their place.
        let mut next = membership(&disk, 1, "a");
        assert_eq!(next.members().len(), 3);
        assert!(!next.read(Roll::default(), 9));
        assert!(next.read(Roll::default(), 10));
        assert!(next.members().is_empty());
    }

    #[test]
    fn only_who_was_heard_of_lately_can_be_next() {
        let disk = Arc::new(MemDisk::new());
        let mut writer = membership(&disk, 1, "a");
        writer.lead(Duration::ZERO);
        drop((introduce(&mut writer, 1, 2, "b"), introduce(&mut writer, 2, 3, "c")));
        writer.proposed(Duration::from_secs(2), Ticket(1));
        writer.committed(Ticket(1), 3);
        let next = |id| writer.successor(Duration::from_secs(3), id);
        assert_eq!(next(None), Some(ReplicaId { member: 3, incarnation: 3 }));
        assert_eq!((next(Some(2)), next(Some(9))), (None, None));
    }

    #[test]
    fn a_damaged_list_is_learnt_again() {
        let disk = Arc::new(MemDisk::new());
        let mut writer = membership(&disk, 1, "a");
        writer.look(Duration::ZERO).unwrap();
        writer.proposed(Duration::ZERO, Ticket(1));
        writer.committed(Ticket(1), 5);
        let good = read_file(disk.as_ref(), Path::new("/d/members")).unwrap();
        assert!(decode(&good).is_some());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(decode(&bad).is_none(), "byte {at}");
        }
    }
}
