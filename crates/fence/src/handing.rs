//! Handing over: a writer that names its successor, so that nobody has to wait until it falls
//! silent.
//!
//! The last entry of a writer may be a barrier that names another author. Once it counts, its
//! writer writes no more in this epoch, and whoever is named claims as soon as it reads it. What
//! counts is decided as ever: a successor that never claims, or claims too late, costs the time
//! that a silent writer costs, and nothing else. An author is a life of a server, so an old name
//! means nothing to the next life.

use std::time::Duration;

use vetch_journal::{Draft, Entry, Kind, PartId, Payload};

use crate::leading::Refusal;
use crate::log::Ticket;
use crate::member::{Event, Member, Role};
use crate::record::Author;

const MARK: &[u8; 8] = b"HANDOVER";
const LEN: usize = MARK.len() + 16;

impl Member {
    /// Begins to hand over. Nothing is started behind it: proposals are refused as `Busy` until it
    /// is decided. Once it counts, `HandedOver` is told and this member follows; if it turns out
    /// void it goes on as the writer.
    pub fn hand_over(&mut self, now: Duration, to: Author) -> Result<Ticket, Refusal> {
        if !self.is_leading() {
            return Err(Refusal::NotLeading);
        }
        if self.handing.is_some() || self.flight.len() >= self.config.window {
            return Err(Refusal::Busy);
        }
        self.end_lease();
        let mut tip = self.head();
        let ticket = self.start(now, &[naming(to).chain(&mut tip)], true);
        self.handing = Some(ticket);
        Ok(ticket)
    }

    /// An own append counts. If it was the last of this writer, its part is over.
    pub(crate) fn check_handed_over(&mut self, ticket: Ticket) {
        if self.handing.take_if(|handing| *handing == ticket).is_none() {
            return;
        }
        debug_assert!(self.flight.is_empty(), "nothing was started behind it");
        self.role = Role::Following;
        let reads = std::mem::take(&mut self.reads);
        if !reads.is_empty() {
            self.events.push(Event::IndexLost { reads });
        }
        self.events.push(Event::HandedOver);
    }

    /// An entry of another writer was read, which may name this member.
    pub(crate) fn check_named(&mut self, now: Duration, named: Option<Author>) {
        if named == Some(self.me) {
            self.claim_now(now);
        }
    }
}

fn naming(successor: Author) -> Draft {
    let mut draft = Draft::with_capacity(Kind::Barrier, LEN);
    draft.begin_part(PartId::default());
    draft.payload().extend_from_slice(MARK);
    draft.payload().extend_from_slice(&successor.node.to_le_bytes());
    draft.payload().extend_from_slice(&successor.life.to_le_bytes());
    draft.end_part(0);
    draft
}

/// Whom an entry names as the next writer, if it does.
pub fn successor_of(entry: &Entry) -> Option<Author> {
    let Payload::Inline(payload) = &entry.parts.first()?.payload else { return None };
    if entry.kind != Kind::Barrier || payload.len() != LEN || !payload.starts_with(MARK) {
        return None;
    }
    let number = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
    Some(Author { node: number(MARK.len()), life: number(MARK.len() + 8) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_journal::Tip;

    #[test]
    fn a_successor_is_read_as_it_was_named() {
        let named = Author { node: 3, life: u64::MAX };
        let chained = naming(named).chain(&mut Tip::genesis(2));
        assert_eq!(successor_of(&Entry::decode(chained.bytes()).unwrap()), Some(named));
        let plain = Draft::new(Kind::Barrier).chain(&mut Tip::genesis(2));
        assert_eq!(successor_of(&Entry::decode(plain.bytes()).unwrap()), None);
    }
}
