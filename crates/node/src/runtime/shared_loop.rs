//! The journal's thread on a shared journal: a member of the cluster that follows the log, and
//! writes to it while the current epoch is its own.
//!
//! Following, it applies what others wrote: visible at once, because what is read there counts for
//! ever. Leading, it gives batches their place, proposes them, and completes them once the log says
//! that they count. Whatever the log refused while this server stays the writer is proposed again,
//! in order, at its new place. A writer that was replaced has evaluated what may never count: the
//! node ends, and is opened again from its checkpoint and the log.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};
use tokio::sync::oneshot;
use vetch_cluster::{Divergence, Driver, Event, Log, LogIndex, ReadId, Refusal, ReplicaId, Ticket};
use vetch_journal::{ChainedEntry, DirLock, Draft, Entry, Kind, Tip};
use vetch_seeded_bugs::Bug;
use vetch_store::Record;
use vetch_store::auth::Auth;

use crate::batch_window::{BatchWindow, READ_BATCH_WINDOW, WRITE_BATCH_WINDOW};
use crate::cluster::{self, Board, Cluster, ClusterStatus, Report, Writer};
use crate::commit::Committer;
use crate::error::NodeError;
use crate::members::Roll;
use crate::queue;
use crate::read_index::{Again, Indexed, ReadsIn, Standing, Waiting};
use crate::roster::Roster;
use crate::runtime::Step;
use crate::runtime::membership::{Membership, Order};
use crate::runtime::tending::Tending;
use crate::sequencer::{Batch, CaptureRequest, LeadershipTransfer};
use crate::state::{NodeState, Reply, RunState};
use crate::watch::NodeEvent;
use vetch_checkpoint::Capture;
use vetch_checkpoint::replay;

/// How long news of the log is waited for before other work is looked at: where reads end the wait
/// and nothing else is in a hurry, and otherwise.
const WAIT: Duration = Duration::from_millis(5);
const SHORT_WAIT: Duration = Duration::from_millis(1);
/// How often a writer says where it is.
const ANNOUNCE: Duration = Duration::from_secs(1);
/// How long a server that cannot go on takes to write its state to disk.
const LAST_WORDS: Duration = Duration::from_secs(30);
/// Batches taken from the sequencer and not proposed yet.
const QUEUE: usize = 64;
/// With fewer records under way the next one is always proposed; otherwise it has to be worth it.
const PIPELINE: usize = 1;
/// A journal in which nothing was read for this long is silent: even an idle writer is heard of
/// several times a second. As long as three elections of etcd's.
const SILENT: Duration = Duration::from_secs(3);

/// The part that makes things durable and visible, together with other servers.
pub struct SharedLoop {
    pub(crate) node: Arc<NodeState>,
    pub(crate) committer: Committer,
    pub(crate) batches: queue::Receiver<Batch<Reply>>,
    pub(crate) reads: ReadsIn,
    pub(crate) orders: Receiver<Order>,
    pub(crate) reports: Receiver<Report>,
    pub(crate) driver: Driver<Box<dyn Log>>,
    pub(crate) membership: Membership,
    pub(crate) me: Writer,
    /// Whether reads that come end a wait for news.
    pub(crate) is_woken: bool,
    pub(crate) work: Work,
    /// The directory stays taken until this part has ended.
    pub(crate) _lock: DirLock,
}

/// What is under way.
pub(crate) struct Work {
    pub(super) leading: bool,
    /// To be proposed, in order.
    queue: VecDeque<Batch<Reply>>,
    /// Proposed and not decided, in order.
    flying: VecDeque<(Ticket, Vec<Batch<Reply>>)>,
    /// Called void since the last epoch began, in order.
    returned: Vec<Batch<Reply>>,
    /// Reads that no index was asked for yet.
    waiting: Vec<Waiting>,
    asked: HashMap<ReadId, Vec<Waiting>>,
    next_read: u64,
    /// Requests that wait to share a record, and reads that wait to share an index.
    request_window: BatchWindow,
    read_window: BatchWindow,
    /// Reads with an index of another server's that this one has not come to.
    behind: Vec<Indexed>,
    announced: Option<Duration>,
    /// The append of the last announcement.
    announcing: Option<Ticket>,
    /// Which servers there are.
    pub(super) roster: Roster,
    pub(super) tending: Tending,
    /// Counts entries as the sequencer does.
    number: u64,
    /// Records of entries of others, not yet in a checkpoint, and their bytes.
    dirty: Vec<Record>,
    fresh_bytes: u64,
    auth: Arc<Auth>,
    /// The append that names another server as the writer, and who waits for it.
    handing: Option<(Ticket, oneshot::Sender<()>)>,
    /// The number of the last entry read, and when it was.
    heard: (u64, Duration),
    /// Since when the node is about to end.
    stopping: Option<Duration>,
    /// Why nothing more is read or written, and since when.
    halted: Option<(String, Duration)>,
}

impl Work {
    pub(crate) fn new(number: u64, auth: Arc<Auth>, roster: Roster) -> Work {
        Work {
            leading: false,
            queue: VecDeque::new(),
            flying: VecDeque::new(),
            returned: Vec::new(),
            waiting: Vec::new(),
            asked: HashMap::new(),
            next_read: 0,
            request_window: BatchWindow::default(),
            read_window: BatchWindow::default(),
            behind: Vec::new(),
            announced: None,
            announcing: None,
            roster,
            tending: Tending::default(),
            number,
            dirty: Vec::new(),
            fresh_bytes: 0,
            auth,
            handing: None,
            heard: (0, Duration::ZERO),
            stopping: None,
            halted: None,
        }
    }
}

impl Work {
    /// Requests that are to be proposed.
    fn queued(&self) -> usize {
        self.queue.iter().map(|batch| batch.replies.len()).sum()
    }
}

impl SharedLoop {
    pub(crate) fn run(mut self) {
        while self.step(WAIT) != Step::Ended {}
    }

    /// How long news may be waited for. Reads end the wait. Batches do not: more requests join them
    /// meanwhile, and a record costs the same however many it holds.
    fn patience(&self) -> Duration {
        let waits_for_others = self.work.leading || !self.work.waiting.is_empty();
        if self.is_woken && !waits_for_others { WAIT } else { SHORT_WAIT }
    }

    /// Takes what others handed in, steps the member, and acts on what it tells. Waits for news no
    /// longer than is given.
    pub fn step(&mut self, wait: Duration) -> Step {
        if self.work.halted.is_some() {
            std::thread::sleep(wait);
            return self.last_words();
        }
        if self.take_batches() == Step::Ended {
            return Step::Ended;
        }
        self.take_reads();
        self.tend();
        self.work.behind.extend(self.reads.indexed.try_iter());
        self.answer_reached();
        self.announce();
        if let Err(ended) = self.keep_roll().and_then(|()| self.propose()) {
            return ended;
        }
        // What was proposed is sent only behind this. By itself a member starts nothing but
        // barriers and claims, which change no state.
        self.show();
        for event in self.driver.step(wait.min(self.patience())) {
            if self.on(event) == Step::Ended {
                return Step::Ended;
            }
        }
        self.show();
        self.answer_reached();
        self.tell();
        Step::Worked
    }

    /// Shows those who read how far everything is applied, and whether that is certain to be the
    /// newest there is.
    fn show(&self) {
        let (Some(cluster), member) = (&self.node.cluster, self.driver.replica()) else { return };
        let held = (!member.is_stopped()).then(|| member.log_state().index());
        cluster.reads.show(Standing { lease: member.lease(), held });
    }

    fn take_batches(&mut self) -> Step {
        while self.work.queue.len() < QUEUE {
            match self.batches.try_recv() {
                Ok(batch) => self.work.queue.push_back(batch),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return self.wind_up(),
            }
        }
        Step::Worked
    }

    /// The sequencer has ended: what it left becomes durable, if that does not take longer than a
    /// request may.
    fn wind_up(&mut self) -> Step {
        let now = self.driver.now();
        let since = *self.work.stopping.get_or_insert(now);
        let is_done = self.work.queue.is_empty() && self.work.flying.is_empty();
        let is_late = now >= since + self.node.config.request_timeout;
        if is_done || is_late || !self.work.leading { Step::Ended } else { Step::Worked }
    }

    fn take_reads(&mut self) {
        let most = self.node.config.queue_depth;
        self.work.waiting.extend(self.reads.here.try_iter().take(most));
        if self.work.waiting.is_empty() {
            return;
        }
        if !self.work.leading {
            self.work.waiting.drain(..).for_each(refuse);
            return;
        }
        let read = ReadId(self.work.next_read);
        let now = self.driver.now();
        let is_free = self.driver.replica().has_lease(now);
        if !is_free && self.work.read_window.is_open(self.work.waiting.len(), now, READ_BATCH_WINDOW) {
            return;
        }
        // A writer that is about to claim anew lets them wait; each has its own patience.
        if self.driver.replica_mut().read_index(now, read).is_ok() {
            self.work.next_read += 1;
            self.work.asked.insert(read, std::mem::take(&mut self.work.waiting));
        }
        self.work.waiting.retain(|read| !read.is_closed());
    }

    /// Says where this server is, now and then, for those who pass requests on.
    fn announce(&mut self) {
        let now = self.driver.now();
        let is_due = self.work.announced.is_none_or(|last| now >= last + ANNOUNCE);
        if !self.work.leading || !is_due {
            return;
        }
        let peers = self.work.roster.peers();
        let member = self.driver.replica_mut();
        let entry = cluster::announcement(&self.me, &peers).chain(&mut member.head());
        if let Ok(ticket) = member.propose(now, &[entry]) {
            (self.work.announced, self.work.announcing) = (Some(now), Some(ticket));
            self.post(|board| board.peers = peers);
        }
    }

    /// Does what is asked about members, and tells the journal what changed.
    fn keep_roll(&mut self) -> Result<(), Step> {
        let now = self.driver.now();
        if !self.work.leading {
            // Dropped without an answer: not here.
            self.orders.try_iter().for_each(drop);
            return Ok(());
        }
        for order in self.orders.try_iter() {
            self.membership.take(now, order);
        }
        self.membership.look(now).map_err(|why| self.failed(turned_away(&why)))?;
        if let Some(draft) = self.membership.due(now) {
            let member = self.driver.replica_mut();
            let entry = draft.chain(&mut member.head());
            if let Ok(ticket) = member.propose(now, &[entry]) {
                self.membership.proposed(now, ticket);
            }
        }
        Ok(())
    }

    /// Names another server as the writer. Everything before it is proposed by now. Not if this
    /// server has begun to write on since it was asked to: requests behind it may have been
    /// evaluated, and would never count. Whether the next batch may be looked at.
    fn name_successor(&mut self, to: ReplicaId, leadership_count: u64) -> bool {
        let is_stale = self.node.leadership.count() != leadership_count;
        let now = self.driver.now();
        let ticket = match is_stale {
            true => None,
            false => match self.driver.replica_mut().transfer_leadership(now, to) {
                Ok(ticket) => Some(ticket),
                Err(_) => return false,
            },
        };
        let named = self.work.queue.pop_front().and_then(|batch| batch.transfer);
        if let Some(LeadershipTransfer { reply, dirty, fresh_bytes, .. }) = named {
            self.work.dirty.extend(dirty);
            self.work.fresh_bytes += fresh_bytes;
            self.node.disk.set_fresh_bytes(self.work.fresh_bytes);
            self.work.handing = ticket.map(|ticket| (ticket, reply));
        }
        is_stale
    }

    /// Proposes what is queued, a record at a time. Answers that change nothing wait for a barrier:
    /// they, too, tell of a state that must be the newest there is.
    fn propose(&mut self) -> Result<(), Step> {
        while self.work.leading && !self.work.queue.is_empty() {
            if self.work.queue.front().is_some_and(|batch| batch.capture.is_some()) {
                if !self.work.flying.is_empty() {
                    return Ok(());
                }
                let batch = self.work.queue.pop_front().expect("there is a first one");
                self.hand_over(batch);
                continue;
            }
            let named = self.work.queue.front().and_then(|batch| batch.transfer.as_ref());
            if let Some((to, leadership_count)) = named.map(|it| (it.to, it.leadership_count)) {
                if self.name_successor(to, leadership_count) {
                    continue;
                }
                return Ok(());
            }
            if !self.driver.replica().may_propose() || !self.is_worth_a_record() {
                return Ok(());
            }
            let (taken, entries) = self.gather();
            let now = self.driver.now();
            match self.driver.replica_mut().propose(now, &entries) {
                Ok(ticket) => {
                    self.proposed(&entries);
                    let batches = self.work.queue.drain(..taken).collect();
                    self.work.flying.push_back((ticket, batches));
                    if vetch_seeded_bugs::on(Bug::AnsweredEarly)
                        && let Some(last) = entries.last()
                    {
                        self.committed(ticket, last.after());
                    }
                }
                Err(Refusal::NotLeader | Refusal::Busy) => return Ok(()),
                Err(refusal @ (Refusal::TooLarge { .. } | Refusal::OutOfOrder)) => {
                    return Err(self.replaced(format!("an entry cannot be written: {refusal}")));
                }
            }
        }
        // A follower's captures are not in anybody's way.
        while !self.work.leading
            && let Some(batch) = self.work.queue.pop_front()
        {
            if batch.draft.is_some() {
                self.work.queue.push_front(batch);
                return Err(self.replaced("what was evaluated here is not in the journal".to_string()));
            }
            self.hand_over(batch);
        }
        Ok(())
    }

    /// Whether what is queued should be proposed now. A message to the journal costs its servers
    /// the same whether it holds one request or a hundred, so what is little waits for those under
    /// way, and others join it meanwhile.
    fn is_worth_a_record(&self) -> bool {
        let tuning = &self.node.config.tuning;
        let queue = || self.work.queue.iter();
        let bytes = |batch: &Batch<Reply>| batch.draft.as_ref().map_or(0, Draft::size);
        let requests = self.work.queued();
        requests >= tuning.journal.record_requests
            || queue().map(bytes).sum::<usize>() >= tuning.batch.bytes / 16
            || (self.work.flying.len() < PIPELINE
                && !self.work.request_window.is_open(requests, self.driver.now(), WRITE_BATCH_WINDOW))
    }

    /// The next record: how many batches of the queue, and their entries, chained on the head.
    fn gather(&self) -> (usize, Vec<ChainedEntry>) {
        let mut tip = self.driver.replica().head();
        let (mut taken, mut bytes, mut entries) = (0, 0, Vec::new());
        let is_plain = |batch: &&Batch<Reply>| batch.capture.is_none() && batch.transfer.is_none();
        for batch in self.work.queue.iter().take_while(is_plain) {
            if let Some(draft) = &batch.draft {
                let mut after = tip;
                let entry = draft.clone().chain(&mut after);
                bytes += entry.bytes().len();
                if taken > 0 && bytes > self.node.config.tuning.batch.bytes {
                    break;
                }
                tip = after;
                entries.push(entry);
            }
            taken += 1;
        }
        if entries.is_empty() {
            entries.push(Draft::new(Kind::Barrier).chain(&mut tip));
        }
        (taken, entries)
    }

    fn on(&mut self, event: Event) -> Step {
        match event {
            Event::Applied { entry, tip, .. } => return self.apply(&entry, &tip),
            Event::Committed { ticket, tip, .. } => return self.committed(ticket, &tip),
            Event::Dropped { ticket } => self.void(ticket),
            Event::ReadIndex { reads, index } => self.answer_reads(&reads, Ok(index)),
            Event::ReadIndexLost { reads } => self.answer_reads(&reads, Err(Again)),
            Event::Leading { epoch, tip } => self.lead(epoch, &tip),
            Event::Following { epoch, leader } => return self.follow(epoch, leader),
            Event::LeadershipTransferred => self.handed_over(),
            Event::Ignored { at, why } => tracing::debug!(at = at.0, ?why, "a record is ignored"),
            Event::Suspect { read, end } => {
                tracing::error!(
                    read = read.0,
                    end = end.0,
                    "the journal seems to have lost its last records: this \
                     server stays aside until it has them again; see docs/cluster.md"
                );
                self.stand_alone();
            }
            Event::Full => self.full(),
            Event::Behind { first } => {
                let why = format!("the journal begins at position {} now, behind what was read", first.0);
                return self.begin_again(&why, RunState::Behind(first.0));
            }
            Event::Halted(divergence) => self.halt(halted(&divergence)),
        }
        Step::Worked
    }

    /// What another server wrote counts, and is visible with everything that belongs to it at one
    /// instant.
    fn apply(&mut self, entry: &Entry, tip: &Tip) -> Step {
        if let Some(writer) = cluster::announced(entry) {
            let peers = cluster::announced_peers(entry).unwrap_or_default();
            self.work.roster.told(self.driver.now(), peers.clone());
            // Before anybody turns to the writer, who may know no older announcement.
            self.post(|board| {
                board.remember(tip);
                board.peers = peers;
            });
            self.update(|status| status.writer = Some(writer.clone()));
        }
        if vetch_cluster::transfer_target(entry).is_some() {
            // Whoever wrote does so no longer; requests wait for the next.
            self.update(|status| status.writer = None);
        }
        if let Some(roll) = Roll::told_by(entry)
            && self.membership.read(roll, entry.seq)
        {
            self.tell_members();
            if self.membership.am_removed() {
                return self.failed(REMOVED.to_string());
            }
        }
        if entry.kind != Kind::Writes {
            return Step::Worked;
        }
        assert!(!self.work.leading, "nobody else's entries count while this server writes");
        let revision = self.node.store.read().head().revision;
        if entry.base_rev != revision + 1 {
            let cause = format!("journal entry {} follows another revision than {revision}", entry.seq);
            return self.failed(cause);
        }
        match self.replay(entry) {
            Ok(()) => Step::Worked,
            Err(source) => self.failed(format!("journal entry {} cannot be applied: {source}", entry.seq)),
        }
    }

    fn replay(&mut self, entry: &Entry) -> Result<(), vetch_store::BadCommand> {
        let (node, work) = (Arc::clone(&self.node), &mut self.work);
        let compacted;
        {
            let mut store = node.store.write();
            let mut log = node.log.write();
            let before = store.visible();
            let bytes: usize = replay::commands(entry)?.iter().map(|(payload, _)| payload.len()).sum();
            let revisions = replay::replay(&mut store, entry)?;
            work.fresh_bytes += bytes as u64;
            let mark = store.head();
            compacted = before.compact_revision != mark.compact_revision;
            store.publish(mark);
            if !Arc::ptr_eq(&work.auth, store.auth()) {
                work.auth = Arc::clone(store.auth());
                node.visible.auth().publish(Arc::clone(store.auth()));
            }
            node.visible.set_alarms(store.alarms().collect());
            for unit in revisions {
                work.dirty.extend(unit.events.iter().map(|event| event.kv.clone()));
                let events: Vec<NodeEvent> = unit.events.into_iter().map(NodeEvent).collect();
                log.append(unit.revision, events.into());
            }
            if compacted {
                node.compaction.past_hashes().compacted(before.compact_revision, mark.compact_revision);
                log.compact(mark.compact_revision);
                node.hub.write().compact(mark.compact_revision);
            }
            node.visible.set_revision(mark.revision);
        }
        node.watches.wake_fan_out();
        node.disk.set_fresh_bytes(work.fresh_bytes);
        if compacted || node.disk.is_stride_done() {
            node.housekeeping.ring();
        }
        Ok(())
    }

    fn tell_members(&self) {
        let (members, key) = (self.membership.members(), self.membership.key());
        self.update(|status| (status.members, status.key) = (members, key));
    }

    fn committed(&mut self, ticket: Ticket, tip: &Tip) -> Step {
        if self.work.announcing == Some(ticket) {
            self.post(|board| board.remember(tip));
        }
        if self.membership.committed(ticket, tip.seq) {
            self.tell_members();
            self.membership.answer();
            return if self.membership.am_removed() {
                self.failed(REMOVED.to_string())
            } else {
                Step::Worked
            };
        }
        self.complete(ticket);
        Step::Worked
    }

    fn complete(&mut self, ticket: Ticket) {
        let is_next = self.work.flying.front().is_some_and(|(next, _)| *next == ticket);
        let Some((_, batches)) = self.work.flying.pop_front_if(|_| is_next) else { return };
        self.work.number += batches.iter().filter(|batch| batch.draft.is_some()).count() as u64;
        let last = Tip { seq: self.work.number, ..*self.driver.replica().log_state().tip() };
        let answered: usize = batches.iter().map(|batch| batch.replies.len()).sum();
        self.work.request_window.answered(answered + self.work.queued(), self.driver.now());
        self.committer.commit(batches, Some(&last));
    }

    fn void(&mut self, ticket: Ticket) {
        self.membership.void(ticket);
        // Nobody is told that it happened: this server goes on, or another one has taken over by
        // itself.
        self.work.handing.take_if(|(handing, _)| *handing == ticket);
        let is_next = self.work.flying.front().is_some_and(|(next, _)| *next == ticket);
        if let Some((_, batches)) = self.work.flying.pop_front_if(|_| is_next) {
            self.work.returned.extend(batches);
        }
    }

    fn answer_reads(&mut self, reads: &[ReadId], outcome: Result<LogIndex, Again>) {
        let mut answered = 0;
        for read in reads.iter().filter_map(|read| self.work.asked.remove(read)).flatten() {
            // Whoever asked may have gone.
            let _ = read.send(outcome);
            answered += 1;
        }
        self.work.read_window.answered(answered, self.driver.now());
    }

    /// Lets those reads go whose index this server's state has come to. Everything the member has
    /// told by now is applied.
    fn answer_reached(&mut self) {
        let mut still_behind = Vec::new();
        for Indexed { index, mut reads } in std::mem::take(&mut self.work.behind) {
            let member = self.driver.replica_mut();
            let outcome = if member.reached(&index) {
                Ok(index)
            } else if member.log_state().tip().seq >= index.tip.seq
                && !matches!(member.log_state().reached(&index), Ok(true))
            {
                // Too long ago to be compared.
                Err(Again)
            } else {
                reads.retain(|read| !read.is_closed());
                if !reads.is_empty() {
                    still_behind.push(Indexed { index, reads });
                }
                continue;
            };
            for read in reads {
                let _ = read.send(outcome);
            }
        }
        self.work.behind = still_behind;
    }

    /// The current epoch is this server's. What was void before it is proposed again; it is still
    /// what was evaluated last.
    fn lead(&mut self, epoch: u64, tip: &Tip) {
        for batch in std::mem::take(&mut self.work.returned).into_iter().rev() {
            self.work.queue.push_front(batch);
        }
        assert!(self.work.flying.is_empty(), "a new epoch decides everything");
        // Locked, so that what is evaluated knows whose part this is: see `name_successor`.
        let node = Arc::clone(&self.node);
        let store = node.store.write();
        if !self.work.leading {
            assert!(
                tip.next_rev == store.head().revision + 1,
                "journal and store agree on the next revision"
            );
            let mut lessor = self.node.leases.lessor();
            *lessor = crate::lessor::Lessor::default();
            // Whoever renewed a lease last may have told the writer before: everybody has the full
            // time again.
            for (id, lease) in store.leases().iter() {
                let time = if vetch_seeded_bugs::on(Bug::LeaseCutShort) { 0 } else { lease.ttl() };
                lessor.start(id, lease.grant(), lease.ttl(), time, self.node.clock.millis());
            }
            drop(lessor);
            self.work.leading = true;
            self.work.roster.begin(self.driver.now());
            self.membership.lead(self.driver.now());
        }
        // Also after a hand-over that came to nothing, and one that is still queued comes to
        // nothing now.
        node.leadership.lead();
        drop(store);
        tracing::info!(epoch, "this server writes to the journal");
        self.work.announced = None;
        let me = self.me.clone();
        self.update(|status| {
            (status.epoch, status.is_writer, status.caught_up) = (epoch, true, true);
            (status.writer, status.handing_over) = (Some(me.clone()), false);
        });
    }

    /// Another server was named, and that counts. Nothing was evaluated ahead, so this one can
    /// follow at once.
    fn handed_over(&mut self) {
        self.work.leading = false;
        self.membership.follow();
        tracing::info!("this server has handed over");
        self.update(|status| (status.is_writer, status.writer) = (false, None));
        if let Some((_, reply)) = self.work.handing.take() {
            let _ = reply.send(());
        }
    }

    fn follow(&mut self, epoch: u64, leader: ReplicaId) -> Step {
        if vetch_seeded_bugs::on(Bug::ReplacedUnnoticed) {
            self.work.leading = false;
        }
        if self.work.leading {
            return self.replaced(format!("another server writes since epoch {epoch}"));
        }
        tracing::info!(epoch, "another server writes to the journal");
        // It says where it is soon; mostly that is known.
        let known = self.membership.get(leader.member).and_then(|member| member.client_urls.first());
        let writer = known.map(|url| Writer { member: leader.member, url: url.clone() });
        self.update(|status| (status.epoch, status.writer, status.handing_over) = (epoch, writer, false));
        Step::Worked
    }

    /// What it evaluated ahead may never count.
    fn replaced(&mut self, why: String) -> Step {
        self.begin_again(&why, RunState::Replaced)
    }

    /// Ends the node so that it is opened again.
    fn begin_again(&mut self, why: &str, state: RunState) -> Step {
        tracing::warn!(why, "this server begins again from a checkpoint");
        self.node.leadership.follow();
        self.update(|status| (status.is_writer, status.writer) = (false, None));
        let pending = self.work.flying.drain(..).flat_map(|(_, batches)| batches);
        let unanswered = pending.chain(self.work.returned.drain(..)).chain(self.work.queue.drain(..));
        for (reply, _) in unanswered.flat_map(|batch| batch.replies) {
            let _ = reply.send(Err(NodeError::Timeout));
        }
        self.work.asked.drain().flat_map(|(_, reads)| reads).for_each(refuse);
        self.work.waiting.drain(..).for_each(refuse);
        self.node.lifecycle.end(state);
        Step::Ended
    }

    /// This server's history may be the better one: it goes to disk before the server ends.
    fn halt(&mut self, cause: String) {
        tracing::error!(cause, "this server stops; its state is written to disk first");
        self.work.halted = Some((cause, self.driver.now()));
        self.stand_alone();
    }

    fn last_words(&mut self) -> Step {
        let Some((cause, since)) = self.work.halted.clone() else { return Step::Worked };
        if self.take_batches() == Step::Ended {
            return Step::Ended;
        }
        let visible = self.node.store.read().visible().revision;
        let saved = self.node.cluster.as_ref().map(|cluster| cluster.saved.load(Ordering::Acquire));
        let is_late = self.driver.now() >= since + LAST_WORDS;
        // A writer has evaluated what may not count, so there is no state to capture.
        if self.work.leading || is_late || saved.is_none_or(|saved| saved >= visible) {
            return self.failed(cause);
        }
        while let Some(batch) = self.work.queue.pop_front() {
            self.hand_over(batch);
        }
        Step::Worked
    }

    fn failed(&mut self, cause: String) -> Step {
        self.node.fail(cause);
        Step::Ended
    }

    /// Hands a capture to who asked for it, with the place in the log that made its state.
    /// Everything before it counts by now.
    fn hand_over(&mut self, batch: Batch<Reply>) {
        let Some(CaptureRequest { reply, capture }) = batch.capture else {
            // Handed in while this server was about to lose its part: nobody is answered from it.
            batch.replies.into_iter().for_each(|(reply, _)| drop(reply.send(Err(NodeError::Timeout))));
            return;
        };
        let index = self.driver.replica().log_state().index();
        let dirty = std::mem::take(&mut self.work.dirty);
        let capture = match capture {
            Some(mut capture) => {
                capture.dirty.splice(..0, dirty);
                capture
            }
            None if self.work.leading => {
                // It was asked for while another server decided. The next one is asked for soon.
                self.work.dirty = dirty;
                return;
            }
            None => {
                // While this server decides it is the sequencer that counts.
                self.node.disk.set_fresh_bytes(0);
                Capture::at_head(&self.node.store.read(), index.tip, dirty)
            }
        };
        self.work.fresh_bytes = 0;
        let further = u64::from(vetch_seeded_bugs::on(Bug::CaptureMisplaced));
        let capture = Capture { tip: index.tip, position: index.position.0 + further, ..capture };
        let _ = reply.send(capture);
    }

    fn tell(&mut self) {
        let now = self.driver.now();
        let member = self.driver.replica();
        let (index, epoch) = (member.log_state().tip().seq, member.log_state().tip().epoch);
        if self.work.heard.0 != index {
            self.work.heard = (index, now);
        }
        let silent = now >= self.work.heard.1 + SILENT;
        let (caught_up, suspect) = (member.is_caught_up(), member.is_suspect());
        let Some(Cluster { status, .. }) = &self.node.cluster else { return };
        status.send_if_modified(|status| {
            let turned = (status.caught_up, status.suspect, status.silent) != (caught_up, suspect, silent)
                || status.epoch != epoch;
            (status.index, status.epoch) = (index, epoch);
            (status.caught_up, status.suspect, status.silent) = (caught_up, suspect, silent);
            turned
        });
    }

    pub(super) fn post(&self, change: impl FnOnce(&mut Board)) {
        if let Some(cluster) = &self.node.cluster {
            change(&mut cluster.board.lock());
        }
    }

    fn update(&self, change: impl FnOnce(&mut ClusterStatus)) {
        if let Some(cluster) = &self.node.cluster {
            cluster.status.send_modify(change);
        }
    }
}

const REMOVED: &str = "this server was removed from the cluster, or replaced by another one of its name; to join as a new \
                       one, start it with an empty data directory";

fn turned_away(why: &str) -> String {
    format!("this server is not let into the cluster: {why}")
}

fn refuse(read: Waiting) {
    let _ = read.send(Err(Again));
}

fn halted(divergence: &Divergence) -> String {
    format!("the journal and this server have different histories: {divergence}; see docs/cluster.md")
}
