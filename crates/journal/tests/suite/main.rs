//! Tests of the journal as its users see it. `support` has the small world they share.

mod bitrot;
mod crash;
mod encryption;
mod engine;
mod entries;
mod forged;
mod golden;
mod member;
mod random;
mod real;
mod scripts;
mod sectors;
mod support;
mod survey;
mod vote;
