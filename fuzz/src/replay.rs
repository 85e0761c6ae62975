//! Replay of journal payloads, and the records in them: refused, or the same state every time,
//! which goes on.

use vetch_store::request::{DeleteRangeRequest, KeyRange, PutRequest, Remaining, WriteRequest};
use vetch_store::{BadCommand, Mark, Record, Replayed, Store};
use vetch_testkit::valid::Valid;

pub fn run(data: &[u8]) {
    match data.split_first() {
        Some((0, wire)) => from_wire(wire),
        Some((1, saved)) => restore(saved),
        Some((2, payload)) => replay(Store::default, payload),
        Some((_, payload)) => replay(base, payload),
        None => {}
    }
}

fn from_wire(wire: &[u8]) {
    if let Ok(record) = Record::from_wire(wire, 3) {
        assert_eq!(record.wire().concat(), wire, "a record is its wire form");
        let mut saved = Vec::new();
        record.save(&mut saved);
        assert_eq!(saved.len(), record.saved_len());
        let again = Record::restore(&mut saved.as_slice());
        // A tombstone that shows more than its key and revision was never written, and is refused
        // there.
        assert!(again == Ok(record.clone()) || record.is_tombstone(), "{record:?}");
    }
}

fn restore(saved: &[u8]) {
    let mut rest = saved;
    if let Ok(record) = Record::restore(&mut rest) {
        let mut again = Vec::new();
        record.save(&mut again);
        assert_eq!(
            Record::restore(&mut again.as_slice()),
            Ok(record),
            "what is restored is saved as the same"
        );
        assert!(rest.len() < saved.len(), "a record takes bytes");
    }
}

fn replay(fresh: fn() -> Store, payload: &[u8]) {
    let once = |payload: &[u8]| -> Result<(Store, Vec<Replayed>), BadCommand> {
        let mut store = fresh();
        let replayed = store.replay(payload)?;
        Ok((store, replayed))
    };
    let Ok((mut store, replayed)) = once(payload) else { return };
    let (again, the_same) = once(payload).expect("accepted before");
    assert_eq!((replayed, store.head(), store.unversioned()), (the_same, again.head(), again.unversioned()));
    store.publish(store.head());
    let mut freed = Vec::new();
    while !store.compact_step(2, &mut freed) {}
    let Mark { revision, .. } = store.head();
    let everything = DeleteRangeRequest { range: KeyRange::new("\0", "\0"), prev_kv: true };
    for request in
        [WriteRequest::Put(put("a", "last", 0).valid()), WriteRequest::DeleteRange(everything.valid())]
    {
        store.evaluate(&request, &mut Vec::new()).expect("nothing refuses these");
    }
    assert_eq!(store.head().revision, revision + 2);
}

pub(crate) fn put(key: &str, value: &str, lease: i64) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        lease,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    }
}

/// What a node would have written for a short life.
pub fn script() -> Vec<WriteRequest> {
    let delete = |key: &str, end: &str| {
        let range = KeyRange::new(key.to_owned(), end.to_owned());
        WriteRequest::DeleteRange(DeleteRangeRequest { range, prev_kv: false }.valid())
    };
    vec![
        WriteRequest::Put(put("a", "one", 0).valid()),
        WriteRequest::LeaseGrant { id: 7, ttl: 60 },
        WriteRequest::Put(put("ab", "two", 7).valid()),
        WriteRequest::Put(put("b", "", 0).valid()),
        WriteRequest::Put(put("a", "three", 7).valid()),
        delete("b", ""),
        WriteRequest::Put(put("b", "again", 0).valid()),
        WriteRequest::LeaseRemaining { leases: vec![Remaining { id: 7, grant: 1, seconds: 30 }] },
        WriteRequest::Compact { revision: 3 },
        delete("a", "ac"),
        WriteRequest::Put(put("c", "four", 7).valid()),
    ]
}

/// The store after that life, all of it visible.
pub fn base() -> Store {
    let mut store = Store::default();
    for request in script() {
        store.evaluate(&request, &mut Vec::new()).expect("nothing refuses these");
    }
    store.publish(store.head());
    store
}
