//! Plain puts. With `once` every key is written exactly once: that is how stores are filled.

use prost::Message;
use vetch_api::pb;

use super::{Keys, Share, Values, cas};
use crate::drive::{Asked, Work};
use crate::failure::WrongAnswer;
use crate::measure::tally::Yield;
use crate::scan;
use crate::wire::Method;

pub(crate) struct Put {
    keys: Keys,
    values: Values,
    share: Share,
    turn: usize,
    create: bool,
}

impl Put {
    /// Worker `worker` of `workers` takes its share of the keys, in order.
    pub(crate) fn new(keys: Keys, values: Values, worker: usize, workers: usize) -> Put {
        let share = Share::of(worker, workers, keys.count);
        Put { keys, values, share, turn: 0, create: false }
    }

    /// The same by transactions that create the keys.
    pub(crate) fn creating(self) -> Put {
        Put { create: true, ..self }
    }

    /// How many requests write every key of the share once.
    pub(crate) fn once(&self) -> u64 {
        self.share.count as u64
    }
}

impl Work for Put {
    fn classes(&self) -> &'static [&'static str] {
        &["put"]
    }

    fn next(&mut self, _slot: usize, message: &mut Vec<u8>) -> Asked {
        let key = self.keys.key(self.share.at(self.turn));
        self.turn += 1;
        if self.create {
            cas::create(key, self.values.value(), 0).encode(message).expect("a vector grows");
            return Asked { method: Method::Txn, class: 0 };
        }
        let request = pb::PutRequest { key, value: self.values.value(), ..Default::default() };
        request.encode(message).expect("a vector grows");
        Asked { method: Method::Put, class: 0 }
    }

    fn message(&mut self, _slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer> {
        if self.create && scan::number(message, 2)? == 0 {
            return Err(WrongAnswer::KeyExists);
        }
        if scan::revision(message)? <= 1 {
            return Err(WrongAnswer::NoRevision);
        }
        Ok(Yield { keys: 1, bytes: 0 })
    }
}
