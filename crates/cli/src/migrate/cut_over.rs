//! The cut-over: from the moment at which clients have to wait to the moment at which Vetch serves
//! them.
//!
//! ```text
//!  the marker says that the fence may be up
//!  requests wait, what was forwarded is answered      |
//!  the etcd is fenced: it stands at revision F        |  the pause
//!  the watch has brought everything up to F           |
//!  leases, users and HashKV at F are the same         |
//!  the marker says that the migration is done         |
//!  Vetch answers
//! ```
//!
//! If any step fails before the last but one, the fence is removed, requests are forwarded again,
//! and the etcd continues. From the last but one on, nothing is undone.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use vetch_node::Follower;
use vetch_server::grpc::RequestRouter;

use super::error::MigrateError;
use super::follow::{self, Feed};
use super::leases;
use super::monitor;
use super::source::Source;
use super::verify::{Verified, verify};
use crate::migration_dir::{Marker, MigrationDir, Phase};

/// Timeout of requests that were forwarded.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(300);
/// Timeout of the last revisions.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts to remove the fence, and the delay between them.
const ROLL_BACK_ATTEMPTS_MAX: usize = 20;
const ROLL_BACK_RETRY_DELAY: Duration = Duration::from_millis(250);

/// Everything that takes part.
pub(super) struct CutOver<'a> {
    pub(super) source: &'a Source,
    /// The etcd's member, in whose name the fence is set.
    pub(super) member_id: u64,
    pub(super) follower: &'a Follower,
    pub(super) feed: &'a mut Feed,
    pub(super) router: &'a RequestRouter,
    pub(super) dir: &'a MigrationDir,
    pub(super) marker: &'a mut Marker,
    pub(super) max_pause: Duration,
    /// The result of the last comparison.
    pub(super) last_comparison: Verified,
    /// Whether the etcd has confirmed the fence. If it has not answered, the fence may still be
    /// set.
    pub(super) is_fenced: bool,
}

/// The result of a cut-over.
pub(super) struct CutOverOutcome {
    pub(super) revision: i64,
    pub(super) begun: Instant,
    /// Remaining seconds of leases.
    pub(super) remaining: HashMap<i64, i64>,
    /// None if there was no time for a last comparison.
    pub(super) verified: Option<Verified>,
    /// Whether every forwarded request was answered.
    pub(super) is_drained: bool,
}

impl CutOver<'_> {
    pub(super) async fn run(mut self) -> Result<CutOverOutcome, MigrateError> {
        self.marker.phase = Phase::CuttingOver;
        self.dir.write(self.marker)?;
        let begun = Instant::now();
        let is_drained = self.router.hold(DRAIN_TIMEOUT).await;
        match self.switch(begun, is_drained).await {
            Ok(done) => self.sync_marker().map(|()| done),
            Err(trouble) => Err(self.roll_back(trouble).await),
        }
    }

    async fn switch(&mut self, begun: Instant, is_drained: bool) -> Result<CutOverOutcome, MigrateError> {
        let revision = self.source.fence(self.member_id).await?;
        self.is_fenced = true;
        let caught_up = tokio::time::timeout(CATCH_UP_TIMEOUT, self.catch_up_to(revision)).await;
        caught_up.map_err(|_| MigrateError::Disconnected("the last revisions did not arrive".into()))??;
        if let Some(id) = leases::reconcile(self.source, self.follower).await? {
            return Err(MigrateError::CopyAgain(format!("lease {id:x} is gone there, and has keys here")));
        }
        let timeout = self.max_pause / 4;
        let remaining = leases::remaining(self.source, self.follower, timeout).await?;
        monitor::check_users_unchanged(self.source, self.follower).await?;
        let has_time = self.last_comparison.took * 2 + begun.elapsed() < self.max_pause;
        let node = self.follower.node();
        let verified = if has_time { Some(verify(self.source, node, revision).await?) } else { None };
        let source_status = self.source.status().await?;
        if source_status.revision != revision {
            let text = format!(
                "the etcd moved from revision {revision} to {} behind the fence",
                source_status.revision
            );
            return Err(MigrateError::Disconnected(text));
        }
        let finished = Marker { revision, ..self.marker.clone() };
        self.dir.finish(&finished)?;
        Ok(CutOverOutcome { revision, begun, remaining, verified, is_drained })
    }

    /// From here on Vetch is the source of truth; no client is answered before that is on disk. If
    /// it cannot be written, nothing is undone: an etcd that accepted writes again would be a
    /// second source of truth.
    fn sync_marker(&self) -> Result<(), MigrateError> {
        self.dir.sync().map_err(|error| {
            MigrateError::Fatal(format!(
                "it is not certain that the end of the migration is on disk: {error}. THE ETCD STAYS FENCED: run this \
                 command once more, and do not disarm the alarm before it says which of them is the truth"
            ))
        })
    }

    async fn catch_up_to(&mut self, revision: i64) -> Result<(), MigrateError> {
        while self.follower.node().revision() < revision {
            let revisions = self.feed.next().await?;
            follow::apply(self.source, self.follower, revisions).await?;
        }
        Ok(())
    }

    /// The etcd is to continue. The marker stays if a fence may still be set: then it has to be
    /// watched for. If all of this fails, the log says so as an error.
    async fn roll_back(&mut self, trouble: MigrateError) -> MigrateError {
        for _ in 0..ROLL_BACK_ATTEMPTS_MAX {
            if self.source.unfence().await.is_ok() {
                self.router.forward_to(self.source.channel());
                if !self.is_fenced {
                    return trouble;
                }
                self.marker.phase = Phase::Following;
                return match self.dir.write(self.marker) {
                    Ok(()) => trouble,
                    Err(error) => error.into(),
                };
            }
            tokio::time::sleep(ROLL_BACK_RETRY_DELAY).await;
        }
        MigrateError::Fatal(format!(
            "{}. THE ETCD MAY STILL BE FENCED, because the fence could not be removed: run 'etcdctl alarm disarm' on it, \
             or this command once more",
            trouble.text()
        ))
    }
}
