//! The faults: each breaks something beneath a loaded cluster, and heals it.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::ValueEnum;

use super::{Field, LIMIT};
use crate::replicas::members::Leader;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// The leader is killed; once another one writes it is started again.
    LeaderKilled,
    /// Another server is killed and started again.
    FollowerKilled,
    /// The leader is stopped for four seconds, and goes on after it was replaced.
    LeaderPaused,
    /// Another server is stopped for four seconds.
    FollowerPaused,
    /// A server of the journal that does not lead the stream is killed and started again.
    JournalFollowerKilled,
    /// The one that leads the stream.
    JournalLeaderKilled,
    /// The one that leads the stream is stopped for four seconds.
    JournalLeaderPaused,
    /// A server of the journal and the leader, or another server, are killed at once: the rest goes
    /// on serving.
    OneOfEachKilled,
    /// The journal has no majority: two of its servers are killed, or all are cut off from each
    /// other.
    QuorumLost,
    /// Every server is asked to end, and started again, one after the other.
    RollingRestart,
    /// Every server of the journal is asked to end, and started again, one after the other.
    JournalRollingRestart,
    /// All servers are killed at once and started again.
    AllKilled,
    /// The leader and the journal do not hear each other, or one does not hear the other.
    LeaderCutFromJournal,
    /// The same with another server.
    FollowerCutFromJournal,
    /// The leader and the other servers.
    LeaderCutFromPeers,
    /// A server and the clients.
    CutFromClients,
    /// The leader is cut off from everything, in both directions.
    LeaderAlone,
    /// The server that leads the journal's stream and the other servers of the journal.
    JournalLeaderCut,
    /// The machine of a server and one of the journal, of which one leads, and everything else.
    MachineCut,
    /// Any two hosts.
    PairCut,
    /// Every tenth packet between servers is lost.
    PacketsLost,
    /// Wires so thin that packets queue for a third of a second, and are lost when the queue is
    /// full.
    ThinWires,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("?", |value| value.get_name()))
    }
}

/// After which everybody must be served again by every server.
const RECOVERY: Duration = Duration::from_secs(30);
/// Longer than an answer takes from a server to its client.
const ON_THE_WAY: Duration = Duration::from_millis(200);

impl Field {
    /// Breaks and heals one thing, and waits until every server serves again.
    pub(super) async fn suffer(&mut self, fault: Fault) -> Result<()> {
        let done = self.work(20).await?;
        let leader = self.members.leader().await?;
        let begun = Instant::now();
        let what = self.break_and_heal(fault, leader).await?;
        let healed = Instant::now();
        self.serves_again(healed).await?;
        let (back, whole) = (healed.elapsed().as_millis(), begun.elapsed().as_secs_f64());
        self.say(format!(
            "  {fault}: after {done} writes {what}; all serve {back} ms after it, {whole:.1}s in all"
        ));
        self.journal.healthy().await
    }

    async fn break_and_heal(&mut self, fault: Fault, leader: Leader) -> Result<String> {
        match fault {
            Fault::LeaderKilled => self.kill_leader(leader).await,
            Fault::FollowerKilled => self.kill_follower(leader).await,
            Fault::LeaderPaused => self.pause_leader(leader).await,
            Fault::FollowerPaused => self.pause_follower(leader).await,
            Fault::JournalFollowerKilled => self.kill_of_journal(false).await,
            Fault::JournalLeaderKilled => self.kill_of_journal(true).await,
            Fault::JournalLeaderPaused => self.pause_of_journal().await,
            Fault::OneOfEachKilled => self.kill_one_of_each(leader).await,
            Fault::QuorumLost => self.lose_quorum(leader).await,
            Fault::RollingRestart => self.restart_all().await,
            Fault::JournalRollingRestart => self.restart_journal().await,
            Fault::AllKilled => self.kill_all().await,
            Fault::LeaderCutFromJournal => self.cut_leader_from_journal(leader).await,
            Fault::FollowerCutFromJournal => self.cut_follower_from_journal(leader).await,
            Fault::LeaderCutFromPeers => self.cut_leader_from_peers(leader).await,
            Fault::CutFromClients => self.cut_from_clients().await,
            Fault::LeaderAlone => self.leave_leader_alone(leader).await,
            Fault::JournalLeaderCut => self.cut_leader_of_journal().await,
            Fault::MachineCut => self.cut_machine(leader).await,
            Fault::PairCut => self.cut_pair().await,
            Fault::PacketsLost => self.lose_packets().await,
            Fault::ThinWires => self.make_thin().await,
        }
    }

    async fn serves_again(&mut self, healed: Instant) -> Result<()> {
        for endpoint in self.members.endpoints() {
            while !self.recorder.serves(&endpoint).await {
                self.members.all_run()?;
                ensure!(
                    healed.elapsed() < RECOVERY,
                    "{endpoint} does not serve {RECOVERY:?} after everything was healed"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        self.members.all_run()
    }

    pub(super) fn follower(&mut self, leader: Leader) -> usize {
        (leader.at + 1 + self.rng.below(2)) % 3
    }

    /// While something is broken, the rest has to go on: five more writes, and how long they took.
    pub(super) async fn goes_on(&mut self, with: &str) -> Result<Duration> {
        let begun = Instant::now();
        // What was on its way to its client before it broke does not count.
        tokio::time::sleep(ON_THE_WAY).await;
        let before = self.recorder.acknowledged();
        self.writes_since(before, 5, &format!("five writes {with}")).await?;
        Ok(begun.elapsed())
    }

    /// Waits until another server acknowledges a write. The load would notice up to a second late:
    /// its requests hang.
    pub(super) async fn failover(&mut self, leader: Leader, since: Duration) -> Result<Duration> {
        let begun = Instant::now();
        let endpoints = self.members.endpoints();
        let mut looks = 0;
        loop {
            if looks % 10 == 0 {
                self.recorder.probe(&endpoints[(leader.at + 1 + looks / 10 % 2) % 3]);
            }
            looks += 1;
            if let Some(at) = self.recorder.first_write_by_another(leader.member, since) {
                return Ok(at - since);
            }
            self.members.all_run()?;
            ensure!(
                begun.elapsed() < LIMIT,
                "waited {LIMIT:?} for another server to write instead of server {} of epoch {}",
                leader.at,
                leader.epoch
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
