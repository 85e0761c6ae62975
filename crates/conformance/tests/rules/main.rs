//! The rules of the fence, one moment each: members on a model log, with every message delivered by
//! hand.

mod claims;
mod decisions;
mod handing;
mod leases;
mod losses;
mod play;
mod reads;
mod seeds;
