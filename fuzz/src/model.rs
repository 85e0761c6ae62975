//! The store against the specification: the same requests go to both, and every answer, event and
//! refusal is compared.

use arbitrary::{Result, Unstructured};
use vetch_model::{Model, Request};
use vetch_store::hash::HashRun;
use vetch_store::range::RangeRun;
use vetch_store::request::{KeyRange, RangeRequest, WriteRequest};
use vetch_store::{Store, validate};
use vetch_testkit::valid::Valid;
use vetch_testkit::{to_model, to_store};

mod requests;

use requests::Write;

const MAX_OPS: usize = 6;
const MAX_STEPS: usize = 64;

#[derive(Default)]
struct Pair {
    store: Store,
    model: Model,
    journal: Vec<u8>,
}

pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut pair = Pair::default();
    let mut steps = 0;
    while !input.is_empty() && steps < MAX_STEPS && pair.step(&mut input).is_ok() {
        steps += 1;
    }
    pair.settle();
}

impl Pair {
    fn step(&mut self, input: &mut Unstructured) -> Result<()> {
        let head = self.store.head();
        match input.int_in_range(0..=9)? {
            0 => self.range(requests::range(input, head)?, input.int_in_range(1..=4)?),
            1 => {
                let mut freed = Vec::new();
                self.store.compact_step(input.int_in_range(1..=3)?, &mut freed);
            }
            2 => self.hash(input.int_in_range(0..=head.revision)?),
            _ => self.write(requests::write(input, head)?),
        }
        Ok(())
    }

    fn write(&mut self, request: Write) {
        let request = &match request {
            Write::Txn(txn) => {
                let shape = Request::Txn(to_model::txn(&txn)).shape(MAX_OPS).map_err(to_store::malformed);
                let verdict = validate::txn(txn.clone(), MAX_OPS);
                assert_eq!(verdict.as_ref().map(drop).map_err(|error| *error), shape, "{txn:?}");
                let Ok(txn) = verdict else { return };
                WriteRequest::Txn(txn)
            }
            Write::Other(request) => request,
        };
        let asked = to_model::request(request).expect("only what is specified is asked");
        let before = self.model.revision();
        let expected = self.model.evaluate(&asked).map_err(to_store::refusal);
        let mut payload = Vec::new();
        let given = self.store.evaluate(request, &mut payload);
        let answer = given.as_ref().map_err(|error| *error).map(|evaluated| {
            to_model::answer(&evaluated.response).expect("an answer to a request that is specified")
        });
        assert_eq!(answer, expected, "{request:?}");
        if let Ok(evaluated) = given {
            let changes = self.model.changes(before + 1, self.model.revision());
            assert_eq!(to_model::events(&evaluated.events), changes, "{request:?}");
        }
        self.journal.extend_from_slice(&payload);
        self.store.publish(self.store.head());
    }

    fn range(&self, request: RangeRequest, budget: usize) {
        let mark = self.store.visible();
        let asked = to_model::range(&request);
        let expected = self.model.check_at(&Request::Range(asked.clone()), to_model::moment(mark));
        let run = RangeRun::new(request.clone().valid(), mark);
        assert_eq!(run.as_ref().map(drop).map_err(|error| *error), expected.map_err(to_store::refusal));
        let Ok(mut run) = run else { return };
        while !run.step(&self.store, budget, 40).expect("nothing compacts meanwhile") {}
        let count = run.count(&self.store).expect("nothing compacts meanwhile");
        let at = if request.revision <= 0 { mark.revision } else { request.revision };
        let answer = to_model::ranged(&run.finish(count));
        assert_eq!(answer, self.model.range_at(&asked, at), "{request:?}");
    }

    fn hash(&self, at: i64) {
        let mark = self.store.visible();
        if at < mark.compact_revision || at < 1 {
            return;
        }
        let mut run = HashRun::new(at, mark);
        while !run.step(&self.store, 2).expect("nothing compacts meanwhile") {}
        assert_eq!(run.finish(), self.model.hash_kv(at, mark.compact_revision), "at {at}");
    }

    /// What the journal replays to is the same store, and both agree with the specification on
    /// everything there is.
    fn settle(&mut self) {
        let mut replayed = Store::default();
        replayed.replay(&self.journal).expect("written by evaluation");
        replayed.publish(replayed.head());
        assert_eq!((replayed.head(), replayed.unversioned()), (self.store.head(), self.store.unversioned()));
        let everything = RangeRequest::new(KeyRange::new("\0", "\0"));
        for store in [replayed, std::mem::take(&mut self.store)] {
            self.store = store;
            let mut freed = Vec::new();
            while !self.store.compact_step(3, &mut freed) {}
            let mark = self.store.visible();
            for revision in mark.compact_revision.max(1)..=mark.revision {
                self.range(RangeRequest { revision, ..everything.clone() }, 3);
                self.hash(revision);
            }
            for &id in self.model.leases().keys() {
                assert_eq!(self.store.lease_keys(id), self.model.lease_keys(id), "lease {id}");
            }
        }
    }
}
