//! Coverage: rare things that must happen sometimes, or the simulation is not worth its name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! rare {
    ($($name:ident: $text:literal,)*) => {
        /// Something that has to be hit in a large enough run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Rare { $($name,)* }

        impl Rare {
            pub const ALL: &'static [Rare] = &[$(Rare::$name,)*];

            pub fn text(self) -> &'static str {
                match self { $(Rare::$name => $text,)* }
            }
        }
    };
}

rare! {
    PowerLoss: "power lost while serving",
    PowerLossTorn: "power lost with unsynced sectors, some of which survived",
    PowerLossNames: "power lost with names not synced, some of which survived",
    Killed: "process killed while serving",
    KilledThenPowerLoss: "power lost on a disk that a killed process had left unsynced",
    CleanStop: "stopped cleanly under load",
    CrashInAppend: "crashed inside an append",
    CrashInShortAppend: "crashed inside an append on the sequencer's thread",
    CrashInCheckpoint: "crashed inside a checkpoint",
    CrashInRecovery: "crashed inside recovery",
    CrashInMaintenance: "crashed while a segment was prepared or removed",
    TornTailCut: "a torn tail was cut",
    CheckpointPassedOver: "an unusable newest checkpoint was passed over",
    RecoveredFromCheckpoint: "recovered from a checkpoint",
    SyncError: "a sync of the journal failed",
    WriteError: "a write to the journal failed",
    CheckpointError: "a checkpoint failed on an error of the disk",
    CheckpointReadError: "a checkpoint file could not be read while the server ran",
    CheckpointRot: "a checkpoint file rotted while the server ran",
    CheckpointTaken: "a checkpoint was taken",
    JournalTrimmed: "a journal segment was removed",
    ReadErrorRefused: "a start was refused because of an unreadable sector",
    ReadErrorUnharmed: "a start succeeded in spite of an unreadable sector",
    RotRefused: "a start was refused because of rotten bytes",
    RotUnharmed: "a start was unharmed by rotten bytes",
    DiskFull: "the disk was full",
    QuotaReached: "the quota was reached",
    NoSpaceAnswered: "a write was refused for want of space",
    StartedFull: "the server started on a full disk",
    DeletedWhileFull: "a delete was served on a full disk",
    SpaceReturned: "writes were served again after the disk had been full",
    SlowDisk: "the disk was slow for seconds",
    PartPaused: "a part of the node got no time for seconds",
    LeaseExpired: "a lease ran out",
    LeaseRecorded: "the time left of a lease was journalled and its lease was renewed",
    LeaseRevokedKeys: "a revoke deleted keys",
    CompactedRead: "a read below the compaction was refused",
    FutureRead: "a read of the future was refused",
    CompactedInCheckpoint: "a compaction was answered while a checkpoint was being written",
    CompactedInScan: "a compaction overtook a range that was being read",
    WrittenInScan: "a write was answered while a range was being read in chunks",
    WatchCompacted: "a watch was cancelled by a compaction",
    WatchFromPast: "a watch began in the past and got its events",
    WatchFromFuture: "a watch of the future got its events",
    WatchResumed: "a watch was resumed behind the last event after a restart",
    WatchLagged: "a watcher fell behind",
    WatchProgress: "a progress request was answered",
    WatchPeriodic: "a watcher got a periodic progress notification",
    TxnElse: "a transaction took its failure branch and wrote",
    TxnNested: "a nested transaction wrote",
    Overload: "a request was refused because the queue was full",
    ServerTimeout: "the node gave up waiting for a write",
    ClientTimeout: "a client gave up on a request",
    KeyChanged: "the key of encryption at rest was changed while serving",
    OldKeysRemoved: "nothing needed an old key any more, and it was taken away",
    AlarmListed: "an alarm that a client had raised was listed",
    LeasesListed: "leases were listed, and there were some",
    AccessLost: "a user was refused what had been permitted before",
    AccessWon: "a user was let do what had been refused before",
    HashCompared: "hashes of all history were equal before and after a restart",
    Elected: "a server became the leader",
    Rewound: "a leader was replaced and took back requests in flight",
    Forwarded: "a request was forwarded to the leader and answered",
    ForwardedInVain: "a request was forwarded to a server that was gone",
    NoLeader: "a request found no leader",
    ServerCrashed: "a server of several was killed",
    ServerLostPower: "a server of several lost its power",
    ServerPaused: "a server of several slept",
    LeaderPaused: "the leader slept",
    LeadershipTransferred: "the leader began to transfer its leadership",
    CutFromLog: "a server and the log did not hear each other",
    HalfCutFromLog: "only one of a server and the log heard the other",
    CutFromPeer: "two servers did not hear each other",
    AppendLost: "an append never arrived",
    AppendDoubled: "an append arrived twice",
    AppendAnswerLost: "an append was stored and its answer was lost",
    LogLagged: "the log reported an old end",
    LogFull: "the log was full",
    LogForked: "the log had two histories",
    LogTailLost: "the log lost its tail",
    ServerHalted: "a server stopped because the log broke its contract",
    ServerSuspicious: "a server stood aside because the log seemed too short",
    RestartedFromCheckpoint: "a server of several began again from a checkpoint",
    ReadBehind: "a serializable read was answered by a server that was behind",
    ReadElsewhere: "a linearizable read was answered by a follower",
    WatchedElsewhere: "a watch went on at another server",
    Converged: "all servers had one state in the end",
}

impl Rare {
    /// Whether it is looked for in runs of several servers, or else of one.
    pub fn is_of_cluster(self) -> bool {
        self as usize >= Rare::Elected as usize
    }
}

/// Counts of [`Rare`] things. Clones count together.
#[derive(Debug, Clone)]
pub struct Coverage {
    hits: Arc<[AtomicU64]>,
}

impl Default for Coverage {
    fn default() -> Coverage {
        Coverage { hits: Rare::ALL.iter().map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Coverage {
    pub fn hit(&self, what: Rare) {
        self.hits[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn counts(&self) -> Vec<u64> {
        self.hits.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    pub fn add(&self, counts: &[u64]) {
        for (hits, count) in self.hits.iter().zip(counts) {
            hits.fetch_add(*count, Ordering::Relaxed);
        }
    }
}
