//! The life of a migration, from the first connection to the server that is left.

use std::time::{Duration, Instant};

use vetch_node::Follower;
use vetch_server::grpc::StandIn;
use vetch_server::http::Server;

use super::copy::copy;
use super::cut_over::{Done, Scene};
use super::flags::Flags;
use super::follow::{self, Feed};
use super::marker::{self, Marker, Phase, Place};
use super::source::{Source, Standing};
use super::trouble::Trouble;
use super::watcher::{self, Watcher};
use crate::commands::{Failure, answer, say};
use crate::serve::{self, End, Signals};
use crate::settings::Settings;
use crate::sockets;

/// How often the request to cut over is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long to wait before a lost etcd is tried again.
const RECONNECT: Duration = Duration::from_secs(1);
/// How long a fence that was asked for may take to come up: an etcd gives up on a request in less
/// than half of this.
const SUSPICION: Duration = Duration::from_secs(20);

const NOT_YET: &str = "vetch migrate: not connected to the etcd";

pub(super) async fn run(settings: Settings, flags: Flags) -> Result<End, Failure> {
    let data_dir = settings.node.data_dir.clone();
    if let Some(done) = marker::done(&data_dir)? {
        say(&format!(
            "migrate: DONE already, at revision {}: {} is served as it is, {} is not asked any more",
            done.revision,
            data_dir.display(),
            done.from.join(",")
        ));
        return Ok(serve::serve(settings).await?);
    }
    check(&settings, &flags)?;
    serve::create(&data_dir)?;
    let place = Place::take(&data_dir).map_err(|text| Failure { code: 1, text })?;
    if place.marker()?.is_none() && place.member().exists() {
        let text =
            format!("{} holds data already: a migration needs a directory of its own", data_dir.display());
        return Err(Failure { code: 1, text });
    }
    // Now, so that a port in use or a wrong certificate is found out before hours of copying.
    drop(sockets::bind(&settings).await?);
    // Wrong endpoints, certificates or passwords are told at once; later, whatever is lost may come
    // back.
    Source::connect(&flags.from, &flags.access).await?;
    let mut signals = Signals::listen()?;
    let mut migration = Migration { settings, flags, place, requested: false, suspicion: None };
    migration.requested = migration.flags.cut_over;
    loop {
        match migration.attempt(&mut signals).await {
            Ok(end) => return Ok(end),
            Err(Trouble::Fatal(text)) => return Err(Failure { code: 1, text }),
            Err(Trouble::Anew(why)) => {
                say(&format!("migrate: {why}; copying from the beginning"));
                migration.forget_copy().await?;
            }
            Err(Trouble::Lost(why)) => {
                say(&format!("migrate: {why}; trying again"));
                tokio::time::sleep(RECONNECT).await;
            }
        }
    }
}

/// What can be told to be wrong without asking anybody.
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
    place: Place,
    /// Whether to cut over as soon as it is safe.
    requested: bool,
    /// Until when a fence that was asked for, and given up on, may still come up.
    suspicion: Option<Instant>,
}

/// The parts that run while the etcd is followed.
pub(super) struct Stage {
    pub(super) follower: Follower,
    pub(super) stand_in: StandIn,
    server: Server,
}

impl Migration {
    /// From a data directory in any state to the end of the process, or to something that went
    /// wrong.
    async fn attempt(&mut self, signals: &mut Signals) -> Result<End, Trouble> {
        let copied = tokio::select! {
            copied = self.have_copy() => copied?,
            number = signals.next() => return Ok(End::Signal(number)),
        };
        let stage = self.set_up().await?;
        self.accompany(copied, stage, signals).await
    }

    /// A copy of the etcd, at whatever revision.
    async fn have_copy(&mut self) -> Result<Marker, Trouble> {
        let (source, standing) = Source::connect(&self.flags.from, &self.flags.access).await?;
        let fresh = Marker {
            from: self.flags.from.clone(),
            cluster_id: standing.cluster_id,
            phase: Phase::Copying,
            revision: 0,
        };
        let mut marker = self.place.marker()?.unwrap_or(fresh);
        if marker.cluster_id != standing.cluster_id {
            return Err(Trouble::Fatal(format!(
                "{} is a migration from another cluster ({:x}) than {}: use another --data-dir, or remove it",
                self.place.data_dir.display(),
                marker.cluster_id,
                source.endpoint
            )));
        }
        if marker.phase == Phase::Copying {
            say(&format!("migrate: copying from {}, etcd {}", source.endpoint, standing.version));
            copy(&source, &standing, &self.place, &mut marker, &self.settings.node.keys).await?;
        }
        Ok(marker)
    }

    /// Opens what was copied, and begins to answer clients.
    async fn set_up(&self) -> Result<Stage, Trouble> {
        let config = self.settings.node.clone();
        let opening = tokio::task::spawn_blocking(move || Follower::open(config, |_| {}));
        let follower = opening.await.map_err(|error| Trouble::Fatal(error.to_string()))?;
        let follower = follower.map_err(|error| Trouble::Fatal(error.to_string()))?;
        // Alarms are about the disks of the etcd.
        follower.node().clear_alarms().await?;
        let listeners =
            sockets::bind(&self.settings).await.map_err(|error| Trouble::Fatal(error.to_string()))?;
        let stand_in = StandIn::new(NOT_YET);
        let server = serve::start(&self.settings, follower.node().clone(), listeners, Some(stand_in.clone()));
        serve::tell_systemd("READY=1");
        Ok(Stage { follower, stand_in, server })
    }

    /// Follows until the cut-over or the end; connects again as often as necessary.
    async fn accompany(
        &mut self,
        mut marker: Marker,
        stage: Stage,
        signals: &mut Signals,
    ) -> Result<End, Trouble> {
        loop {
            let following = self.follow(&mut marker, &stage, signals).await;
            let trouble = match following {
                Ok(Followed::Ended(number)) => {
                    serve::finish(End::Signal(number), stage.server, stage.follower.node().clone()).await;
                    return Ok(End::Signal(number));
                }
                Ok(Followed::CutOver(done, source)) => {
                    return Ok(self.lead(stage, *done, source, signals).await);
                }
                Err(trouble) => trouble,
            };
            let Trouble::Lost(why) = trouble else {
                serve::finish(End::Node, stage.server, stage.follower.node().clone()).await;
                return Err(trouble);
            };
            say(&format!("migrate: {why}; connecting again"));
            tokio::time::sleep(RECONNECT).await;
        }
    }

    async fn follow(
        &mut self,
        marker: &mut Marker,
        stage: &Stage,
        signals: &mut Signals,
    ) -> Result<Followed, Trouble> {
        let (source, standing) = Source::connect(&self.flags.from, &self.flags.access).await?;
        // What the connection before has brought is all taken now, or never will be.
        stage.follower.settle().await?;
        self.check_source(&source, &standing, marker, stage).await?;
        let from = stage.follower.node().revision() + 1;
        let feed = Feed::begin(&source, from).await?;
        let mut watcher = Watcher::new(source, standing, feed, stage);
        watcher.open_door().await?;
        say(&format!("migrate: following {} from revision {from} on", watcher.source.endpoint));
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                revisions = watcher.feed.next() => {
                    follow::take_over(&watcher.source, &stage.follower, revisions?).await?;
                }
                _ = look.tick() => {
                    self.requested |= self.place.take_request()?;
                    watcher.look(self.requested, &self.place).await?;
                    self.look_out(&watcher.source, marker).await?;
                    if self.requested && watcher.is_safe() {
                        let done = self.cut_over(&mut watcher, marker).await?;
                        return Ok(Followed::CutOver(Box::new(done), watcher.source));
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
        standing: &Standing,
        marker: &mut Marker,
        stage: &Stage,
    ) -> Result<(), Trouble> {
        if standing.cluster_id != marker.cluster_id {
            let text = format!("{} is another cluster than the one that was copied", source.endpoint);
            return Err(Trouble::Fatal(text));
        }
        let here = stage.follower.node().revision();
        if standing.revision < here {
            let text = format!("the etcd is at revision {}, and the copy at {here}", standing.revision);
            return Err(Trouble::Anew(text));
        }
        self.check_fence(source, marker).await?;
        watcher::same_users(source, &stage.follower).await
    }

    /// An interrupted cut-over goes on if the fence stands: clients are waiting. If it does not,
    /// somebody has decided otherwise, or it was never put up, or it is about to come up.
    async fn check_fence(&mut self, source: &Source, marker: &Marker) -> Result<(), Trouble> {
        let is_fenced = source.is_fenced().await?;
        if marker.phase != Phase::CuttingOver {
            let text = "the etcd has a CORRUPT alarm that this migration did not raise: find out why, then 'etcdctl alarm \
                        disarm'";
            return if is_fenced { Err(Trouble::Fatal(text.into())) } else { Ok(()) };
        }
        if is_fenced && self.suspicion.is_none() {
            say("migrate: a cut-over was interrupted, and the etcd is fenced: going on with it");
            self.requested = true;
        } else {
            self.suspicion.get_or_insert(Instant::now() + SUSPICION);
        }
        Ok(())
    }

    /// Takes down a fence that comes up although the cut-over was given up.
    async fn look_out(&mut self, source: &Source, marker: &mut Marker) -> Result<(), Trouble> {
        let Some(until) = self.suspicion.filter(|_| !self.requested) else { return Ok(()) };
        if source.is_fenced().await? {
            say("migrate: the fence of the cut-over that was given up has come up late; taking it down");
            source.unfence().await?;
        }
        if Instant::now() > until {
            self.suspicion = None;
            marker.phase = Phase::Following;
            self.place.write(marker)?;
        }
        Ok(())
    }

    /// An error means that the etcd goes on.
    async fn cut_over(&mut self, watcher: &mut Watcher<'_>, marker: &mut Marker) -> Result<Done, Trouble> {
        // Compared shortly before, so that little is left to be compared while clients wait.
        let rehearsal = watcher.verify().await?;
        watcher.catch_up().await?;
        say(&format!("migrate: cutting over; compared at revision {}, equal", rehearsal.revision));
        let scene = Scene {
            source: &watcher.source,
            member_id: watcher.standing.member_id,
            follower: &watcher.stage.follower,
            feed: &mut watcher.feed,
            stand_in: &watcher.stage.stand_in,
            place: &self.place,
            marker,
            max_pause: self.flags.max_pause,
            rehearsal,
            is_fenced: false,
        };
        let trouble = match scene.play().await {
            Ok(done) => return Ok(done),
            Err(trouble) => trouble,
        };
        self.requested = false;
        if marker.phase == Phase::CuttingOver {
            self.suspicion = Some(Instant::now() + SUSPICION);
        }
        let then = match trouble {
            Trouble::Fatal(_) => String::new(),
            Trouble::Lost(_) | Trouble::Anew(_) => format!(
                ". The etcd takes writes again and remains the truth. Ask once more with 'vetch migrate cut-over --data-dir {}'",
                self.place.data_dir.display()
            ),
        };
        say(&format!("migrate: THE CUT-OVER FAILED: {}{then}", trouble.text()));
        if let Err(error) = self.place.tell_failure(trouble.text()) {
            say(&format!("migrate: whoever asked for the cut-over cannot be told: {error}"));
        }
        Err(trouble)
    }

    /// From here on an ordinary server.
    async fn lead(&self, stage: Stage, done: Done, source: Source, signals: &mut Signals) -> End {
        let node = stage.follower.lead(&done.remaining);
        stage.stand_in.take_over();
        let pause = done.begun.elapsed();
        serve::announce(&self.settings, &node);
        serve::start_compactor(&self.settings, &node);
        let archiver = serve::archive(&self.settings, &node);
        let compared = match done.verified {
            Some(verified) => verified.text(),
            None => "HashKV is compared now, because it takes longer than --max-pause".into(),
        };
        let waited = if done.is_drained {
            ""
        } else {
            "; some requests that had been passed on were not answered in time"
        };
        // The write stands in the data directory; if nobody reads this line, that changes nothing.
        let _ = answer(&format!(
            "migrate: DONE at revision {}: Vetch answers now, the etcd at {} refuses writes: stop it. Clients waited {} ms; \
             {compared}; {} leases{waited}",
            done.revision,
            source.endpoint,
            pause.as_millis(),
            node.status().leases
        ));
        tokio::spawn(watcher::look_after(source, node.clone(), done.revision, done.verified.is_none()));
        serve::until_the_end(stage.server, node, archiver, signals).await
    }

    /// The next attempt begins with a new copy. That takes a while, so an etcd that an interrupted
    /// cut-over has left fenced goes on first.
    async fn forget_copy(&self) -> Result<(), Failure> {
        let Some(mut marker) = self.place.marker()? else { return Ok(()) };
        if marker.phase == Phase::CuttingOver {
            let (source, _) = Source::connect(&self.flags.from, &self.flags.access).await?;
            let still_fenced = |trouble: Trouble| Failure {
                code: 1,
                text: format!(
                    "{}. THE ETCD IS STILL FENCED: run 'etcdctl alarm disarm' on it",
                    trouble.text()
                ),
            };
            source.unfence().await.map_err(still_fenced)?;
        }
        marker.phase = Phase::Copying;
        Ok(self.place.write(&marker)?)
    }
}

enum Followed {
    Ended(i32),
    CutOver(Box<Done>, Source),
}
