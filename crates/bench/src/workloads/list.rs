//! Lists of many keys, in one answer or as a stream.

use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;

use super::read::key_values;
use super::{Chance, Keys};
use crate::drive::{Asked, Work};
use crate::failure::WrongAnswer;
use crate::measure::tally::Yield;
use crate::scan::{self, Malformed};
use crate::wire::Method;

pub(crate) struct List {
    keys: Keys,
    /// Keys of one list.
    length: usize,
    stream: bool,
    chance: Chance,
    slots: Vec<Mine>,
}

#[derive(Clone, Default)]
struct Mine {
    received: u64,
    /// As the server counted.
    count: u64,
}

impl List {
    pub(crate) fn new(keys: Keys, length: usize, stream: bool, seed: u64, slots: usize) -> List {
        List { keys, length, stream, chance: Chance::new(seed), slots: vec![Mine::default(); slots] }
    }

    fn range(&mut self) -> (Bytes, Bytes) {
        if self.length >= self.keys.count {
            return self.keys.all();
        }
        let first = self.chance.below(self.keys.count - self.length + 1);
        (self.keys.key(first), self.keys.key(first + self.length))
    }
}

impl Work for List {
    fn classes(&self) -> &'static [&'static str] {
        if self.stream { &["list by stream"] } else { &["list"] }
    }

    fn next(&mut self, slot: usize, message: &mut Vec<u8>) -> Asked {
        self.slots[slot] = Mine::default();
        let (key, range_end) = self.range();
        pb::RangeRequest { key, range_end, ..Default::default() }.encode(message).expect("a vector grows");
        Asked { method: if self.stream { Method::RangeStream } else { Method::Range }, class: 0 }
    }

    fn message(&mut self, slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer> {
        let part = if self.stream { scan::bytes(message, 1)?.ok_or(Malformed)? } else { message };
        let (keys, bytes) = key_values(part)?;
        let mine = &mut self.slots[slot];
        mine.received += keys;
        mine.count = mine.count.max(scan::number(part, 4)?);
        Ok(Yield { keys, bytes })
    }

    fn end(&mut self, slot: usize) -> Result<(), WrongAnswer> {
        let Mine { received, count } = self.slots[slot];
        let expected = self.length.min(self.keys.count) as u64;
        if received != expected || count != expected {
            return Err(WrongAnswer::Listed { received, count, expected });
        }
        Ok(())
    }
}
