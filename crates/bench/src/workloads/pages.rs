//! A paged list: 500 keys a page, all pages at the revision of the first, as clients of Kubernetes
//! read large resources.
//!
//! Pages of the first and of the last tenth are classes of their own: a server that counts what is
//! left by looking at it is slower at the beginning.

use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;

use super::Keys;
use super::read::key_values;
use crate::drive::{Asked, Work};
use crate::failure::WrongAnswer;
use crate::measure::tally::Yield;
use crate::scan::{self, Field, Malformed};
use crate::wire::Method;

pub(crate) struct Pages {
    keys: Keys,
    page: usize,
    slots: Vec<Mine>,
}

#[derive(Clone, Default)]
struct Mine {
    revision: i64,
    from: Bytes,
    received: usize,
}

impl Pages {
    pub(crate) fn new(keys: Keys, page: usize, slots: usize) -> Pages {
        Pages { keys, page, slots: vec![Mine::default(); slots] }
    }
}

impl Work for Pages {
    fn classes(&self) -> &'static [&'static str] {
        &["page of the first tenth", "page in between", "page of the last tenth"]
    }

    fn next(&mut self, slot: usize, message: &mut Vec<u8>) -> Asked {
        let (first, range_end) = self.keys.all();
        let mine = &mut self.slots[slot];
        if mine.received >= self.keys.count || mine.from.is_empty() {
            *mine = Mine { revision: 0, from: first, received: 0 };
        }
        let class = match mine.received * 10 / self.keys.count.max(1) {
            0 => 0,
            9 => 2,
            _ => 1,
        };
        let (limit, revision) = (self.page as i64, mine.revision);
        let request =
            pb::RangeRequest { key: mine.from.clone(), range_end, limit, revision, ..Default::default() };
        request.encode(message).expect("a vector grows");
        Asked { method: Method::Range, class }
    }

    fn message(&mut self, slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer> {
        let (keys, bytes) = key_values(message)?;
        let mine = &mut self.slots[slot];
        let left = (self.keys.count - mine.received) as u64;
        let expected = left.min(self.page as u64);
        let count = scan::number(message, 4)?;
        if keys != expected || count != left {
            return Err(WrongAnswer::Page { keys, count, expected, left });
        }
        if mine.revision == 0 {
            mine.revision = scan::revision(message)?;
        }
        let mut from = last_key(message)?.to_vec();
        from.push(0);
        mine.from = Bytes::from(from);
        mine.received += keys as usize;
        Ok(Yield { keys, bytes })
    }

    fn failed(&mut self, slot: usize) {
        self.slots[slot] = Mine::default();
    }
}

fn last_key(answer: &[u8]) -> Result<&[u8], Malformed> {
    let mut last = None;
    for field in scan::fields(answer) {
        if let (2, Field::Bytes(kv)) = field? {
            last = Some(kv);
        }
    }
    scan::bytes(last.ok_or(Malformed)?, 1)?.ok_or(Malformed)
}
