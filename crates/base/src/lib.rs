//! Numbers with a meaning. Each is one integer, and none can be given where another is expected.
//!
//! * `Seq`: the place of an entry in the journal.
//! * `Epoch`: the term of one leader.
//! * `MemberId`: one server of a cluster.
//!
//! Each has the few operations that make sense for it instead of arithmetic. `new` and `get` are
//! for the borders: bytes on disk, messages, files and texts.

mod epoch;
mod member_id;
mod seq;

pub use epoch::Epoch;
pub use member_id::MemberId;
pub use seq::Seq;
