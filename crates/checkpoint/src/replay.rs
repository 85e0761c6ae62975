//! Replay: applies entries of the journal to the store.
//!
//! What this version does not understand is refused. An entry that is skipped or misunderstood
//! would lead to a state that its writer never had.

use bytes::Bytes;
use vetch_journal::{Entry, Kind, Payload};
use vetch_store::{BadCommand, Replayed, Store};

/// The only partition so far.
pub const PARTITION: u32 = 0;

/// The commands of an entry, part by part, each with the count of revisions that it makes.
pub fn commands(entry: &Entry) -> Result<Vec<(&Bytes, u32)>, BadCommand> {
    match entry.kind {
        Kind::Writes => {}
        Kind::NewEpoch | Kind::Barrier if entry.parts.is_empty() => {}
        _ => return Err(BadCommand::Misfit("an entry with a payload that is no write")),
    }
    let commands = entry.parts.iter().map(|part| match &part.payload {
        Payload::Ref(_) => Err(BadCommand::Misfit("a payload outside the journal")),
        Payload::Inline(_) if part.id.partition != PARTITION => {
            Err(BadCommand::Misfit("a part of another partition"))
        }
        Payload::Inline(payload) => Ok((payload, part.count)),
    });
    commands.collect()
}

/// Applies an entry to head. After an error the state is not to be used.
pub fn replay(store: &mut Store, entry: &Entry) -> Result<Vec<Replayed>, BadCommand> {
    let mut revisions = Vec::new();
    for (payload, count) in commands(entry)? {
        let made = store.replay(payload)?;
        if made.len() as u64 != u64::from(count) {
            return Err(BadCommand::Misfit("a part that makes another number of revisions than it says"));
        }
        revisions.extend(made);
    }
    Ok(revisions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_journal::{Draft, PartId, PayloadRef, Tip};
    use vetch_store::request::{Alarm, AlarmKind, WriteRequest};

    /// An entry with one command, which makes no revision.
    fn entry(kind: Kind, partition: u32, count: u32) -> Entry {
        let mut draft = Draft::new(kind);
        draft.begin_part(PartId { partition, ..PartId::default() });
        let alarm = Alarm { member: 1, kind: AlarmKind::Corrupt };
        Store::default().evaluate(&WriteRequest::AlarmActivate(alarm), draft.payload()).unwrap();
        draft.end_part(count);
        Entry::decode(draft.chain(&mut Tip::genesis(2)).bytes()).unwrap()
    }

    #[test]
    fn a_write_is_applied_and_what_is_not_understood_is_refused() {
        let replayed = |entry: &Entry| {
            let mut store = Store::default();
            replay(&mut store, entry).map(|_| store.alarms().count())
        };
        assert_eq!(replayed(&entry(Kind::Writes, 0, 0)), Ok(1));
        for refused in [
            entry(Kind::Barrier, 0, 0),
            entry(Kind::NewEpoch, 0, 0),
            entry(Kind::Map, 0, 0),
            entry(Kind::Writes, 1, 0),
            entry(Kind::Writes, 0, 1),
        ] {
            assert!(matches!(replayed(&refused), Err(BadCommand::Misfit(_))), "{refused:?}");
        }
        let mut draft = Draft::new(Kind::Writes);
        draft.push_ref(PartId::default(), 0, &PayloadRef { stream: 1, position: 2, len: 3, hash: [4; 32] });
        let outside = Entry::decode(draft.chain(&mut Tip::genesis(2)).bytes()).unwrap();
        assert!(replayed(&outside).is_err());
        let empty = Entry::decode(Draft::new(Kind::NewEpoch).chain(&mut Tip::genesis(2)).bytes()).unwrap();
        assert_eq!(replayed(&empty), Ok(0));
    }
}
