//! Renewals of leases: every slot is one stream that renews its leases in turn.

use prost::Message;
use vetch_api::pb;

use super::Share;
use crate::drive::{Asked, Work};
use crate::failure::WrongAnswer;
use crate::measure::tally::Yield;
use crate::scan;
use crate::wire::Method;

pub(crate) struct KeepAlive {
    leases: Vec<i64>,
    slots: Vec<(Share, usize)>,
}

impl KeepAlive {
    pub(crate) fn new(leases: Vec<i64>, (worker, workers): (usize, usize), slots: usize) -> KeepAlive {
        let all = slots * workers;
        let share = |slot: usize| Share::of(worker * slots + slot, all, leases.len());
        KeepAlive { slots: (0..slots).map(|slot| (share(slot), 0)).collect(), leases }
    }

    fn lease(&self, slot: usize) -> i64 {
        let (share, turn) = &self.slots[slot];
        self.leases[share.at(*turn)]
    }
}

impl Work for KeepAlive {
    fn classes(&self) -> &'static [&'static str] {
        &["renewal"]
    }

    fn next(&mut self, slot: usize, message: &mut Vec<u8>) -> Asked {
        self.slots[slot].1 += 1;
        pb::LeaseKeepAliveRequest { id: self.lease(slot) }.encode(message).expect("a vector grows");
        Asked { method: Method::LeaseKeepAlive, class: 0 }
    }

    fn message(&mut self, slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer> {
        if scan::number(message, 2)? as i64 != self.lease(slot) {
            return Err(WrongAnswer::OtherLease);
        }
        if scan::number(message, 3)? == 0 {
            return Err(WrongAnswer::LeaseExpired);
        }
        Ok(Yield::default())
    }

    fn is_stream(&self) -> bool {
        true
    }
}
