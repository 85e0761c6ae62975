//! The checker: was everything that clients saw possible in one order of events?
//!
//! * `history`, `stored`: what clients requested and saw, and when. Recorded by the simulation and
//!   by trials of real processes, and kept in files of one JSON object a line.
//! * `check`: the entry point; `violation` and `report` are what it returns.
//! * `facts`, `seen`: what single operations prove, and what was known at each time.
//! * `order`: revisions are unique and respect real time.
//! * `replay`, `evidence`, `sightings`, `hints`, `world`: every revision explained and every answer
//!   compared with the specification.
//! * `compaction`, `refusal`, `lease`: operations without a revision.
//! * `watch`: the guarantees of watches, one function for each.
//! * `listing`: alarms, members and status; the list of leases is checked with the leases.
//! * `access`: what users were permitted, while permissions changed.
//! * `hash`, `finish`: hashes of the state, and that nothing was lost at the end.
//! * `wgl`: the classical search for a linearization, an independent second opinion on small
//!   histories.
//!
//! # What is decided
//!
//! Revisions show the order of writes, so strict serialisability is decided without a search, in
//! O(n log n), for everything that was answered: each answer must be the specification's at the
//! revision in its header, and headers must respect real time. Revisions in watches and hashes
//! count as well. Revisions for which no client got an answer are explained by requests of unknown
//! outcome and by expired leases; that search is complete, up to a number of steps after which the
//! verdict is a violation that says so. Requests of unknown outcome happened once or never, at any
//! time from their call on.
//!
//! An operation without a revision is known only to lie within a span of time and of revisions;
//! each module says in its header what it decides and what it accepts without proof. A correct
//! history is never refused, except by the limit of the search.

mod access;
mod check;
mod compaction;
mod evidence;
mod facts;
mod finish;
mod hash;
mod hints;
pub mod history;
mod lease;
mod listing;
mod order;
mod refusal;
mod replay;
mod report;
mod seen;
mod sightings;
mod stored;
mod violation;
mod watch;
pub mod wgl;
mod world;

pub use check::check;
pub use history::{
    Access, AccessChange, Alarm, Alarmed, Ending, Fact, Finish, Hashed, History, Leased, Listed, Listing,
    Operation, Outcome, WatchMessage, Watched,
};
pub use report::{Outcomes, Report};
pub use stored::StoredError;
pub use violation::{Kind, Violation};
