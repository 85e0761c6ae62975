//! The hot paths, each a given number of times and nothing else, so that their instructions can be
//! counted: `instructions PATH TIMES`. `bench/instructions/run.sh` runs it under valgrind, twice
//! for each path; the difference is what the repetitions cost.
//!
//! No clock, no threads, no I/O: the same work every time.

use std::hint::black_box;

use bytes::Bytes;
use vetch_journal::{Draft, Kind, PartId, Tip};
use vetch_node::event::NodeEvent;
use vetch_store::range::RangeRun;
use vetch_store::request::{
    Compare, CompareResult, CompareTarget, Event, KeyRange, PutRequest, RangeRequest, RequestOp, TxnRequest,
    WriteRequest,
};
use vetch_store::{Record, Store};
use vetch_testkit::valid::Valid;
use vetch_watch::{Budget, Create, EventLog, Events, Filters, Hub, RingLimit, Stream};

const KEYS: usize = 2_000;
const VALUE: usize = 400;
/// Requests that share a journal entry.
const BATCH: usize = 16;
/// Keys that a scan reads with the store locked.
const CHUNK: usize = 1_000;
/// Watchers of one range, one to a stream.
const WATCHERS: usize = 10;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let times = words.get(2).and_then(|word| word.parse().ok());
    let (Some(path), Some(times)) = (words.get(1), times) else {
        panic!("instructions put|cas|read|list|watch TIMES");
    };
    let mut world = World::new();
    match path.as_str() {
        "put" => world.writes(times, |_, key, value| WriteRequest::Put(put(key, value).valid())),
        "cas" => world.writes(times, |store, key, value| WriteRequest::Txn(cas(store, key, value).valid())),
        "read" => world.reads(times),
        "list" => world.lists(times),
        "watch" => world.watches(times),
        other => panic!("no such path: {other}"),
    }
}

struct World {
    store: Store,
    tip: Tip,
    keys: Vec<Bytes>,
    value: Bytes,
}

impl World {
    fn new() -> World {
        let keys = (0..KEYS)
            .map(|index| Bytes::from(format!("/registry/leases/kube-node-lease/node-{index:06}")))
            .collect();
        let store = Store::default();
        let tip = Tip::genesis(store.head().revision + 1);
        let mut world = World { store, tip, keys, value: Bytes::from(vec![7; VALUE]) };
        world.writes(KEYS, |_, key, value| WriteRequest::Put(put(key, value).valid()));
        world
    }

    /// Evaluates requests in batches, chains each as an entry, and makes it visible, as if the disk
    /// had it.
    fn writes(&mut self, times: usize, request: impl Fn(&Store, Bytes, Bytes) -> WriteRequest) {
        let mut done = 0;
        while done < times {
            let batch = BATCH.min(times - done);
            let mut draft = Draft::new(Kind::Writes);
            draft.begin_part(PartId::default());
            for index in done..done + batch {
                let key = self.keys[index % KEYS].clone();
                let request = request(&self.store, key, self.value.clone());
                let evaluated = self.store.evaluate(&request, draft.payload()).expect("nothing refuses it");
                assert_eq!(evaluated.events.len(), 1, "every request writes");
                black_box(&evaluated);
            }
            draft.end_part(batch as u32);
            black_box(draft.chain(&mut self.tip));
            self.store.publish(self.store.head());
            done += batch;
        }
    }

    fn run(&self, range: KeyRange, limit: i64) -> Vec<Record> {
        let request = RangeRequest { limit, ..RangeRequest::new(range) };
        let mut run =
            RangeRun::new(request.valid(), self.store.visible()).expect("the newest revision can be read");
        run.step(&self.store, CHUNK, 1 << 20).expect("nothing is compacted");
        black_box(run.count(&self.store).expect("nothing is compacted"));
        run.take()
    }

    fn reads(&self, times: usize) {
        for index in 0..times {
            let key = self.keys[index * 7 % KEYS].clone();
            assert_eq!(black_box(self.run(KeyRange::single(key), 1)).len(), 1);
        }
    }

    fn lists(&self, times: usize) {
        for _ in 0..times {
            let all = KeyRange::new("/registry/leases/", "/registry/leases0");
            assert_eq!(black_box(self.run(all, CHUNK as i64)).len(), CHUNK);
        }
    }

    /// One event, matched and handed to all watchers, again and again.
    fn watches(&mut self, times: usize) {
        let now = self.store.visible().revision;
        let mut log = EventLog::new(0, now);
        let mut hub = Hub::new(RingLimit { revisions: 512, bytes: 256 << 10 }, now);
        let mut streams: Vec<Stream<NodeEvent>> = (0..WATCHERS).map(|_| Stream::open(&mut hub)).collect();
        let mut out = Vec::new();
        for stream in &mut streams {
            let id = stream.create(&mut hub, &log, &everything());
            assert!(id.is_some(), "the watcher is accepted");
            assert!(!stream.drain(&hub, &log, Budget::default(), &mut out).more, "one answer is all");
        }
        let record = self.run(KeyRange::single(self.keys[0].clone()), 1).remove(0);
        let event = NodeEvent(Event { kv: record.clone(), prev: Some(record) });
        for turn in 0..times {
            log.append(now + 1 + turn as i64, Events::One(event.clone()));
            hub.begin(log.fresh(hub.published() + 1, 64).expect("there is a new revision"));
            assert_eq!(hub.step(8192).wake.len(), WATCHERS, "every stream is woken");
            out.clear();
            for stream in &mut streams {
                assert!(!stream.drain(&hub, &log, Budget::default(), &mut out).more, "one event is all");
            }
            assert_eq!(black_box(&out).len(), WATCHERS, "each watcher is told");
        }
    }
}

fn put(key: Bytes, value: Bytes) -> PutRequest {
    PutRequest { key, value, lease: 0, prev_kv: false, ignore_value: false, ignore_lease: false }
}

/// Kubernetes' update.
fn cas(store: &Store, key: Bytes, value: Bytes) -> TxnRequest {
    let known = store.get(&key, store.head().revision).expect("the key is there").mod_revision();
    let range = KeyRange::single(key.clone());
    TxnRequest {
        compare: vec![Compare {
            range: range.clone(),
            result: CompareResult::Equal,
            target: CompareTarget::Mod(known),
        }],
        success: vec![RequestOp::Put(put(key, value))],
        failure: vec![RequestOp::Range(RangeRequest::new(range))],
    }
}

fn everything() -> Create {
    Create {
        key: b"/registry/leases/".to_vec(),
        range_end: b"/registry/leases0".to_vec(),
        start_revision: 0,
        watch_id: 0,
        prev_kv: true,
        fragment: false,
        progress_notify: false,
        filters: Filters::default(),
    }
}
