//! Inspect: what operators see of a node beside its status. Nothing here changes anything or slows
//! a request.

use std::sync::Arc;
use std::time::Duration;

use vetch_counters::prefixes::Writes;
use vetch_watch::{KeyRange, StreamId};

use crate::handle::Node;

/// Where the data is on its way from memory to files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Bytes of journal segments in use.
    pub journal_bytes: u64,
    /// Room left in the journal without a new segment: in the active one, and in those prepared.
    pub journal_room: u64,
    /// Bytes of checkpoint files.
    pub checkpoint_bytes: u64,
    /// Journalled since the last checkpoint was captured, and how many bytes of that make one due.
    pub fresh_bytes: u64,
    pub checkpoint_due_bytes: u64,
    /// None: not since the start.
    pub since_checkpoint: Option<Duration>,
    pub since_compaction: Option<Duration>,
    /// No further segment can be prepared, for lack of space or for another reason; writes that
    /// grow the state are refused.
    pub disk_full: bool,
    pub disk_fails: bool,
    /// Files that are needed and known to be damaged: which, where, and what is wrong.
    pub damaged: Vec<String>,
    /// Since everything on disk had been read; None: not since the start.
    pub since_scrub: Option<Duration>,
}

/// Requests that wait for the sequencer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    pub requests: usize,
    pub most_requests: usize,
    pub bytes: u64,
}

/// A watch stream that has something left to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Laggard {
    pub stream: StreamId,
    /// Where its client calls from, if the edge has said so.
    pub client: Option<Arc<str>>,
    /// The lowest revision that it may have to deliver, how far back that is, and for how long it
    /// has waited at least.
    pub revision: i64,
    pub revisions: i64,
    pub lag: Duration,
    /// What the watcher that waits for it watches, if that is known.
    pub range: Option<KeyRange>,
}

/// How far watchers are behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchLag {
    /// Those that have waited at least as long as requested, longest first, as many as requested.
    pub laggards: Vec<Laggard>,
    /// How many there are in all.
    pub slow: usize,
    /// The longest wait and the largest distance of all streams.
    pub longest: Duration,
    pub most_revisions: i64,
}

/// What was written where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenPrefixes {
    pub prefixes: Vec<(Box<[u8]>, Writes)>,
    /// Beneath all other prefixes together.
    pub other: Writes,
}

impl Node {
    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.state().clock.uptime()
    }

    pub fn files(&self) -> Files {
        let node = self.state();
        let since = |moment: i64| {
            let ago = node.clock.millis().saturating_sub(u64::try_from(moment).unwrap_or(0));
            (moment > 0).then(|| Duration::from_millis(ago))
        };
        Files {
            journal_bytes: node.disk.journal_bytes(),
            journal_room: node.disk.room(),
            checkpoint_bytes: node.disk.checkpoint_bytes(),
            fresh_bytes: node.disk.fresh_bytes(),
            checkpoint_due_bytes: node.disk.checkpoint_stride(),
            since_checkpoint: since(node.metrics.checkpoints.taken_at.get()),
            since_compaction: since(node.metrics.compaction.done_at.get()),
            disk_full: node.disk.is_full(),
            disk_fails: node.disk.is_failing(),
            damaged: node.disk.damage(),
            since_scrub: since(node.metrics.scrub.done_at.get()),
        }
    }

    pub fn queue(&self) -> Queue {
        let node = self.state();
        Queue {
            requests: node.commands.len(),
            most_requests: node.config.queue_depth,
            bytes: node.commands.bytes(),
        }
    }

    /// Leases whose time is over and that are still there: their end is on the way, or refused for
    /// lack of space.
    pub fn overdue_leases(&self) -> usize {
        self.state().leases.lessor().revoking()
    }

    pub fn written_prefixes(&self) -> WrittenPrefixes {
        let prefixes = self.state().activity.prefixes();
        WrittenPrefixes { prefixes: prefixes.counted(), other: prefixes.other() }
    }

    /// Streams that have had something to deliver for `slow` or longer, at most `most` of them by
    /// name.
    pub fn watch_lag(&self, slow: Duration, most: usize) -> WatchLag {
        let node = self.state();
        let now = node.clock.now();
        let (behind, published) = {
            let hub = node.hub.read();
            (hub.behind().collect::<Vec<_>>(), hub.published())
        };
        let mut lag = WatchLag::default();
        let commit_times = node.activity.commit_times();
        for behind in behind {
            let revisions = (published + 1 - behind.revision).max(0);
            let age = commit_times.age(behind.revision, now);
            lag.longest = lag.longest.max(age);
            lag.most_revisions = lag.most_revisions.max(revisions);
            if age >= slow {
                let (stream, revision, range) = (behind.stream, behind.revision, behind.range);
                lag.laggards.push(Laggard { stream, client: None, revision, revisions, lag: age, range });
            }
        }
        drop(commit_times);
        lag.slow = lag.laggards.len();
        lag.laggards.sort_by_key(|laggard| (std::cmp::Reverse(laggard.lag), laggard.stream));
        lag.laggards.truncate(most);
        let clients = node.watches.clients(lag.laggards.iter().map(|laggard| &laggard.stream));
        for (laggard, client) in lag.laggards.iter_mut().zip(clients) {
            laggard.client = client;
        }
        lag
    }
}
