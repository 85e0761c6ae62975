//! Following over one connection: the periodic work besides the revisions themselves, and reports
//! in the log.

use std::time::{Duration, Instant};

use vetch_node::{Follower, Node};

use super::error::MigrateError;
use super::follow::{self, Feed};
use super::leases;
use super::services::FollowerServices;
use super::source::{Source, SourceStatus};
use super::verify::{self, Verified};
use crate::commands::print_message;
use crate::migration_dir::MigrationDir;

/// Intervals: of status requests to the etcd, of reports, of lease lists, and of comparisons.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
const LEASE_INTERVAL: Duration = Duration::from_secs(5);
const VERIFY_INTERVAL: Duration = Duration::from_secs(300);
/// Revisions that may still be missing when the cut-over begins: few, so that the pause is short.
const CUT_OVER_LAG_MAX: i64 = 1000;
/// Rounds of reading while the etcd moves on.
const CATCH_UP_ROUNDS_MAX: usize = 10;

const WITH_USERS: &str =
    "vetch migrate: the etcd has authentication enabled, so requests are not forwarded before the cut-over";

/// Times of the last runs.
struct LastRuns {
    status: Option<Instant>,
    report: Option<Instant>,
    leases: Option<Instant>,
}

fn is_due(last: &mut Option<Instant>, interval: Duration) -> bool {
    let due = last.is_none_or(|last| last.elapsed() >= interval);
    if due {
        *last = Some(Instant::now());
    }
    due
}

/// Following over one connection.
pub(super) struct SourceMonitor<'s> {
    pub(super) source: Source,
    pub(super) source_status: SourceStatus,
    pub(super) feed: Feed,
    pub(super) stage: &'s FollowerServices,
    last_runs: LastRuns,
    verified: Option<(Verified, Instant)>,
}

impl<'s> SourceMonitor<'s> {
    pub(super) fn new(
        source: Source,
        source_status: SourceStatus,
        feed: Feed,
        stage: &'s FollowerServices,
    ) -> SourceMonitor<'s> {
        let last_runs = LastRuns { status: None, report: None, leases: None };
        SourceMonitor { source, source_status, feed, stage, last_runs, verified: None }
    }

    /// Forwards clients, unless that would give a client more rights than it has.
    pub(super) async fn start_forwarding(&self) -> Result<(), MigrateError> {
        let knows_names = self.source.auth().await?.is_some_and(|auth| auth.enabled);
        if knows_names {
            self.stage.router.refuse(WITH_USERS);
        } else {
            self.stage.router.forward_to(self.source.channel());
        }
        Ok(())
    }

    pub(super) async fn check(&mut self, requested: bool, dir: &MigrationDir) -> Result<(), MigrateError> {
        if is_due(&mut self.last_runs.status, STATUS_INTERVAL) {
            self.source_status = self.source.status().await?;
            check_users_unchanged(&self.source, &self.stage.follower).await?;
        }
        if is_due(&mut self.last_runs.leases, LEASE_INTERVAL) {
            leases::reconcile(&self.source, &self.stage.follower).await?;
        }
        let is_old = self.verified.is_none_or(|(_, when)| when.elapsed() >= VERIFY_INTERVAL);
        if is_old && self.lag() <= CUT_OVER_LAG_MAX {
            self.verify().await?;
        }
        if is_due(&mut self.last_runs.report, REPORT_INTERVAL) {
            self.report(requested, dir);
        }
        Ok(())
    }

    /// Reads until little is left, so that clients wait only for a little.
    pub(super) async fn catch_up(&mut self) -> Result<(), MigrateError> {
        for _ in 0..CATCH_UP_ROUNDS_MAX {
            self.source_status = self.source.status().await?;
            if self.lag() == 0 {
                break;
            }
            while self.lag() > 0 {
                let revisions = self.feed.next().await?;
                follow::apply(&self.source, &self.stage.follower, revisions).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn verify(&mut self) -> Result<Verified, MigrateError> {
        let node = self.stage.follower.node();
        let verified = verify::verify(&self.source, node, node.revision()).await?;
        self.verified = Some((verified, Instant::now()));
        Ok(verified)
    }

    fn lag(&self) -> i64 {
        (self.source_status.revision - self.stage.follower.node().revision()).max(0)
    }

    pub(super) fn is_safe(&self) -> bool {
        self.verified.is_some() && self.lag() <= CUT_OVER_LAG_MAX && !self.is_too_large()
    }

    /// Whether the first write after the cut-over would be refused.
    fn is_too_large(&self) -> bool {
        let status = self.stage.follower.node().status();
        status.quota_bytes > 0 && status.live_bytes >= status.quota_bytes
    }

    fn report(&self, requested: bool, dir: &MigrationDir) {
        let status = self.stage.follower.node().status();
        let compared = match self.verified {
            Some((verified, _)) => format!("equal when compared at {}", verified.revision),
            None => "not yet compared".into(),
        };
        let verdict = if self.is_too_large() {
            "NOT SAFE to cut over: the data is larger than --quota-backend-bytes; start again with more"
                .into()
        } else if !self.is_safe() {
            "not yet safe to cut over".into()
        } else if requested {
            "cutting over".into()
        } else {
            format!("SAFE to cut over: vetch migrate cut-over --data-dir {}", dir.data_dir.display())
        };
        print_message(&format!(
            "migrate: revision {}, {} behind; {} keys, {} MiB, {} leases; {compared}; {verdict}",
            status.revision,
            self.lag(),
            status.keys,
            status.live_bytes >> 20,
            status.leases
        ));
    }
}

/// After the cut-over: compares what there was no time for, and logs an error if a client writes to
/// the etcd.
pub(super) async fn verify_after_cut_over(source: Source, node: Node, revision: i64, compare: bool) {
    if compare {
        match verify::verify(&source, &node, revision).await {
            Ok(verified) => print_message(&format!("migrate: {}, at revision {revision}", verified.text())),
            Err(trouble) => {
                tracing::error!(trouble = trouble.text(), "the comparison after the cut-over failed")
            }
        }
    }
    // Until it has stopped, as it should.
    while let Ok(source_status) = source.status().await {
        if source_status.revision > revision {
            tracing::error!(
                endpoint = source.endpoint,
                "the etcd was written to after the cut-over; these writes are not here. Stop it"
            );
        }
        tokio::time::sleep(REPORT_INTERVAL).await;
    }
}

/// Passwords cannot be requested, so changed users and roles are fetched with a new snapshot.
pub(super) async fn check_users_unchanged(source: &Source, follower: &Follower) -> Result<(), MigrateError> {
    let Some(theirs) = source.auth().await? else { return Ok(()) };
    let ours = follower.node().auth();
    if (ours.enabled(), ours.revision()) == (theirs.enabled, theirs.revision.max(1)) {
        return Ok(());
    }
    Err(MigrateError::CopyAgain("users or roles of the etcd were changed since they were copied".into()))
}
