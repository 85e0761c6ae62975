//! Proposals: what this member proposed as a leader and does not know the fate of.
//!
//! Losing leadership decides nothing: another leader may have the entries, and commit them. They
//! are decided when this member applies what the log has in their place.

use std::collections::VecDeque;

use vetch_base::{Epoch, Seq};
use vetch_cluster::{Event, Ticket};
use vetch_journal::Tip;

use crate::entry::LogEntry;

#[derive(Clone, Debug)]
struct Proposal {
    ticket: Ticket,
    epoch: Epoch,
    last: Seq,
    /// The last of its entries that was applied.
    applied: Option<Tip>,
}

#[derive(Default)]
pub(super) struct Proposals {
    undecided: VecDeque<Proposal>,
    last_ticket: u64,
}

impl Proposals {
    pub(super) fn push(&mut self, epoch: Epoch, last: Seq) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.undecided.push_back(Proposal { ticket, epoch, last, applied: None });
        ticket
    }

    /// An entry was applied. It is reported as committed if it ends a proposal, not yet if it is
    /// within one, and else as applied. Returns whether it was reported.
    pub(super) fn applied(&mut self, entry: &LogEntry, events: &mut Vec<Event>) -> bool {
        self.drop_older(entry, events);
        let Some(front) = self.undecided.front_mut().filter(|front| front.epoch == entry.epoch()) else {
            events.push(Event::Applied { entry: entry.entry(), tip: *entry.tip() });
            return true;
        };
        front.applied = Some(*entry.tip());
        if front.last == entry.seq() {
            let ticket = front.ticket;
            self.undecided.pop_front();
            events.push(Event::Committed { ticket, tip: *entry.tip() });
            return true;
        }
        false
    }

    /// This member leads, and everything that it proposed before is decided.
    pub(super) fn begin(&mut self, entry: &LogEntry, events: &mut Vec<Event>) {
        self.drop_older(entry, events);
        assert!(self.undecided.is_empty(), "a leader begins with nothing undecided");
    }

    /// An entry of a later epoch shows that what was proposed before it, and is not applied, never
    /// will be. A proposal of several entries may have been committed in part; then the tip of its
    /// event says how far.
    fn drop_older(&mut self, entry: &LogEntry, events: &mut Vec<Event>) {
        while let Some(front) = self.undecided.pop_front_if(|front| front.epoch < entry.epoch()) {
            let Proposal { ticket, applied, .. } = front;
            events.push(match applied {
                Some(tip) => Event::Committed { ticket, tip },
                None => Event::Dropped { ticket },
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_journal::{Draft, Kind};

    fn next(log: &mut Vec<LogEntry>, epoch: u64) {
        let mut tip = log.last().map_or(Tip::genesis(2), |entry| *entry.tip());
        log.push(if tip.epoch == Epoch::new(epoch) {
            LogEntry::from(&Draft::new(Kind::Barrier).chain(&mut tip))
        } else {
            LogEntry::new_epoch(Epoch::new(epoch), &tip)
        });
    }

    fn log(epochs: &[u64]) -> Vec<LogEntry> {
        let mut log = Vec::new();
        epochs.iter().for_each(|epoch| next(&mut log, *epoch));
        log
    }

    /// What is reported when these are applied after a leader of epoch 1 proposed 2 to 3, 4 and 5.
    fn reported(epochs: &[u64]) -> String {
        let (mut proposals, mut events) = (Proposals::default(), Vec::new());
        for last in [3, 4, 5] {
            proposals.push(Epoch::new(1), Seq::new(last));
        }
        for entry in &log(epochs)[1..] {
            proposals.applied(entry, &mut events);
        }
        let text = events.iter().map(|event| match event {
            Event::Applied { tip, .. } => format!("applied {}", tip.seq),
            Event::Committed { ticket, tip, .. } => format!("committed {} to {}", ticket.0, tip.seq),
            Event::Dropped { ticket } => format!("dropped {}", ticket.0),
            other => format!("{other:?}"),
        });
        text.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn proposals_are_decided_by_what_is_applied() {
        assert_eq!(reported(&[1, 1]), "");
        assert_eq!(reported(&[1, 1, 1, 1]), "committed 1 to 3, committed 2 to 4");
        assert_eq!(reported(&[1, 1, 1, 2]), "committed 1 to 3, dropped 2, dropped 3, applied 4");
        assert_eq!(reported(&[1, 2]), "dropped 1, dropped 2, dropped 3, applied 2");
        assert_eq!(reported(&[1, 1, 2]), "committed 1 to 2, dropped 2, dropped 3, applied 3");
    }
}
