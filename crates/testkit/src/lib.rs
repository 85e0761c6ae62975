//! What the tests of several crates share.
//!
//! * `random`: random numbers from a seed.
//! * `certificates`: certificate authorities, certificates and revocation lists.
//! * `log`: a log in memory that misbehaves on request, and the suite that every engine passes.
//! * `faulty_disk` and `subsets`: failures of a disk, and what a power loss leaves.
//! * `valid`: well-formed requests, validated.
//! * `to_model` and `to_store`: requests and responses of the store in the types of the
//!   specification, and the other way round.
//!
//! Nothing that ships depends on this crate.

pub mod certificates;
pub mod faulty_disk;
pub mod log;
pub mod random;
pub mod subsets;
pub mod to_model;
pub mod to_store;
pub mod valid;
