//! Everything that can be observed of a store, compared with the specification.

use std::collections::BTreeSet;
use std::sync::Arc;

use vetch_store::hash::HashRun;
use vetch_store::lease::{ATTACHED_BYTES, LEASE_BYTES};
use vetch_store::load::Unversioned;
use vetch_store::range::RangeRun;
use vetch_store::request::*;
use vetch_store::{Record, Store};
use vetch_testkit::to_model;
use vetch_testkit::valid::Valid;

use super::Spec;

pub(crate) fn compact_all(store: &mut Store) {
    let mut freed = Vec::new();
    let had_garbage = store.has_garbage();
    while !store.compact_step(1, &mut freed) {}
    assert!(!store.has_garbage());
    assert!(had_garbage || freed.is_empty());
}

pub(crate) fn hash(store: &Store, at: i64) -> u32 {
    let mut run = HashRun::new(at, store.visible());
    while !run.step(store, 2).expect("no compaction has moved") {}
    run.finish()
}

/// Every observable fact about a settled store.
pub(crate) fn check_against(store: &Store, spec: &Spec) {
    let (model, mark) = (&spec.model, spec.mark());
    assert_eq!((store.head(), store.visible()), (mark, mark));
    let keys: BTreeSet<&[u8]> = spec.versions.iter().map(Record::key).collect();
    for at in mark.compact_revision.max(1)..=mark.revision {
        for &key in &keys {
            assert_eq!(store.get(key, at).map(to_model::key_value).as_ref(), model.get(key, at), "at={at}");
        }
        for (start, end) in [("\0", "\0"), ("a", "c"), ("ab", "\0"), ("b", "a"), ("a", "a\0")] {
            let request = RangeRequest { revision: at, ..RangeRequest::new(KeyRange::new(start, end)) };
            let mut run =
                RangeRun::new(request.clone().valid(), store.visible()).expect("a readable revision");
            while !run.step(store, 3, usize::MAX).expect("a readable revision") {}
            let count = run.count(store).expect("a readable revision");
            let answer = run.finish(count);
            assert_eq!(answer.revision, mark.revision);
            assert_eq!(to_model::ranged(&answer), model.range_at(&to_model::range(&request), at));
        }
        assert_eq!(hash(store, at), model.hash_kv(at, mark.compact_revision), "hash at={at}");
    }
    // Users and roles are not specified.
    let expected = Unversioned { auth: Arc::clone(store.auth()).into(), ..spec.unversioned() };
    assert_eq!(store.unversioned(), expected);
    for &id in model.leases().keys() {
        assert_eq!(store.lease_keys(id), model.lease_keys(id), "lease {id}");
    }
    let kept = spec.versions.iter().filter(|version| spec.keeps(version, mark.compact_revision));
    let stats = store.stats();
    assert_eq!(stats.keys, model.dump(mark.revision).len() as u64);
    let attached: usize = model.leases().keys().map(|&id| model.lease_keys(id).len()).sum();
    let leases = LEASE_BYTES * model.leases().len() as u64 + ATTACHED_BYTES * attached as u64;
    let unversioned = leases + store.auth().bytes();
    assert_eq!(stats.bytes, unversioned + kept.map(|version| version.footprint() as u64).sum::<u64>());
    assert_eq!(stats.leases, model.leases().len() as u64);
}
