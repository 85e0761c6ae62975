//! The cut-over: from the moment clients have to wait to the moment Vetch answers them.
//!
//! ```text
//!  the marker says that the fence may be up
//!  requests wait, what was passed on is answered      |
//!  the etcd is fenced: it stands at revision F        |  the pause
//!  the watch has brought everything up to F           |
//!  leases, users and HashKV at F are the same         |
//!  the marker says that the migration is done         |
//!  Vetch answers
//! ```
//!
//! If any step fails before the last but one, the fence is taken down, requests are passed on
//! again, and the etcd goes on as if nothing had been. From the last but one on, nothing is taken
//! back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use vetch_node::Follower;
use vetch_server::grpc::StandIn;

use super::follow::{self, Feed};
use super::leases;
use super::marker::{Marker, Phase, Place};
use super::source::Source;
use super::trouble::Trouble;
use super::verify::{Verified, verify};
use super::watcher;

/// How long requests that were passed on may take to be answered.
const DRAIN: Duration = Duration::from_millis(300);
/// How long the last revisions may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);
/// How often, and how long in between, the fence is tried to be taken down.
const UNDO_ATTEMPTS: usize = 20;
const UNDO_PAUSE: Duration = Duration::from_millis(250);

/// Everything that takes part.
pub(super) struct Scene<'a> {
    pub(super) source: &'a Source,
    /// Of the etcd, in whose name the fence is put up.
    pub(super) member_id: u64,
    pub(super) follower: &'a Follower,
    pub(super) feed: &'a mut Feed,
    pub(super) stand_in: &'a StandIn,
    pub(super) place: &'a Place,
    pub(super) marker: &'a mut Marker,
    pub(super) max_pause: Duration,
    /// How the last comparison went.
    pub(super) rehearsal: Verified,
    /// Whether the etcd has said that it is fenced. If it was asked and has not answered, the fence
    /// may still come up.
    pub(super) is_fenced: bool,
}

/// How it went.
pub(super) struct Done {
    pub(super) revision: i64,
    pub(super) begun: Instant,
    /// Seconds that leases have left.
    pub(super) remaining: HashMap<i64, i64>,
    /// None if there was no time for a last comparison.
    pub(super) verified: Option<Verified>,
    /// Whether every request that had been passed on was answered.
    pub(super) is_drained: bool,
}

impl Scene<'_> {
    pub(super) async fn play(mut self) -> Result<Done, Trouble> {
        self.marker.phase = Phase::CuttingOver;
        self.place.write(self.marker)?;
        let begun = Instant::now();
        let is_drained = self.stand_in.hold(DRAIN).await;
        match self.change_over(begun, is_drained).await {
            Ok(done) => self.settle().map(|()| done),
            Err(trouble) => Err(self.undo(trouble).await),
        }
    }

    async fn change_over(&mut self, begun: Instant, is_drained: bool) -> Result<Done, Trouble> {
        let revision = self.source.fence(self.member_id).await?;
        self.is_fenced = true;
        let arrival = tokio::time::timeout(ARRIVAL, self.arrive(revision)).await;
        arrival.map_err(|_| Trouble::Lost("the last revisions did not arrive".into()))??;
        if let Some(id) = leases::match_all(self.source, self.follower).await? {
            return Err(Trouble::Anew(format!("lease {id:x} is gone there, and has keys here")));
        }
        let patience = self.max_pause / 4;
        let remaining = leases::remaining(self.source, self.follower, patience).await?;
        watcher::same_users(self.source, self.follower).await?;
        let has_time = self.rehearsal.took * 2 + begun.elapsed() < self.max_pause;
        let node = self.follower.node();
        let verified = if has_time { Some(verify(self.source, node, revision).await?) } else { None };
        let standing = self.source.standing().await?;
        if standing.revision != revision {
            let text =
                format!("the etcd moved from revision {revision} to {} behind the fence", standing.revision);
            return Err(Trouble::Lost(text));
        }
        let finished = Marker { revision, ..self.marker.clone() };
        self.place.finish(&finished)?;
        Ok(Done { revision, begun, remaining, verified, is_drained })
    }

    /// The truth has changed hands; nobody is answered before that is on disk. If it cannot be put
    /// there, nothing is undone: an etcd that took writes again would be a second truth beside the
    /// one that the directory names.
    fn settle(&self) -> Result<(), Trouble> {
        self.place.sync().map_err(|error| {
            Trouble::Fatal(format!(
                "it is not certain that the end of the migration is on disk: {error}. THE ETCD STAYS FENCED: run this \
                 command once more, and do not disarm the alarm before it says which of them is the truth"
            ))
        })
    }

    async fn arrive(&mut self, revision: i64) -> Result<(), Trouble> {
        while self.follower.node().revision() < revision {
            let revisions = self.feed.next().await?;
            follow::take_over(self.source, self.follower, revisions).await?;
        }
        Ok(())
    }

    /// The etcd is to go on. The marker stays as it is if a fence may still come up: then it has to
    /// be looked out for. Should all of this fail, it is said as loudly as possible.
    async fn undo(&mut self, trouble: Trouble) -> Trouble {
        for _ in 0..UNDO_ATTEMPTS {
            if self.source.unfence().await.is_ok() {
                self.stand_in.pass_to(self.source.channel());
                if !self.is_fenced {
                    return trouble;
                }
                self.marker.phase = Phase::Following;
                return match self.place.write(self.marker) {
                    Ok(()) => trouble,
                    Err(error) => error.into(),
                };
            }
            tokio::time::sleep(UNDO_PAUSE).await;
        }
        Trouble::Fatal(format!(
            "{}. THE ETCD MAY STILL BE FENCED, because it could not be told otherwise: run 'etcdctl alarm disarm' on it, \
             or this command once more",
            trouble.text()
        ))
    }
}
