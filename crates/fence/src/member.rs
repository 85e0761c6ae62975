//! Member: one server's part in the protocol. It follows the log, writes to it if the current epoch
//! is its own, and claims one when nobody seems to write.
//!
//! The rule for writers is the rule for readers: an append is committed once its writer has read
//! the log up to it and found it valid. If the engine tells that it lies right behind what was
//! read, that is known without reading; if not, what lies between is read first. So there is one
//! judge (`View`), and acknowledged means valid.
//!
//! Whatever is unexpected (an append refused, unknown, too late, or void) ends in the same way:
//! read to the end, claim the next epoch, read through the claim. Then everything that was under
//! way is decided, because what was not there before the claim can never count.
//!
//! Pure: what happened and the time are given, commands and events are taken. `claiming` and
//! `leading` hold the two active roles.

use std::time::Duration;

use bytes::Bytes;
use vetch_bugs::Bug;
use vetch_journal::{Entry, Hash, Kind, Position, Tip};

use crate::claiming::Claim;
use crate::config::Config;
use crate::divergence::Divergence;
use crate::flight::{Flight, Pending};
use crate::handing::successor_of;
use crate::log::{News, Page, Ticket};
use crate::pulse::Pulse;
use crate::record::{Author, author_of};
use crate::view::{Index, Verdict, View, Void};

/// Records read again after a reconnect.
pub const ANCHOR: u64 = 8;

/// Answers in a row that have to show a log that is too short.
const SHORT_ANSWERS: u32 = 5;

/// Signs that the log has lost what was read from it, since it last went on.
#[derive(Clone, Copy)]
struct Short {
    since: Duration,
    answers: u32,
    told: bool,
}

/// Names a read that waits for its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

/// What a member wants of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Append { ticket: Ticket, after: Position, record: Bytes },
    Read { after: Position },
}

/// What a member has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A valid entry of another writer, or of an earlier life, in order.
    Applied { at: Position, entry: Entry, tip: Tip },
    /// An own append is durable and counts.
    Committed { ticket: Ticket, at: Position, tip: Tip },
    /// An own append does not count and never will: it may be proposed again, or its clients told
    /// that it failed.
    Void { ticket: Ticket },
    /// These reads may be answered by whoever has come to the index.
    Index { reads: Vec<ReadId>, index: Index },
    /// These reads get no index here: ask the current writer.
    IndexLost { reads: Vec<ReadId> },
    /// The current epoch is this member's. Everything before it has been told.
    Leading { epoch: u64, tip: Tip },
    /// Another was named as the next writer, and that counts: this member writes no more in its
    /// epoch.
    HandedOver,
    /// The current epoch is another's.
    Following { epoch: u64, writer: Author },
    /// A record that does not count.
    Skipped { at: Position, void: Void },
    /// The log seems to have lost records that were read from it: its last position is below ours.
    /// Nothing is served or claimed until it has them again.
    Suspect { read: Position, end: Position },
    /// The log refuses records until it is trimmed or given room.
    Full,
    /// The log no longer holds what this member would have to read next: begin again from a
    /// checkpoint at `first` or later.
    Behind { first: Position },
    /// The log contradicts itself or what this member knows. It does nothing any more.
    Halted(Divergence),
}

pub(crate) enum Role {
    Following,
    Claiming(Claim),
    Leading,
}

/// One server's part in the protocol.
pub struct Member {
    pub(crate) config: Config,
    pub(crate) me: Author,
    pub(crate) view: View,
    pub(crate) role: Role,
    pub(crate) flight: Flight,
    /// The append that names the next writer, while it is under way.
    pub(crate) handing: Option<Ticket>,
    /// Reads that no append has been started for.
    pub(crate) reads: Vec<ReadId>,
    /// Until when nobody else can have become the writer; see `lease`.
    pub(crate) leased: Duration,
    pub(crate) pulse: Pulse,
    pub(crate) last_append: Duration,
    /// Since when an answer to a read is awaited.
    pub(crate) reading: Option<Duration>,
    pub(crate) poll_at: Duration,
    /// Whether the log seems too short.
    short: Option<Short>,
    /// Whether the last record read was compared with what this connection to the log says lies
    /// there.
    anchored: bool,
    stopped: bool,
    /// Whether an answer has shown the end of the log, and all before it was read.
    read_to_end: bool,
    tickets: u64,
    pub(crate) commands: Vec<Command>,
    pub(crate) events: Vec<Event>,
}

impl Member {
    /// A member that begins where a checkpoint was taken, as a follower.
    pub fn new(config: Config, me: Author, start: Index, now: Duration) -> Member {
        let mut pulse = Pulse::new(me.life ^ me.node.rotate_left(32));
        pulse.heard(now, &config);
        let mut member = Member {
            config,
            me,
            view: View::new(start),
            role: Role::Following,
            flight: Flight::default(),
            handing: None,
            reads: Vec::new(),
            leased: Duration::ZERO,
            pulse,
            last_append: now,
            reading: None,
            poll_at: now,
            short: None,
            anchored: start.position.0 == 0,
            stopped: false,
            read_to_end: false,
            tickets: 0,
            commands: Vec::new(),
            events: Vec::new(),
        };
        member.ask(now);
        member
    }

    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Whether there is something to tell.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    pub fn view(&self) -> &View {
        &self.view
    }

    pub fn is_leading(&self) -> bool {
        matches!(self.role, Role::Leading)
    }

    /// Whether this member does nothing any more: it halted, or the log was trimmed beyond it.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether everything there was at some moment since the start has been read.
    pub fn has_read_to_the_end(&self) -> bool {
        self.read_to_end
    }

    /// Whether the log seems to have lost what was read from it.
    pub fn is_suspect(&self) -> bool {
        self.short.is_some_and(|short| short.told)
    }

    /// The tip to chain the next entry on: after everything in flight.
    pub fn head(&self) -> Tip {
        *self.flight.head().unwrap_or(self.view.tip())
    }

    /// Whether this member has come to `index`, so that a read may be answered. Halts if its
    /// history is not the writer's.
    pub fn reached(&mut self, index: &Index) -> bool {
        if self.stopped || !self.anchored {
            return false;
        }
        if vetch_bugs::on(Bug::IndexUnchecked) {
            return self.view.tip().seq >= index.tip.seq;
        }
        match self.view.reached(index) {
            Ok(reached) => reached,
            Err(divergence) => {
                self.halt(divergence);
                false
            }
        }
    }

    /// Takes what the log told.
    pub fn on(&mut self, now: Duration, news: News) {
        if self.stopped {
            return;
        }
        match news {
            News::Appended { ticket, at } => self.on_appended(now, ticket, at),
            News::Refused { ticket, .. } | News::Unknown { ticket, .. } => self.on_failed(now, ticket),
            News::Full { ticket } => {
                self.events.push(Event::Full);
                self.on_failed(now, ticket);
            }
            News::Records(page) => self.on_page(now, page),
            News::Reconnected => self.on_reconnected(now),
            News::ReadFailed { .. } => {}
        }
        self.pump(now);
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Duration) {
        if self.stopped {
            return;
        }
        let lost = self.reading.is_some_and(|since| now >= since + self.config.read_timeout);
        let gap = self.reading.is_none() && self.flight.has_stored();
        match self.role {
            Role::Following if self.pulse.is_due(now) => self.begin_claim(now),
            Role::Following if lost || (self.reading.is_none() && now >= self.poll_at) => self.ask(now),
            Role::Following => {}
            Role::Claiming(_) => self.tick_claim(now, lost || gap),
            Role::Leading => self.tick_lead(now, lost || gap),
        }
        self.pump(now);
    }

    fn on_appended(&mut self, now: Duration, ticket: Ticket, at: Position) {
        // Where it lies means nothing until what lies before it is known to be what was read;
        // reading will tell.
        if !self.anchored {
            return;
        }
        let Some(record) = self.claimed(ticket).or_else(|| self.flight.acknowledge(ticket)) else { return };
        if vetch_bugs::on(Bug::AckTrusted) && self.flight.holds(ticket) {
            self.trust(ticket, at);
            return;
        }
        if at <= self.view.position() {
            // It was read before it was told of, unless the log put it where something else had
            // been.
            if let Err(divergence) = self.view.reread(at, &record) {
                self.halt(divergence);
            }
            return;
        }
        self.flight.store(at, record);
        self.read_stored(now);
        if self.flight.has_stored() && self.reading.is_none() && !self.stopped {
            self.ask(now);
        }
    }

    /// The mistake of taking the engine's word for it.
    fn trust(&mut self, ticket: Ticket, at: Position) {
        let tip = self.head();
        self.events.push(Event::Committed { ticket, at, tip });
    }

    fn on_failed(&mut self, now: Duration, ticket: Ticket) {
        if self.is_claim(ticket) {
            self.claim_failed(now);
        } else if self.flight.holds(ticket) && self.is_leading() {
            self.recover(now);
        }
    }

    /// Whoever answers now has to show that it holds what was read from the one before it.
    fn on_reconnected(&mut self, now: Duration) {
        self.anchored = self.view.position().0 == 0 || vetch_bugs::on(Bug::AnchorSkipped);
        self.flight.forget_positions();
        match self.role {
            Role::Following => self.ask(now),
            Role::Claiming(_) => self.claim_failed(now),
            Role::Leading => self.recover(now),
        }
    }

    /// Whether the page may be believed: it holds the last few records read, or all before its own
    /// were given up.
    fn anchor(&mut self, page: &Page) -> bool {
        let last = self.view.position();
        let from = page.first.0.max((last.0 + 1).saturating_sub(ANCHOR));
        let begins = page.records.first().is_some_and(|(at, _)| at.0 <= from);
        self.anchored |= page.first > last || (begins && page.records.iter().any(|(at, _)| *at == last));
        self.anchored
    }

    fn on_page(&mut self, now: Duration, page: Page) {
        if page.first.0 > self.view.position().0 + 1 {
            self.stop(Event::Behind { first: page.first });
            return;
        }
        let end = page.end;
        let before = self.view.position();
        if end.is_some() {
            self.reading = None;
        }
        if !self.anchor(&page) {
            if let Some(end) = end.filter(|end| *end < before) {
                self.at_end(now, end);
            }
            return;
        }
        for (at, record) in page.records {
            let next = self.view.position().0 + 1;
            if at.0 > next {
                // Something between was not told: ask for it.
                if self.reading.is_none() {
                    self.ask(now);
                }
                return;
            }
            if at.0 == next {
                self.read(now, at, &record);
            } else if let Err(divergence) = self.view.reread(at, &record) {
                self.halt(divergence);
            }
            if self.stopped {
                return;
            }
        }
        self.read_stored(now);
        if self.view.position() > before {
            // On the way to the end: no need to ask again.
            self.reading = self.reading.map(|_| now);
            self.poll_at = now + self.config.poll;
        }
        if let Some(end) = end.filter(|_| !self.stopped) {
            self.at_end(now, end);
        }
    }

    /// Reads own records that lie right behind what was read.
    fn read_stored(&mut self, now: Duration) {
        while !self.stopped {
            let next = Position(self.view.position().0 + 1);
            let Some(record) = self.flight.stored_at(next) else { return };
            self.read(now, next, &record);
        }
    }

    fn read(&mut self, now: Duration, at: Position, record: &Bytes) {
        match self.view.read(at, record) {
            // What comes behind it may be read from a checkpoint there or later.
            Err(Divergence::Seeded { at }) => self.stop(Event::Behind { first: Position(at) }),
            Err(divergence) => self.halt(divergence),
            Ok((print, verdict)) => {
                // It goes on behind what was read, so it is not shorter.
                self.short = None;
                self.flight.read_up_to(at);
                match verdict {
                    Verdict::Valid(entries) => self.accepted(now, at, print, entries),
                    Verdict::Void(void) => self.skipped(now, at, print, void),
                }
            }
        }
    }

    fn skipped(&mut self, now: Duration, at: Position, print: Hash, void: Void) {
        self.events.push(Event::Skipped { at, void });
        if self.is_my_claim(print) {
            self.claim_failed(now);
        } else if self.is_leading() && self.flight.contains(print) {
            self.recover(now);
        }
    }

    fn accepted(&mut self, now: Duration, at: Position, print: Hash, entries: Vec<(Entry, Tip)>) {
        self.pulse.heard(now, &self.config);
        if let Some(pending) = self.flight.take(print) {
            self.committed(at, pending);
            return;
        }
        let claim = entries.first().and_then(|(entry, _)| author_of(entry));
        let named = entries.last().and_then(|(entry, _)| successor_of(entry));
        for (entry, tip) in entries {
            debug_assert!(
                entry.kind != Kind::NewEpoch || claim.is_some(),
                "a record's claim names its author"
            );
            self.events.push(Event::Applied { at, entry, tip });
        }
        if let Some(author) = claim {
            self.epoch_began(now, author);
        } else if self.view.owner() != Some(self.me) && !matches!(self.role, Role::Following) {
            // Somebody else writes after all.
            self.role = Role::Following;
        }
        self.check_named(now, named);
    }

    fn committed(&mut self, at: Position, pending: Pending) {
        let Pending { ticket, after: tip, reads, proposed, since, .. } = pending;
        self.extend_lease(since);
        if proposed {
            self.events.push(Event::Committed { ticket, at, tip });
        }
        if !reads.is_empty() {
            self.events.push(Event::Index { reads, index: Index { position: at, tip } });
        }
        self.check_handed_over(ticket);
    }

    /// A claim was read. What its author's predecessor had under way is decided: what is not there
    /// now is void.
    fn epoch_began(&mut self, now: Duration, author: Author) {
        let mut reads = Vec::new();
        self.handing = None;
        self.end_lease();
        for pending in self.flight.give_up() {
            reads.extend(pending.reads);
            if pending.proposed {
                self.events.push(Event::Void { ticket: pending.ticket });
            }
        }
        let tip = *self.view.tip();
        if author == self.me {
            // Those reads have waited since before the claim; the next barrier serves them.
            self.reads.append(&mut reads);
            self.role = Role::Leading;
            self.last_append = now;
            self.events.push(Event::Leading { epoch: tip.epoch, tip });
            return;
        }
        reads.append(&mut self.reads);
        if !reads.is_empty() {
            self.events.push(Event::IndexLost { reads });
        }
        self.role = Role::Following;
        self.events.push(Event::Following { epoch: tip.epoch, writer: author });
    }

    fn at_end(&mut self, now: Duration, end: Position) {
        // More may have come with the answer than there was when it was asked for.
        self.read_to_end |= self.anchored && end <= self.view.position();
        if end < self.view.position() {
            self.seems_short(now, end);
        } else {
            self.short = None;
        }
        self.claim_at_end(now, end);
    }

    /// One answer may have been long on its way, and time passes for who sleeps: only several in a
    /// row, over a while, are worth a word.
    fn seems_short(&mut self, now: Duration, end: Position) {
        let short = self.short.get_or_insert(Short { since: now, answers: 0, told: false });
        short.answers += 1;
        if !short.told && short.answers >= SHORT_ANSWERS && now >= short.since + self.config.patience {
            short.told = true;
            self.events.push(Event::Suspect { read: self.view.position(), end });
        }
    }

    /// Asks for what lies behind the last record read, and for that record once more: if it is
    /// another one now, the log has lost the first. After a reconnect a few before it as well: a
    /// log that lost them all may have got the last one back from a copy that arrived late.
    pub(crate) fn ask(&mut self, now: Duration) {
        self.reading = Some(now);
        self.poll_at = now + self.config.poll;
        let back = if self.anchored { 1 } else { ANCHOR };
        self.commands.push(Command::Read { after: Position(self.view.position().0.saturating_sub(back)) });
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    fn halt(&mut self, divergence: Divergence) {
        self.stop(Event::Halted(divergence));
    }

    fn stop(&mut self, last: Event) {
        self.stopped = true;
        self.role = Role::Following;
        self.commands.clear();
        self.events.push(last);
    }
}
