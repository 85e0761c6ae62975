//! One connection's worth of following: what is looked after besides the revisions themselves, and
//! what people are told.

use std::time::{Duration, Instant};

use vetch_node::{Follower, Node};

use super::follow::{self, Feed};
use super::leases;
use super::marker::Place;
use super::run::Stage;
use super::source::{Source, Standing};
use super::trouble::Trouble;
use super::verify::{self, Verified};
use crate::commands::say;

/// How often the etcd is asked where it stands, people are told, leases are listed, and everything
/// is compared.
const ASK: Duration = Duration::from_secs(1);
const TELL: Duration = Duration::from_secs(5);
const MATCH: Duration = Duration::from_secs(5);
const VERIFY: Duration = Duration::from_secs(300);
/// Revisions that may still be missing when the cut-over begins: they arrive in no time.
const CLOSE: i64 = 1000;
/// How often the etcd may have moved on while what it had was read.
const CATCH_UP_ROUNDS: usize = 10;

const WITH_USERS: &str =
    "vetch migrate: the etcd knows its clients by name, so nothing is passed on to it before the cut-over";

/// When things were last done.
struct Looks {
    asked: Option<Instant>,
    told: Option<Instant>,
    matched: Option<Instant>,
}

fn is_due(last: &mut Option<Instant>, every: Duration) -> bool {
    let due = last.is_none_or(|last| last.elapsed() >= every);
    if due {
        *last = Some(Instant::now());
    }
    due
}

/// One connection's worth of following.
pub(super) struct Watcher<'s> {
    pub(super) source: Source,
    pub(super) standing: Standing,
    pub(super) feed: Feed,
    pub(super) stage: &'s Stage,
    looked: Looks,
    verified: Option<(Verified, Instant)>,
}

impl<'s> Watcher<'s> {
    pub(super) fn new(source: Source, standing: Standing, feed: Feed, stage: &'s Stage) -> Watcher<'s> {
        let looked = Looks { asked: None, told: None, matched: None };
        Watcher { source, standing, feed, stage, looked, verified: None }
    }

    /// Passes clients on, if that gives nobody more rights than they have.
    pub(super) async fn open_door(&self) -> Result<(), Trouble> {
        let knows_names = self.source.auth().await?.is_some_and(|auth| auth.enabled);
        if knows_names {
            self.stage.stand_in.refuse(WITH_USERS);
        } else {
            self.stage.stand_in.pass_to(self.source.channel());
        }
        Ok(())
    }

    pub(super) async fn look(&mut self, requested: bool, place: &Place) -> Result<(), Trouble> {
        if is_due(&mut self.looked.asked, ASK) {
            self.standing = self.source.standing().await?;
            same_users(&self.source, &self.stage.follower).await?;
        }
        if is_due(&mut self.looked.matched, MATCH) {
            leases::match_all(&self.source, &self.stage.follower).await?;
        }
        let is_old = self.verified.is_none_or(|(_, when)| when.elapsed() >= VERIFY);
        if is_old && self.lag() <= CLOSE {
            self.verify().await?;
        }
        if is_due(&mut self.looked.told, TELL) {
            self.tell(requested, place);
        }
        Ok(())
    }

    /// Reads on until little is left to be read, so that little is left for the time when clients
    /// wait.
    pub(super) async fn catch_up(&mut self) -> Result<(), Trouble> {
        for _ in 0..CATCH_UP_ROUNDS {
            self.standing = self.source.standing().await?;
            if self.lag() == 0 {
                break;
            }
            while self.lag() > 0 {
                let revisions = self.feed.next().await?;
                follow::take_over(&self.source, &self.stage.follower, revisions).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn verify(&mut self) -> Result<Verified, Trouble> {
        let node = self.stage.follower.node();
        let verified = verify::verify(&self.source, node, node.revision()).await?;
        self.verified = Some((verified, Instant::now()));
        Ok(verified)
    }

    fn lag(&self) -> i64 {
        (self.standing.revision - self.stage.follower.node().revision()).max(0)
    }

    pub(super) fn is_safe(&self) -> bool {
        self.verified.is_some() && self.lag() <= CLOSE && !self.is_too_large()
    }

    /// Whether the first write after the cut-over would be refused.
    fn is_too_large(&self) -> bool {
        let status = self.stage.follower.node().status();
        status.quota_bytes > 0 && status.live_bytes >= status.quota_bytes
    }

    fn tell(&self, requested: bool, place: &Place) {
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
            format!("SAFE to cut over: vetch migrate cut-over --data-dir {}", place.data_dir.display())
        };
        say(&format!(
            "migrate: revision {}, {} behind; {} keys, {} MiB, {} leases; {compared}; {verdict}",
            status.revision,
            self.lag(),
            status.keys,
            status.live_bytes >> 20,
            status.leases
        ));
    }
}

/// After the cut-over: compares what there was no time for, and cries out if somebody writes to the
/// etcd all the same.
pub(super) async fn look_after(source: Source, node: Node, revision: i64, compare: bool) {
    if compare {
        match verify::verify(&source, &node, revision).await {
            Ok(verified) => say(&format!("migrate: {}, at revision {revision}", verified.text())),
            Err(trouble) => {
                tracing::error!(trouble = trouble.text(), "the comparison after the cut-over failed")
            }
        }
    }
    // Until it is gone, which is what it should be.
    while let Ok(standing) = source.standing().await {
        if standing.revision > revision {
            tracing::error!(
                endpoint = source.endpoint,
                "the etcd was written to after the cut-over; these writes are not here. Stop it"
            );
        }
        tokio::time::sleep(TELL).await;
    }
}

/// Passwords cannot be asked for, so users and roles that changed are fetched with a new snapshot.
pub(super) async fn same_users(source: &Source, follower: &Follower) -> Result<(), Trouble> {
    let Some(theirs) = source.auth().await? else { return Ok(()) };
    let ours = follower.node().auth();
    if (ours.enabled(), ours.revision()) == (theirs.enabled, theirs.revision.max(1)) {
        return Ok(());
    }
    Err(Trouble::Anew("users or roles of the etcd were changed since they were copied".into()))
}
