//! Watch: the shared event log, the hub that matches events to watchers, and the state of watch
//! streams.
//!
//! Pure and synchronous: no I/O, no clock, no threads; the same calls give the same responses. The
//! shell around it owns the locks (but for the small one of each stream's inbox), the tasks and the
//! timers.
//!
//! # The parts
//!
//! * [`EventLog`]: all revisions since the last compaction. A watcher that starts in the past or
//!   falls behind reads it.
//! * [`Hub`]: watcher groups (watchers of the same range share one) with a bounded ring of recent
//!   matches each. Synced watchers read the rings.
//! * [`Stream`]: one per gRPC stream. Owns the cursors of its watchers, turns requests and events
//!   into [`Response`]s.
//!
//! A watcher is a cursor: the next revision it has to look at. Rings and log are two ways to read
//! the same sequence, so changing between them loses and doubles nothing.
//!
//! # Who calls what, and the locks
//!
//! Two locks, always taken in this order: hub, then log. Streams need none: each belongs to its
//! task. Commits wait for the log, so its holder waits for nothing else.
//!
//! | who | hub | log | call |
//! |---|---|---|---|
//! | publisher | | write | `log.append`, before the writer is answered |
//! | fan-out thread | | read | `log.fresh`; then `prepare` unlocked |
//! | fan-out thread, until it is done | write | | `hub.begin`, `hub.step`, then wake the streams it names |
//! | stream task, request | write | read | `stream.create`, `cancel`, `request_progress` |
//! | stream task, before responses | | | `stream.take_notices` |
//! | stream task, responses | read | read | `stream.drain`, again while it says `more` |
//! | stream task, timer | | | `stream.tick_progress`, then drain |
//! | stream task, after `release` | write | | `stream.release` |
//! | stream task or fan-out thread, end | write | | `stream.close_step`, until it is closed |
//! | compaction | | write | `log.compact`, instant |
//! | compaction, afterwards | write | | `hub.compact`, instant |
//! | compaction, in steps | | write | `log.trim_step(n, hub.published())`; drop the result unlocked |
//! | compaction, in steps | write | | `hub.sweep_step` |
//! | compaction, at last | | read, write | `log.heavy_floor(hub.published())`; made lighter unlocked; `log.lighten` |
//!
//! Appending before answering the writer is what makes "now" of a new watcher (`log.last`) include
//! every write its client has seen acknowledged. `hub.published` trails `log.last` by the time
//! matching takes.
//!
//! # Wakes
//!
//! A wake is an edge: a stream is named when it goes from "nothing new" to "something new" and is
//! not named again before its next drain. So the shell must keep a wake until the task takes it (a
//! stored permit, not a lost signal), must drain after every wake and every request, and must go on
//! while `more` is set. A stream with a waiting progress request is also woken when the revision it
//! waits for is published.
//!
//! # Bounds
//!
//! | what | bound | when full |
//! |---|---|---|
//! | log | the compaction floor | compaction decides, as for the store |
//! | ring of a group | [`RingLimit`], and its share of a million matches | oldest match is dropped; watchers behind it read the log |
//! | memory of a stream's watchers | [`Stream::bytes`] | the shell refuses creates |
//! | step of the hub | the work it is given | the next goes on inside the revision |
//! | inbox of a stream | 64 groups | "look at all watchers" |
//! | one drain | [`Budget`] | `more` is set |
//! | catch-up response | 1000 revisions, and the budget | the rest follows in the next |
//! | answers to requests | [`Stream::control_backlog`] | the shell stops reading requests |
//!
//! No call walks all watchers of a stream, with one exception: a tick of the progress timer, for
//! which nothing is locked. Notices about many watchers and a close go in steps.

mod event;
mod group;
mod hub;
mod ids;
mod inbox;
mod index;
mod interval;
mod log;
mod log_event;
mod matched;
mod range;
mod response;
mod ring;
mod stats;
mod stream;
mod watcher;

#[cfg(test)]
mod model;
#[cfg(test)]
mod testing;

pub use event::{Events, Revision, Shared};
pub use hub::{Behind, Fresh, Hub, Published};
pub use ids::StreamId;
pub use log::{EventLog, Scan, ScanBudget, Trimmed};
pub use log_event::LogEvent;
pub use matched::Match;
pub use range::{EmptyRange, Filters, KeyRange};
pub use response::{Create, NO_WATCH, REASON_COMPACTED, REASON_DUPLICATE, REASON_EMPTY_RANGE, Response};
pub use ring::RingLimit;
pub use stats::Gauges;
pub use stream::{Budget, Drained, Stream};
