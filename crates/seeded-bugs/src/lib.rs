//! Seeded bugs: mistakes that a test build makes on request, to show that the tests find them.
//!
//! Each is a bug that a store like this has really had, here or elsewhere. The code that has the
//! bug calls [`on`]. In releases the feature `seeded` is off, `on` is a constant and nothing of the
//! bug is compiled; the server's binary refuses to be built otherwise. `vetch-sim bugs` plants one
//! after the other and reports which check found it; any test can be run with one, as in
//! `VETCH_BUG=name cargo test -p vetch-node --features vetch-seeded-bugs/seeded`.

/// Whether this build can be told to misbehave.
pub const SEEDED: bool = cfg!(feature = "seeded");

macro_rules! bugs {
    ($($variant:ident = $name:literal: $what:literal,)*) => {
        /// A mistake to make.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Bug {
            $(#[doc = $what] $variant,)*
        }

        impl Bug {
            /// All of them, in order.
            pub const ALL: &[Bug] = &[$(Bug::$variant,)*];

            /// The name on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Bug::$variant => $name,)*
                }
            }

            /// What goes wrong.
            pub fn what(self) -> &'static str {
                match self {
                    $(Bug::$variant => $what,)*
                }
            }
        }
    };
}

bugs! {
    AckBeforeSync = "ack-before-sync": "A write is acknowledged before the disk has it.",
    SyncErrorIgnored = "sync-error-ignored": "A failed sync is taken for a successful one.",
    SegmentNameNotSynced = "segment-name-not-synced": "A new segment's name is not made durable.",
    FoundNameNotSynced = "found-name-not-synced": "Recovery trusts names that an earlier process had not made durable.",
    CutNotSynced = "cut-not-synced": "Entries that were cut from the journal's end are not gone for good.",
    VoteNotSynced = "vote-not-synced": "A vote is answered before the disk has it.",
    TornTailAccepted = "torn-tail-accepted": "A record whose checksum is wrong is accepted.",
    RevisionReused = "revision-reused": "Recovery drops the last record, so that its revisions are assigned again.",
    TrimmedTooFar = "trimmed-too-far": "The journal is trimmed beyond what a checkpoint covers.",
    FreedWhileCaptured = "freed-while-captured": "Versions are freed between a capture and its checkpoint.",
    DirtyRead = "dirty-read": "Reads see what is not durable yet.",
    LeaseKeysAhead = "lease-keys-ahead": "The keys of a lease are shown before they are durable.",
    StaleRead = "stale-read": "Reads lag behind what has been acknowledged.",
    ProgressAhead = "progress-ahead": "Progress is sent before the events that it covers.",
    EventLost = "event-lost": "An event is lost where a watcher passes from history to live events.",
    EventDoubled = "event-doubled": "An event is sent twice where a watcher passes from history to live events.",
    PartialRevision = "partial-revision": "A revision larger than a response's budget is cut short.",
    DeleteLost = "delete-lost": "Compaction at the revision of a deletion takes the deletion away.",
    FutureWatchEarly = "future-watch-early": "A watch from a future revision gets earlier ones.",
    LeaseResurrected = "lease-resurrected": "A lease that ended exists again after a restart.",
    AuthLags = "auth-lags": "Every other change of users and roles reaches readers only with the next one.",
    OldEpochRead = "old-epoch-read": "Readers accept entries of a replaced leader.",
    OrphanHalts = "orphan-halts": "A sequence number too far ahead within an epoch is taken for damage of the log.",
    RereadUnchecked = "reread-unchecked": "A record that is read again is not compared with the first read.",
    AnchorSkipped = "anchor-skipped": "After a reconnect, new records are accepted without checking the last one read.",
    IndexUnchecked = "index-unchecked": "A follower does not compare its history with the leader's when it reads.",
    AckTrusted = "ack-trusted": "A leader takes an acknowledged append for committed, without knowing what is stored before it.",
    UnknownDropped = "unknown-dropped": "An append of unknown outcome is reported as failed without a new epoch.",
    BarrierShared = "barrier-shared": "A read gets the index of an append that was started before the read.",
    LeaseOutstays = "lease-outstays": "A leader trusts its read lease for longer than followers wait before they campaign.",
    LeaseOverlooksFlight = "lease-overlooks-flight": "A read lease answers reads although other servers may have read appends in flight.",
    LifeForgotten = "life-forgotten": "A restarted server takes new-epoch entries of its previous incarnation for its own.",
    AnsweredEarly = "answered-early": "A leader answers what it has proposed, without waiting for the log.",
    ReadUnconfirmed = "read-unconfirmed": "A server that takes itself for the leader reads without confirming it in the log.",
    LeaseCutShort = "lease-cut-short": "A new leader does not extend leases, although it did not see their renewals.",
    CaptureMisplaced = "capture-misplaced": "A checkpoint records a place in the log that is behind its state.",
    RewindForgetsLease = "rewind-forgets-lease": "A rewind does not bring back the leases that had ended.",
    ReplacedUnnoticed = "replaced-unnoticed": "A leader that was replaced keeps what it had evaluated ahead.",
    RestartVotesAtOnce = "restart-votes-at-once": "A member votes right after a start, although it may have promised a leader to wait.",
    VotesUnguarded = "votes-unguarded": "A member that hears of a higher term forgets that it promised a leader to wait.",
    LeaseKeptInTransfer = "lease-kept-in-transfer": "A leader keeps its lease while it transfers leadership.",
    LeaseTooLong = "lease-too-long": "A leader trusts its lease for longer than others wait before they vote.",
    LearnersConfirm = "learners-confirm": "Learners count when a lease is confirmed.",
    RoundShared = "round-shared": "A read is given the index of a round that began before it asked.",
    ChangesForgotten = "changes-forgotten": "A restarted member campaigns among members of long ago.",
    OwnUnsynced = "own-unsynced": "A leader counts its own entries before they are synced.",
    AnswerUnsynced = "answer-unsynced": "A member answers before its vote and its entries are synced.",
    VoteUnsynced = "vote-unsynced": "A vote is written and not synced.",
    CutUnsynced = "cut-unsynced": "Entries that replace others are acknowledged before the cut is synced.",
    StaleAcks = "stale-acks": "An acknowledgement of an earlier term counts in this one.",
    OldTermCommitted = "old-term-committed": "Entries of earlier terms are committed by counting their copies.",
    CommitBeyondMatch = "commit-beyond-match": "A follower takes the leader's commit for entries that it was not shown to share.",
    PreVotesCount = "pre-votes-count": "Late pre-votes count as votes.",
    StaleTransfer = "stale-transfer": "A leadership transfer of an earlier term still makes its target campaign.",
    LearnersCount = "learners-count": "Learners count for commits.",
    RemovedLeaderStays = "removed-leader-stays": "A leader that was removed goes on.",
    ChangeTooEarly = "change-too-early": "A leader changes members before it has committed an entry in its term.",
    CheckpointOverLog = "checkpoint-over-log": "A fetched checkpoint replaces a log that has come further meanwhile.",
}

impl Bug {
    /// Whether it is a mistake in the rules of a replicated log, which have a simulation of their
    /// own.
    pub fn is_of_the_log(self) -> bool {
        (Bug::OldEpochRead..=Bug::LifeForgotten).contains(&self)
    }

    /// Whether it is a mistake of a node that shares its journal, for the simulation of several
    /// servers.
    pub fn is_of_the_cluster(self) -> bool {
        (Bug::AnsweredEarly..=Bug::ReplacedUnnoticed).contains(&self)
    }

    /// Whether it is a mistake of a member of built-in replication, or of what is around it.
    pub fn is_of_raft(self) -> bool {
        self >= Bug::RestartVotesAtOnce
    }
}

impl std::str::FromStr for Bug {
    type Err = NoSuchBug;

    fn from_str(name: &str) -> Result<Bug, NoSuchBug> {
        let found = Bug::ALL.iter().find(|bug| bug.name() == name);
        found.copied().ok_or_else(|| NoSuchBug(name.to_owned()))
    }
}

/// A name that no mistake has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchBug(String);

impl std::fmt::Display for NoSuchBug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        write!(f, "there is no bug {:?}; there are: {}", self.0, names.join(", "))
    }
}

impl std::error::Error for NoSuchBug {}

#[cfg(feature = "seeded")]
mod planted {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::{Bug, NoSuchBug};

    const NONE: u8 = u8::MAX;
    /// Not set by the program: the environment decides.
    const UNDECIDED: u8 = NONE - 1;
    static PLANTED: AtomicU8 = AtomicU8::new(UNDECIDED);

    /// Plants a bug in this process, in place of the one before, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(NONE, |bug| bug as u8), Ordering::SeqCst);
    }

    /// Whether to make this mistake. Until [`plant`] is called it is the one that `VETCH_BUG`
    /// names, if any.
    pub fn on(bug: Bug) -> bool {
        let planted = PLANTED.load(Ordering::Relaxed);
        if planted == UNDECIDED {
            let named = std::env::var("VETCH_BUG").ok().map(|name| name.parse());
            plant(named.transpose().unwrap_or_else(|unknown: NoSuchBug| panic!("VETCH_BUG: {unknown}")));
            return on(bug);
        }
        planted == bug as u8
    }
}

#[cfg(feature = "seeded")]
pub use planted::{on, plant};

/// Whether to make this mistake: never, in this build.
#[cfg(not(feature = "seeded"))]
#[inline(always)]
pub const fn on(_: Bug) -> bool {
    false
}
