//! A migration, from the first connection to the server that it becomes.

use std::time::{Duration, Instant};

use vetch_node::Follower;
use vetch_server::grpc::RequestRouter;

use super::copy::copy;
use super::cut_over::{CutOver, CutOverOutcome};
use super::error::MigrateError;
use super::flags::Flags;
use super::follow::{self, Feed};
use super::monitor::{self, SourceMonitor};
use super::services::FollowerServices;
use super::source::{Source, SourceStatus};
use crate::commands::{Failure, print_message, print_result};
use crate::migration_dir::{self, Marker, MigrationDir, Phase};
use crate::serve::{self, ExitReason, Signals};
use crate::settings::Settings;
use crate::sockets;

/// Interval of checks for a requested cut-over.
const REQUEST_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Delay before the next attempt to reach a lost etcd.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// How long a requested fence may take to be set: an etcd abandons a request in less than half of
/// this.
const LATE_FENCE_TIMEOUT: Duration = Duration::from_secs(20);

const NOT_CONNECTED: &str = "vetch migrate: not connected to the etcd";

pub(super) async fn run(settings: Settings, flags: Flags) -> Result<ExitReason, Failure> {
    let data_dir = settings.node.data_dir.clone();
    if let Some(done) = migration_dir::done(&data_dir)? {
        print_message(&format!(
            "migrate: DONE already, at revision {}: {} is served, {} is not called any more",
            done.revision,
            data_dir.display(),
            done.from.join(",")
        ));
        return Ok(serve::serve(settings).await?);
    }
    check(&settings, &flags)?;
    serve::create(&data_dir)?;
    let dir = MigrationDir::take(&data_dir)?;
    if dir.marker()?.is_none() && dir.member().exists() {
        let text =
            format!("{} holds data already: a migration needs a directory of its own", data_dir.display());
        return Err(Failure { code: 1, text });
    }
    // Now, so that a port in use or a wrong certificate is found out before hours of copying.
    drop(sockets::bind(&settings).await?);
    // Wrong endpoints, certificates or passwords are reported at once; later, a lost connection may
    // come back.
    Source::connect(&flags.from, &flags.access).await?;
    let mut signals = Signals::listen()?;
    let mut migration = Migration { settings, flags, dir, requested: false, late_fence_until: None };
    migration.requested = migration.flags.cut_over;
    loop {
        match migration.attempt(&mut signals).await {
            Ok(end) => return Ok(end),
            Err(MigrateError::Fatal(text)) => return Err(Failure { code: 1, text }),
            Err(MigrateError::CopyAgain(why)) => {
                print_message(&format!("migrate: {why}; copying from the beginning"));
                migration.discard_copy().await?;
            }
            Err(MigrateError::Disconnected(why)) => {
                print_message(&format!("migrate: {why}; trying again"));
                tokio::time::sleep(RECONNECT_DELAY).await;
            }
        }
    }
}

/// Errors that can be found without a connection.
fn check(settings: &Settings, flags: &Flags) -> Result<(), Failure> {
    if settings.wal_dir.is_some() {
        return Err(Failure::bad_arguments(
            "--wal-dir: migrate without it; when that is done, move member/journal and put a link in its place",
        ));
    }
    let own: Vec<String> = settings.listeners.iter().map(|(url, _)| url.address()).collect();
    for endpoint in &flags.from {
        let address = endpoint.trim_start_matches("https://").trim_start_matches("http://");
        if own.iter().any(|own| own == address) {
            let text = format!("--from {endpoint} is the address that Vetch itself is to listen on");
            return Err(Failure::bad_arguments(text));
        }
    }
    Ok(())
}

struct Migration {
    settings: Settings,
    flags: Flags,
    dir: MigrationDir,
    /// Whether to cut over as soon as it is safe.
    requested: bool,
    /// Until when a fence that was requested and abandoned may still be set.
    late_fence_until: Option<Instant>,
}

impl Migration {
    /// From a data directory in any state to the end of the process, or to an error.
    async fn attempt(&mut self, signals: &mut Signals) -> Result<ExitReason, MigrateError> {
        let copied = tokio::select! {
            copied = self.ensure_copy() => copied?,
            number = signals.next() => return Ok(ExitReason::Signal(number)),
        };
        let stage = self.start_services().await?;
        self.follow_until_done(copied, stage, signals).await
    }

    /// A copy of the etcd, at some revision.
    async fn ensure_copy(&mut self) -> Result<Marker, MigrateError> {
        let (source, source_status) = Source::connect(&self.flags.from, &self.flags.access).await?;
        let fresh = Marker {
            from: self.flags.from.clone(),
            cluster_id: source_status.cluster_id,
            phase: Phase::Copying,
            revision: 0,
        };
        let mut marker = self.dir.marker()?.unwrap_or(fresh);
        if marker.cluster_id != source_status.cluster_id {
            return Err(MigrateError::Fatal(format!(
                "{} is a migration from another cluster ({:x}) than {}: use another --data-dir, or remove it",
                self.dir.data_dir.display(),
                marker.cluster_id,
                source.endpoint
            )));
        }
        if marker.phase == Phase::Copying {
            copy(&source, &source_status, &self.dir, &mut marker, &self.settings.node.keys).await?;
        }
        Ok(marker)
    }

    /// Opens the copy, and begins to serve clients.
    async fn start_services(&self) -> Result<FollowerServices, MigrateError> {
        let config = self.settings.node.clone();
        let opening = tokio::task::spawn_blocking(move || Follower::open(config, |_| {}));
        let follower = opening.await.map_err(|error| MigrateError::Fatal(error.to_string()))?;
        let follower = follower.map_err(|error| MigrateError::Fatal(error.to_string()))?;
        // The etcd's alarms concern its own disks.
        follower.node().clear_alarms().await?;
        let listeners =
            sockets::bind(&self.settings).await.map_err(|error| MigrateError::Fatal(error.to_string()))?;
        let router = RequestRouter::new(NOT_CONNECTED);
        let server = serve::start(&self.settings, follower.node().clone(), listeners, Some(router.clone()));
        serve::notify_systemd("READY=1");
        Ok(FollowerServices { follower, router, server })
    }

    /// Follows until the cut-over or the end; connects again as often as necessary.
    async fn follow_until_done(
        &mut self,
        mut marker: Marker,
        stage: FollowerServices,
        signals: &mut Signals,
    ) -> Result<ExitReason, MigrateError> {
        loop {
            let following = self.follow(&mut marker, &stage, signals).await;
            let trouble = match following {
                Ok(Followed::Ended(number)) => {
                    serve::finish(ExitReason::Signal(number), stage.server, stage.follower.node().clone())
                        .await;
                    return Ok(ExitReason::Signal(number));
                }
                Ok(Followed::CutOver(done, source)) => {
                    return Ok(self.become_server(stage, *done, source, signals).await);
                }
                Err(trouble) => trouble,
            };
            let MigrateError::Disconnected(why) = trouble else {
                serve::finish(ExitReason::NodeStopped, stage.server, stage.follower.node().clone()).await;
                return Err(trouble);
            };
            print_message(&format!("migrate: {why}; connecting again"));
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    async fn follow(
        &mut self,
        marker: &mut Marker,
        stage: &FollowerServices,
        signals: &mut Signals,
    ) -> Result<Followed, MigrateError> {
        let (source, source_status) = Source::connect(&self.flags.from, &self.flags.access).await?;
        // Events of the previous connection are applied now, or never.
        stage.follower.settle().await?;
        self.check_source(&source, &source_status, marker, stage).await?;
        let from = stage.follower.node().revision() + 1;
        let feed = Feed::begin(&source, from).await?;
        let mut monitor = SourceMonitor::new(source, source_status, feed, stage);
        monitor.start_forwarding().await?;
        print_message(&format!("migrate: following {} from revision {from} on", monitor.source.endpoint));
        let mut poll = tokio::time::interval(REQUEST_POLL_INTERVAL);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                revisions = monitor.feed.next() => {
                    follow::apply(&monitor.source, &stage.follower, revisions?).await?;
                }
                _ = poll.tick() => {
                    self.requested |= self.dir.take_request()?;
                    monitor.check(self.requested, &self.dir).await?;
                    self.remove_late_fence(&monitor.source, marker).await?;
                    if self.requested && monitor.is_safe() {
                        let done = self.cut_over(&mut monitor, marker).await?;
                        return Ok(Followed::CutOver(Box::new(done), monitor.source));
                    }
                }
                number = signals.next() => return Ok(Followed::Ended(number)),
            }
        }
    }

    /// Whether this is the etcd that was copied, in a state that can be followed.
    async fn check_source(
        &mut self,
        source: &Source,
        source_status: &SourceStatus,
        marker: &mut Marker,
        stage: &FollowerServices,
    ) -> Result<(), MigrateError> {
        if source_status.cluster_id != marker.cluster_id {
            let text = format!("{} is another cluster than the one that was copied", source.endpoint);
            return Err(MigrateError::Fatal(text));
        }
        let here = stage.follower.node().revision();
        if source_status.revision < here {
            let text = format!("the etcd is at revision {}, and the copy at {here}", source_status.revision);
            return Err(MigrateError::CopyAgain(text));
        }
        self.check_fence(source, marker).await?;
        monitor::check_users_unchanged(source, &stage.follower).await
    }

    /// An interrupted cut-over continues if the fence is set: clients are waiting. If not, an
    /// operator removed it, or it was never set, or is about to be set.
    async fn check_fence(&mut self, source: &Source, marker: &Marker) -> Result<(), MigrateError> {
        let is_fenced = source.is_fenced().await?;
        if marker.phase != Phase::CuttingOver {
            let text = "the etcd has a CORRUPT alarm that this migration did not raise: find out why, then 'etcdctl alarm \
                        disarm'";
            return if is_fenced { Err(MigrateError::Fatal(text.into())) } else { Ok(()) };
        }
        if is_fenced && self.late_fence_until.is_none() {
            print_message("migrate: a cut-over was interrupted, and the etcd is fenced: going on with it");
            self.requested = true;
        } else {
            self.late_fence_until.get_or_insert(Instant::now() + LATE_FENCE_TIMEOUT);
        }
        Ok(())
    }

    /// Removes a fence that is set after its cut-over was abandoned.
    async fn remove_late_fence(&mut self, source: &Source, marker: &mut Marker) -> Result<(), MigrateError> {
        let Some(until) = self.late_fence_until.filter(|_| !self.requested) else { return Ok(()) };
        if source.is_fenced().await? {
            print_message("migrate: the fence of an abandoned cut-over was set late; removing it");
            source.unfence().await?;
        }
        if Instant::now() > until {
            self.late_fence_until = None;
            marker.phase = Phase::Following;
            self.dir.write(marker)?;
        }
        Ok(())
    }

    /// After an error, the etcd continues.
    async fn cut_over(
        &mut self,
        monitor: &mut SourceMonitor<'_>,
        marker: &mut Marker,
    ) -> Result<CutOverOutcome, MigrateError> {
        // Compared shortly before, so that little is compared while clients wait.
        let last_comparison = monitor.verify().await?;
        monitor.catch_up().await?;
        print_message(&format!(
            "migrate: cutting over; compared at revision {}, equal",
            last_comparison.revision
        ));
        let cut_over = CutOver {
            source: &monitor.source,
            member_id: monitor.source_status.member_id,
            follower: &monitor.stage.follower,
            feed: &mut monitor.feed,
            router: &monitor.stage.router,
            dir: &self.dir,
            marker,
            max_pause: self.flags.max_pause,
            last_comparison,
            is_fenced: false,
        };
        let trouble = match cut_over.run().await {
            Ok(done) => return Ok(done),
            Err(trouble) => trouble,
        };
        self.requested = false;
        if marker.phase == Phase::CuttingOver {
            self.late_fence_until = Some(Instant::now() + LATE_FENCE_TIMEOUT);
        }
        let then = match trouble {
            MigrateError::Fatal(_) => String::new(),
            MigrateError::Disconnected(_) | MigrateError::CopyAgain(_) => format!(
                ". The etcd accepts writes again and remains the source of truth. Try again with 'vetch migrate cut-over --data-dir {}'",
                self.dir.data_dir.display()
            ),
        };
        print_message(&format!("migrate: THE CUT-OVER FAILED: {}{then}", trouble.text()));
        if let Err(error) = self.dir.record_failure(trouble.text()) {
            print_message(&format!(
                "migrate: cannot report the failure to the command that asked for the cut-over: {error}"
            ));
        }
        Err(trouble)
    }

    /// From here on it is an ordinary server.
    async fn become_server(
        &self,
        stage: FollowerServices,
        done: CutOverOutcome,
        source: Source,
        signals: &mut Signals,
    ) -> ExitReason {
        let node = stage.follower.lead(&done.remaining);
        stage.router.serve_locally();
        let pause = done.begun.elapsed();
        serve::announce_ready(&self.settings, &node);
        serve::start_compactor(&self.settings, &node);
        let archiver = serve::start_archiver(&self.settings, &node);
        let compared = match done.verified {
            Some(verified) => verified.text(),
            None => "HashKV is compared now, because it takes longer than --max-pause".into(),
        };
        let waited = if done.is_drained { "" } else { "; some forwarded requests were not answered in time" };
        // The data directory has the result, with or without this line.
        let _ = print_result(&format!(
            "migrate: DONE at revision {}: Vetch answers now, the etcd at {} refuses writes: stop it. Clients waited {} ms; \
             {compared}; {} leases{waited}",
            done.revision,
            source.endpoint,
            pause.as_millis(),
            node.status().leases
        ));
        tokio::spawn(monitor::verify_after_cut_over(
            source,
            node.clone(),
            done.revision,
            done.verified.is_none(),
        ));
        serve::run_until_stopped(stage.server, node, archiver, signals).await
    }

    /// The next attempt begins with a new copy. That takes a while, so the fence of an interrupted
    /// cut-over is removed first.
    async fn discard_copy(&self) -> Result<(), Failure> {
        let Some(mut marker) = self.dir.marker()? else { return Ok(()) };
        if marker.phase == Phase::CuttingOver {
            let (source, _) = Source::connect(&self.flags.from, &self.flags.access).await?;
            let still_fenced = |trouble: MigrateError| Failure {
                code: 1,
                text: format!(
                    "{}. THE ETCD IS STILL FENCED: run 'etcdctl alarm disarm' on it",
                    trouble.text()
                ),
            };
            source.unfence().await.map_err(still_fenced)?;
        }
        marker.phase = Phase::Copying;
        Ok(self.dir.write(&marker)?)
    }
}

enum Followed {
    Ended(i32),
    CutOver(Box<CutOverOutcome>, Source),
}
