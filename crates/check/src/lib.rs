//! The checker: was everything that clients saw possible in one order of events?
//!
//! * `history`, `stored`: what clients asked and saw, and when. Recorded by the simulation and by
//!   trials of real processes alike, and kept in files of one JSON object a line.
//! * `check`: the entry point; `violation` and `report` are what it returns.
//! * `facts`, `seen`: what single operations say, and what the world knew at each time.
//! * `order`: revisions are unique and respect real time.
//! * `replay`, `evidence`, `sightings`, `hints`, `world`: every revision explained and every answer
//!   compared with the specification.
//! * `compaction`, `refusal`, `lease`: what takes no revision.
//! * `watch`: the promises to watchers, one function for each.
//! * `listing`: alarms, members and status; the list of leases is judged with the leases.
//! * `access`: what users were let do, and what not, while that changed.
//! * `hash`, `finish`: hashes of the state, and that nothing was lost at the end.
//! * `wgl`: the classical search for a linearization, an independent second opinion on small
//!   histories.
//!
//! # What is decided
//!
//! Revisions give the order of writes away, so strict serialisability is decided without a search,
//! in O(n log n), for everything that was answered: each answer must be the specification's at the
//! revision that its header shows, and headers must respect real time, where every sight of a
//! revision counts, in watches and hashes as well. Revisions that nobody was answered for are
//! explained by requests of unknown outcome and by ends of leases; there the search is complete, up
//! to a number of steps after which the verdict is a violation that says so. Requests of unknown
//! outcome happened once or never, at any time from their call on.
//!
//! What takes no revision has only a span of time and of revisions as its place; each module says
//! at its head what it decides and where it gives the benefit of the doubt. A right history is
//! never refused but for giving up.

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
