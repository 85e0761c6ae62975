//! Enough keys to split and merge every kind of node, and enough changes to fill many blocks of
//! history.
//!
//! The reference is a map from revisions to the set of living keys, kept for a sample of revisions.

use std::collections::BTreeMap;

use vetch_store::load::Loader;
use vetch_store::range::RangeRun;
use vetch_store::request::*;
use vetch_store::{Record, Store};
use vetch_testkit::valid::Valid;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn name(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

fn put(number: u64) -> WriteRequest {
    WriteRequest::Put(
        PutRequest {
            key: name(number).into(),
            value: "v".into(),
            lease: 0,
            prev_kv: false,
            ignore_value: false,
            ignore_lease: false,
        }
        .valid(),
    )
}

fn delete(from: u64, upto: u64) -> WriteRequest {
    let range = KeyRange::new(name(from), name(upto));
    WriteRequest::DeleteRange(DeleteRangeRequest { range, prev_kv: false }.valid())
}

/// Living keys with their mod revision.
type Living = BTreeMap<Vec<u8>, i64>;

struct Run {
    store: Store,
    living: Living,
    past: BTreeMap<i64, Living>,
    journal: Vec<u8>,
    versions: Vec<Record>,
    dice: Dice,
}

impl Run {
    fn write(&mut self, request: &WriteRequest) {
        let evaluated = self.store.evaluate(request, &mut self.journal).expect("never refused");
        for event in evaluated.events {
            let kv = &event.kv;
            if kv.is_tombstone() {
                assert!(self.living.remove(kv.key()).is_some());
            } else {
                self.living.insert(kv.key().to_vec(), kv.mod_revision());
            }
            self.versions.push(event.kv);
        }
    }

    fn compact(&mut self) {
        let oldest = self.store.head().compact_revision.max(1);
        let revision = oldest + self.dice.roll((self.store.head().revision - oldest).max(1) as u64) as i64;
        if revision > self.store.head().compact_revision {
            self.write(&WriteRequest::Compact { revision });
            self.past.retain(|&at, _| at >= revision);
        }
    }

    fn check(&mut self, store: &Store) {
        let mut past: Vec<(i64, &Living)> = self.past.iter().map(|(&at, living)| (at, living)).collect();
        past.push((store.head().revision, &self.living));
        for (at, living) in past {
            for (from, upto) in [(0, 999_999), (300, 301), (0, 700), (2_500, 9_000), (900, 100)] {
                let (from, upto) = (name(from), name(upto));
                let expected: Vec<(&[u8], i64)> = living
                    .iter()
                    .filter(|(key, _)| **key >= from && **key < upto)
                    .map(|(key, &revision)| (key.as_slice(), revision))
                    .collect();
                let range = KeyRange::new(from, upto);
                let limit = self.dice.roll(2_000) as i64 + 1;
                let request = RangeRequest { limit, revision: at, ..RangeRequest::new(range) };
                let mut run = RangeRun::new(request.valid(), store.visible()).expect("readable");
                while !run.step(store, 501, usize::MAX).expect("readable") {}
                let count = run.count(store).expect("readable");
                let answer = run.finish(count);
                assert_eq!(answer.count, expected.len() as i64, "at={at}");
                assert_eq!(answer.more, expected.len() as i64 > limit);
                let kvs = answer.kvs.iter().map(|kv| (kv.key(), kv.mod_revision()));
                assert!(kvs.eq(expected.into_iter().take(limit as usize)), "at={at}");
            }
        }
    }

    fn round(&mut self) {
        const KEYS: u64 = 12_000;
        for _ in 0..1_500 {
            let number = self.dice.roll(KEYS);
            match self.dice.roll(40) {
                0..=27 => self.write(&put(number)),
                28..=38 => self.write(&delete(number, number + 1)),
                _ => {
                    let width = self.dice.roll(600);
                    self.write(&delete(number, number + width));
                }
            }
        }
        self.past.insert(self.store.head().revision, self.living.clone());
    }

    /// The whole of it once more, from the journal and from a checkpoint.
    fn rebuild(&mut self) {
        let mut again = Store::default();
        again.replay(&self.journal).expect("just written");
        again.publish(again.head());
        self.check(&again);
        let mut records: Vec<Record> = self.versions.clone();
        records.retain(|record| self.store.retains(record));
        records
            .sort_by(|a, b| (a.key(), a.mod_revision(), a.sub()).cmp(&(b.key(), b.mod_revision(), b.sub())));
        let mut loader = Loader::new(self.store.head(), records.len());
        records.into_iter().for_each(|record| loader.push(record).expect("in order"));
        let (loaded, _) = loader.finish(&self.store.unversioned()).expect("consistent");
        self.check(&loaded);
        assert_eq!(again.stats().keys, self.living.len() as u64);
        // The journal goes on: the run continues with the loaded store.
        self.store = loaded;
    }
}

#[test]
fn twelve_thousand_keys_come_and_go() {
    let mut run = Run {
        store: Store::default(),
        living: Living::new(),
        past: BTreeMap::new(),
        journal: Vec::new(),
        versions: Vec::new(),
        dice: Dice(0x2545_f491_4f6c_dd1d),
    };
    for number in 0..9_000 {
        run.write(&put(number));
    }
    for round in 0..10 {
        run.round();
        run.store.publish(run.store.head());
        if round % 2 == 1 {
            run.compact();
            run.store.publish(run.store.head());
            run.store.compact_step(700, &mut Vec::new());
        }
        let store = std::mem::take(&mut run.store);
        run.check(&store);
        run.store = store;
        if round == 5 {
            run.rebuild();
        }
    }
    // Few keys are left in every leaf once the others are forgotten.
    for number in (0..12_000).filter(|number| number % 9 != 0) {
        run.write(&delete(number, number + 1));
    }
    let revision = run.store.head().revision;
    run.write(&put(5));
    run.write(&WriteRequest::Compact { revision: revision + 1 });
    run.store.publish(run.store.head());
    run.past.clear();
    while !run.store.compact_step(1_000, &mut Vec::new()) {}
    let store = std::mem::take(&mut run.store);
    run.check(&store);
    run.store = store;
    run.write(&delete(0, 999_999));
    let revision = run.store.head().revision;
    run.write(&put(1));
    run.write(&WriteRequest::Compact { revision: revision + 1 });
    run.store.publish(run.store.head());
    while !run.store.compact_step(100, &mut Vec::new()) {}
    assert_eq!(run.store.stats().keys, 1);
    run.past.clear();
    let store = std::mem::take(&mut run.store);
    run.check(&store);
}

/// Blocks of history begin and end at every kind of revision: single creates, deletes, and one
/// large delete.
#[test]
fn every_revision_is_counted() {
    let mut store = Store::default();
    let mut counts = vec![0, 0];
    for number in 0..2_700 {
        store.evaluate(&put(number), &mut Vec::new()).expect("never refused");
        counts.push(number as i64 + 1);
    }
    for (from, upto) in [(0, 1), (10, 1_500), (2_000, 2_001)] {
        store.evaluate(&delete(from, upto), &mut Vec::new()).expect("never refused");
        counts.push(counts.last().expect("not empty") - (upto - from) as i64);
    }
    for number in 0..1_000 {
        store.evaluate(&put(number), &mut Vec::new()).expect("never refused");
        let revives = number == 0 || number >= 10;
        counts.push(counts.last().expect("not empty") + i64::from(revives));
    }
    store.publish(store.head());
    for (at, &expected) in counts.iter().enumerate().skip(1) {
        let range = KeyRange::new("\0", "\0");
        let request = RangeRequest { revision: at as i64, count_only: true, ..RangeRequest::new(range) };
        let run = RangeRun::new(request.valid(), store.visible()).expect("readable");
        assert_eq!(run.count(&store), Ok(expected), "at={at}");
    }
}
