//! Workloads made of single requests; `drive` runs them.

pub(crate) mod cas;
pub(crate) mod churn;
pub(crate) mod keepalive;
pub(crate) mod list;
pub(crate) mod pages;
pub(crate) mod put;
pub(crate) mod read;
pub(crate) mod setup;

use prost::bytes::Bytes;

/// The keys of a workload: numbered, of equal length, in order.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
    pub(crate) count: usize,
}

impl Keys {
    pub(crate) fn new(prefix: &str, count: usize) -> Keys {
        Keys { prefix: prefix.to_owned(), count }
    }

    pub(crate) fn key(&self, index: usize) -> Bytes {
        Bytes::from(format!("{}namespace/item-{index:08}", self.prefix).into_bytes())
    }

    /// The range of all of them and whatever else begins so.
    pub(crate) fn all(&self) -> (Bytes, Bytes) {
        let key = format!("{}namespace/", self.prefix).into_bytes();
        let end = after(&key);
        (Bytes::from(key), end)
    }
}

/// The end of the range of everything that begins with `prefix`.
pub(crate) fn after(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return Bytes::from(end);
        }
    }
    Bytes::from_static(b"\0")
}

/// Values that do not repeat themselves, so that nothing on the way can make them small.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pool: Bytes,
    size: usize,
    next: usize,
}

impl Values {
    pub(crate) fn new(size: usize, seed: u64) -> Values {
        let mut chance = Chance::new(seed);
        let pool: Vec<u8> = (0..size + 4096).map(|_| chance.next() as u8).collect();
        Values { pool: Bytes::from(pool), size, next: 0 }
    }

    pub(crate) fn value(&mut self) -> Bytes {
        self.next = (self.next + 1) % 4096;
        self.pool.slice(self.next..self.next + self.size)
    }
}

/// Xorshift: the same numbers for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// The keys with these numbers belong to a slot: no two slots have one in common.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) first: usize,
    pub(crate) step: usize,
    pub(crate) count: usize,
}

impl Share {
    /// What belongs to `slot` of `slots`, if all of `count` are shared out. At least one slot has
    /// none if there are fewer keys than slots; the caller sees to that.
    pub(crate) fn of(slot: usize, slots: usize, count: usize) -> Share {
        Share { first: slot, step: slots, count: (count + slots - 1 - slot) / slots }
    }

    pub(crate) fn at(&self, turn: usize) -> usize {
        self.first + self.step * (turn % self.count.max(1))
    }
}
