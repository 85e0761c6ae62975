//! The rules of the cluster core, one situation each: replicas on a model log, with every message
//! delivered by the test.

mod append_outcomes;
mod elections;
mod harness;
mod leadership_transfer;
mod leases;
mod log_failures;
mod read_index;
mod scripts;
mod seeds;
