//! The cut-over: from the moment clients have to wait to the moment Vetch answers them.
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
//! If any step fails before the last but one, the fence is taken down, requests are forwarded
//! again, and the etcd goes on as if nothing had been. From the last but one on, nothing is taken
//! back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use vetch_node::Follower;
use vetch_server::grpc::RequestRouter;

use super::error::MigrateError;
use super::follow::{self, Feed};
use super::leases;
use super::marker::{Marker, MigrationDir, Phase};
use super::monitor;
use super::source::Source;
use super::verify::{Verified, verify};

/// How long requests that were forwarded may take to be answered.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(300);
/// How long the last revisions may take to arrive.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);
/// How often, and how long in between, the fence is tried to be taken down.
const ROLL_BACK_ATTEMPTS_MAX: usize = 20;
const ROLL_BACK_RETRY_DELAY: Duration = Duration::from_millis(250);

/// Everything that takes part.
pub(super) struct CutOver<'a> {
    pub(super) source: &'a Source,
    /// Of the etcd, in whose name the fence is put up.
    pub(super) member_id: u64,
    pub(super) follower: &'a Follower,
    pub(super) feed: &'a mut Feed,
    pub(super) router: &'a RequestRouter,
    pub(super) dir: &'a MigrationDir,
    pub(super) marker: &'a mut Marker,
    pub(super) max_pause: Duration,
    /// How the last comparison went.
    pub(super) last_comparison: Verified,
    /// Whether the etcd has said that it is fenced. If it was asked and has not answered, the fence
    /// may still come up.
    pub(super) is_fenced: bool,
}

/// How it went.
pub(super) struct CutOverOutcome {
    pub(super) revision: i64,
    pub(super) begun: Instant,
    /// Seconds that leases have left.
    pub(super) remaining: HashMap<i64, i64>,
    /// None if there was no time for a last comparison.
    pub(super) verified: Option<Verified>,
    /// Whether every request that had been forwarded was answered.
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

    /// The truth has changed hands; nobody is answered before that is on disk. If it cannot be put
    /// there, nothing is undone: an etcd that took writes again would be a second truth beside the
    /// one that the directory names.
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

    /// The etcd is to go on. The marker stays as it is if a fence may still come up: then it has to
    /// be looked out for. Should all of this fail, it is said as loudly as possible.
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
            "{}. THE ETCD MAY STILL BE FENCED, because it could not be told otherwise: run 'etcdctl alarm disarm' on it, \
             or this command once more",
            trouble.text()
        ))
    }
}
