//! Assembles whole revisions from the events of a watch over all keys.
//!
//! A response holds whole revisions, unless it is marked as a fragment: then the last one may go on
//! in the next response. So the revision at the end is kept until something later comes, or a
//! response that is not a fragment.

use vetch_api::mvccpb::event::EventType;
use vetch_api::mvccpb::{Event, KeyValue};
use vetch_node::store::Record;
use vetch_node::store::record::Fields;

/// Events that no etcd sends.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EventError {
    #[error("an event without a key")]
    NoKey,
    #[error("events out of order: {revision} behind {last:?}")]
    OutOfOrder { revision: i64, last: Option<i64> },
    #[error("a revision without an end")]
    Endless,
    #[error("an event at revision {0} without a key or a revision")]
    NoRevision(i64),
    #[error("a put at revision {0} without a version or a creation")]
    NoVersion(i64),
}

/// The changes of one revision, in order.
pub(super) type Revision = Vec<Record>;

/// Assembles revisions.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    open: Revision,
}

impl Assembler {
    /// Takes the events of a response; returns the revisions that are complete.
    pub(super) fn take(
        &mut self,
        events: Vec<Event>,
        is_fragment: bool,
    ) -> Result<Vec<Revision>, EventError> {
        let mut complete = Vec::new();
        for event in events {
            let kind = event.r#type();
            let kv = event.kv.ok_or(EventError::NoKey)?;
            let last = self.open.last().map(Record::mod_revision);
            if last.is_some_and(|last| kv.mod_revision < last) {
                return Err(EventError::OutOfOrder { revision: kv.mod_revision, last });
            }
            if last.is_some_and(|last| kv.mod_revision > last) {
                complete.push(std::mem::take(&mut self.open));
            }
            let sub = u32::try_from(self.open.len()).map_err(|_| EventError::Endless)?;
            self.open.push(record(kind, &kv, sub)?);
        }
        if !is_fragment && !self.open.is_empty() {
            complete.push(std::mem::take(&mut self.open));
        }
        Ok(complete)
    }
}

fn record(kind: EventType, kv: &KeyValue, sub: u32) -> Result<Record, EventError> {
    if kv.key.is_empty() || kv.mod_revision < 1 {
        return Err(EventError::NoRevision(kv.mod_revision));
    }
    if kind == EventType::Delete {
        // The store knows the create revision of the deleted key.
        return Ok(Record::tombstone(&kv.key, kv.mod_revision, sub, 0));
    }
    if kv.version < 1 || kv.create_revision < 1 {
        return Err(EventError::NoVersion(kv.mod_revision));
    }
    Ok(Record::new(Fields {
        key: &kv.key,
        value: &kv.value,
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        version: kv.version,
        lease: kv.lease,
        sub,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, revision: i64) -> Event {
        let kv = KeyValue {
            key: key.to_owned().into(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            ..KeyValue::default()
        };
        Event { kv: Some(kv), ..Event::default() }
    }

    fn shape(revisions: &[Revision]) -> Vec<Vec<(i64, u32)>> {
        let places = |revision: &Revision| revision.iter().map(|r| (r.mod_revision(), r.sub())).collect();
        revisions.iter().map(places).collect()
    }

    #[test]
    fn a_response_holds_whole_revisions() {
        let mut assembler = Assembler::default();
        let taken = assembler.take(vec![put("a", 5), put("b", 5), put("a", 6)], false).unwrap();
        assert_eq!(shape(&taken), [vec![(5, 0), (5, 1)], vec![(6, 0)]]);
    }

    #[test]
    fn a_revision_in_fragments_is_one_revision() {
        let mut assembler = Assembler::default();
        let first = assembler.take(vec![put("a", 5), put("a", 6)], true).unwrap();
        assert_eq!(shape(&first), [vec![(5, 0)]]);
        assert_eq!(shape(&assembler.take(vec![put("b", 6)], true).unwrap()), Vec::<Vec<_>>::new());
        let last = assembler.take(vec![put("c", 6)], false).unwrap();
        assert_eq!(shape(&last), [vec![(6, 0), (6, 1), (6, 2)]]);
    }

    #[test]
    fn an_answer_without_events_completes_nothing_twice() {
        let mut assembler = Assembler::default();
        assert_eq!(shape(&assembler.take(Vec::new(), false).unwrap()), Vec::<Vec<_>>::new());
        assembler.take(vec![put("a", 5)], true).unwrap();
        assert_eq!(shape(&assembler.take(Vec::new(), false).unwrap()), [vec![(5, 0)]]);
        assert_eq!(shape(&assembler.take(Vec::new(), false).unwrap()), Vec::<Vec<_>>::new());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut assembler = Assembler::default();
        assert!(assembler.take(vec![put("a", 6), put("a", 5)], true).is_err());
        assert!(assembler.take(vec![Event::default()], false).is_err());
        let spoilt = |spoil: fn(&mut KeyValue), kind: EventType| {
            let mut event = put("a", 7);
            event.kv.iter_mut().for_each(spoil);
            event.set_type(kind);
            Assembler::default().take(vec![event], false)
        };
        assert!(spoilt(|_| (), EventType::Put).is_ok() && spoilt(|_| (), EventType::Delete).is_ok());
        assert!(spoilt(|kv| kv.create_revision = 0, EventType::Put).is_err());
        assert!(spoilt(|kv| kv.version = 0, EventType::Put).is_err());
        for kind in [EventType::Put, EventType::Delete] {
            assert!(spoilt(|kv| kv.key.clear(), kind).is_err());
            assert!(spoilt(|kv| kv.mod_revision = 0, kind).is_err());
        }
    }
}
