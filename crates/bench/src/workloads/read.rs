//! Point reads, as kube-apiserver makes them: one key, limit 1.

use prost::Message;
use vetch_api::pb;

use super::{Chance, Keys};
use crate::drive::{Asked, Work};
use crate::measure::tally::Yield;
use crate::scan::{self, Field};
use crate::wire::Method;

pub(crate) struct Read {
    keys: Keys,
    serializable: bool,
    chance: Chance,
}

impl Read {
    pub(crate) fn new(keys: Keys, serializable: bool, seed: u64) -> Read {
        Read { keys, serializable, chance: Chance::new(seed) }
    }
}

impl Work for Read {
    fn classes(&self) -> &'static [&'static str] {
        if self.serializable { &["serializable read"] } else { &["linearizable read"] }
    }

    fn next(&mut self, _slot: usize, message: &mut Vec<u8>) -> Asked {
        let key = self.keys.key(self.chance.below(self.keys.count));
        let request =
            pb::RangeRequest { key, limit: 1, serializable: self.serializable, ..Default::default() };
        request.encode(message).expect("a vector grows");
        Asked { method: Method::Range, class: 0 }
    }

    fn message(&mut self, _slot: usize, message: &[u8]) -> Result<Yield, String> {
        let (kvs, bytes) = key_values(message)?;
        if kvs != 1 {
            return Err(format!("{kvs} keys instead of one"));
        }
        Ok(Yield { keys: kvs, bytes })
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
