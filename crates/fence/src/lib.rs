//! The fence: who may write to a shared log, what of it counts, and how it is found out that some
//! of it was lost.
//!
//! Any engine that keeps records in one order, says at which position one was stored, and loses
//! nothing it acknowledged can carry the journal (`log`). It need not know who writes: of
//! everything that several servers append, late, twice or out of order, the same entries count for
//! all of them.
//!
//! * `record`: entries of the journal as what lies at one position of the log, and claims.
//! * `view`: the validity rule. Reading is the only judge, for writers too.
//! * `member`: a server's part: following, claiming (`claiming`), writing (`leading`), answering
//!   reads without asking (`lease`), handing over (`handing`), with its appends in `flight` and its
//!   timer in `pulse`.
//! * `trim`: how much of the log may be given up.
//! * `divergence`: what an honest log cannot show.
//!
//! * `driver` and `journal`: a member in real time, and a log behind the contract of
//!   `vetch_journal`. `glance`: single looks at a log by who is no member yet.
//!
//! All but those of the last line are pure: no threads, no I/O, no clock. docs/cluster-protocol.md
//! explains the protocol, its failure cases and what shows them.

mod claiming;
mod config;
mod divergence;
mod driver;
mod flight;
mod glance;
mod handing;
mod journal;
mod leading;
mod lease;
mod log;
mod member;
mod pulse;
mod record;
mod trim;
mod view;

pub use config::Config;
pub use divergence::Divergence;
pub use driver::{Clock, Driver};
pub use glance::{GlanceError, Witness, end, seed_log, since, witness};
pub use handing::successor_of;
pub use journal::SharedJournal;
pub use leading::Refusal;
pub use lease::Lease;
pub use log::{Log, LogError, News, Page, Space, Ticket, Waker};
pub use member::{ANCHOR, Command, Event, Member, ReadId};
pub use record::{Author, Record, RecordError, author_of, claim, is_seed, join, seed};
pub use trim::{Disagreement, floor};
pub use view::{Index, Verdict, View, Void};
