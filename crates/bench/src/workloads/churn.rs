//! Objects come and go: every slot creates a key, deletes it at the revision it was created, and
//! begins anew.

use prost::Message;
use prost::bytes::Bytes;

use super::{Keys, Values, cas};
use crate::drive::{Asked, Work};
use crate::failure::WrongAnswer;
use crate::measure::tally::Yield;
use crate::wire::Method;

const CREATE: usize = 0;
const DELETE: usize = 1;

pub(crate) struct Churn {
    keys: Keys,
    values: Values,
    slots: Vec<Mine>,
    next: usize,
    workers: usize,
}

#[derive(Default)]
struct Mine {
    key: Bytes,
    /// Where the key was created; 0 if it is not there.
    revision: i64,
    deleting: bool,
}

impl Churn {
    pub(crate) fn new(keys: Keys, values: Values, worker: usize, workers: usize, slots: usize) -> Churn {
        Churn { keys, values, slots: (0..slots).map(|_| Mine::default()).collect(), next: worker, workers }
    }
}

impl Work for Churn {
    fn classes(&self) -> &'static [&'static str] {
        &["create", "delete"]
    }

    fn next(&mut self, slot: usize, message: &mut Vec<u8>) -> Asked {
        let mine = &mut self.slots[slot];
        mine.deleting = mine.revision > 0;
        let class = if mine.deleting {
            cas::delete(mine.key.clone(), mine.revision).encode(message).expect("a vector grows");
            DELETE
        } else {
            mine.key = self.keys.key(self.next);
            self.next += self.workers;
            cas::create(mine.key.clone(), self.values.value(), 0).encode(message).expect("a vector grows");
            CREATE
        };
        Asked { method: Method::Txn, class }
    }

    fn message(&mut self, slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer> {
        let mine = &mut self.slots[slot];
        match cas::decided(message)? {
            cas::Decided::Done(_) if mine.deleting => mine.revision = 0,
            cas::Decided::Done(revision) => mine.revision = revision,
            cas::Decided::Changed(_) => {
                mine.revision = 0;
                return Err(WrongAnswer::CompareFailed);
            }
        }
        Ok(Yield { keys: 1, bytes: 0 })
    }

    /// The next create takes another key.
    fn failed(&mut self, slot: usize) {
        self.slots[slot].revision = 0;
    }
}
