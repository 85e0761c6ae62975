//! Runs against what the versions of their revision say, with writers, compactions and the freeing
//! of versions between steps.

use crate::validated::valid;
use bytes::Bytes;

use super::*;
use crate::request::{DeleteRangeRequest, KeyRange, PutRequest, WriteRequest};

const KEYS: u64 = 40;
const LEASES: u64 = 4;

struct World {
    store: Store,
    random: u64,
}

impl World {
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) % end
    }

    fn key(&mut self) -> Bytes {
        format!("k{:02}", self.below(KEYS)).into()
    }

    /// Evaluates something, makes some of it visible, and frees what a reader at `pinned` can do
    /// without.
    fn write(&mut self, pinned: i64) {
        let lease = self.below(LEASES + 1) as i64;
        let request = match self.below(20) {
            0 => WriteRequest::LeaseRevoke { id: lease },
            1..=4 => WriteRequest::LeaseGrant { id: lease.max(1), ttl: 60 },
            5..=8 => {
                let range = KeyRange::single(self.key());
                WriteRequest::DeleteRange(valid(DeleteRangeRequest { range, prev_kv: false }))
            }
            9 => WriteRequest::Compact { revision: self.store.head().revision },
            _ => {
                let (key, value) = (self.key(), Bytes::new());
                let (prev_kv, ignore_value, ignore_lease) = (false, false, false);
                WriteRequest::Put(valid(PutRequest {
                    key,
                    value,
                    lease,
                    prev_kv,
                    ignore_value,
                    ignore_lease,
                }))
            }
        };
        // A lease may be missing or there already, a revision compacted: that is no matter.
        let _ = self.store.evaluate(&request, &mut Vec::new());
        if self.below(3) == 0 {
            self.store.publish(self.store.head());
        }
        let max = self.below(4) as usize;
        self.store.compact_step_upto(max, pinned, &mut Vec::new());
    }

    /// What the versions of what is visible say.
    fn expected(&self, lease: Option<i64>) -> Vec<(Vec<u8>, i64)> {
        let at = self.store.visible().revision;
        let keys = (0..KEYS).map(|number| format!("k{number:02}").into_bytes());
        let versions = keys.filter_map(|key| self.store.get(&key, at).map(|version| (key, version.lease())));
        versions.filter(|(_, found)| *found != 0 && lease.is_none_or(|lease| lease == *found)).collect()
    }
}

#[test]
fn a_run_finds_the_keys_of_its_revision_whatever_happens_between_its_steps() {
    let (mut largest, mut moved) = (0, 0);
    for seed in 0..400 {
        let mut world = World { store: Store::default(), random: seed };
        for _ in 0..150 {
            world.write(i64::MAX);
        }
        world.store.publish(world.store.head());
        // What was evaluated and cannot be seen yet when the run begins.
        for _ in 0..world.below(10) {
            let visible = world.store.visible().revision;
            world.write(visible);
        }
        let wanted = [None, Some(1), Some(2), Some(9)][world.below(4) as usize];
        let expected = world.expected(wanted);
        let mut run = match wanted {
            Some(lease) => LeasedRun::of(&world.store, lease),
            None => LeasedRun::of_all(&world.store),
        };
        let at = run.revision();
        loop {
            let budget = 1 + world.below(3) as usize;
            match run.step(&world.store, budget) {
                Some(true) => break,
                Some(false) => (0..world.below(6)).for_each(|_| world.write(at)),
                None => panic!("nothing above {at} was freed"),
            }
        }
        moved += usize::from(world.expected(wanted) != expected);
        let found = run.finish();
        let found: Vec<_> = found.iter().map(|version| (version.key().to_vec(), version.lease())).collect();
        assert_eq!(found, expected, "seed {seed}, revision {at}, lease {wanted:?}");
        largest = largest.max(found.len());
    }
    assert!(largest > 10 && moved > 100, "{largest} keys at most, {moved} changed meanwhile");
}

#[test]
fn a_run_that_compaction_overtakes_says_so() {
    let mut world = World { store: Store::default(), random: 1 };
    for _ in 0..100 {
        world.write(i64::MAX);
    }
    let mut run = LeasedRun::of_all(&world.store);
    assert_eq!(run.step(&world.store, 1), Some(false));
    world.store.evaluate(&WriteRequest::LeaseGrant { id: 77, ttl: 60 }, &mut Vec::new()).expect("it is new");
    let put = PutRequest {
        key: "k00".into(),
        value: Bytes::new(),
        lease: 77,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    };
    world.store.evaluate(&WriteRequest::Put(valid(put)), &mut Vec::new()).expect("its lease is there");
    let revision = world.store.head().revision;
    world.store.evaluate(&WriteRequest::Compact { revision }, &mut Vec::new()).expect("it is the newest");
    world.store.publish(world.store.head());
    assert_eq!(run.step(&world.store, 1), Some(false), "it was asked for, and nothing has been freed");
    world.store.compact_step(1, &mut Vec::new());
    assert_eq!(run.step(&world.store, 1), None);
}
