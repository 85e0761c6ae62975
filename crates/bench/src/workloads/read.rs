//! Point reads, as kube-apiserver makes them: one key, limit 1. Reads of keys that do not exist ask
//! a store for next to nothing, so they show what a call costs by itself.

use prost::Message;
use vetch_api::pb;

use super::{Chance, Keys};
use crate::drive::{Asked, Work};
use crate::failure::WrongAnswer;
use crate::measure::tally::Yield;
use crate::scan::{self, Field};
use crate::wire::Method;

/// Behind the name of a key that exists.
const ABSENT: &[u8] = b"/absent";

pub(crate) struct Read {
    keys: Keys,
    serializable: bool,
    absent: bool,
    chance: Chance,
}

impl Read {
    pub(crate) fn new(keys: Keys, serializable: bool, absent: bool, seed: u64) -> Read {
        Read { keys, serializable, absent, chance: Chance::new(seed) }
    }
}

impl Work for Read {
    fn classes(&self) -> &'static [&'static str] {
        match (self.absent, self.serializable) {
            (false, false) => &["linearizable read"],
            (false, true) => &["serializable read"],
            (true, false) => &["linearizable read of nothing"],
            (true, true) => &["serializable read of nothing"],
        }
    }

    fn next(&mut self, _slot: usize, message: &mut Vec<u8>) -> Asked {
        let mut key = self.keys.key(self.chance.below(self.keys.count));
        if self.absent {
            key = [&key, ABSENT].concat().into();
        }
        let request =
            pb::RangeRequest { key, limit: 1, serializable: self.serializable, ..Default::default() };
        request.encode(message).expect("a vector grows");
        Asked { method: Method::Range, class: 0 }
    }

    fn message(&mut self, _slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer> {
        let (found, bytes) = key_values(message)?;
        let expected = u64::from(!self.absent);
        if found != expected {
            return Err(WrongAnswer::Keys { found, expected });
        }
        Ok(Yield { keys: found, bytes })
    }
}

/// How many key-values a range answer holds, and their bytes.
pub(crate) fn key_values(answer: &[u8]) -> Result<(u64, u64), scan::Malformed> {
    let (mut count, mut size) = (0, 0);
    for field in scan::fields(answer) {
        if let (2, Field::Bytes(kv)) = field? {
            count += 1;
            size += kv.len() as u64;
        }
    }
    Ok((count, size))
}
