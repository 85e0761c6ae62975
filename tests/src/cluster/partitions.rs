//! Faults of the network: hosts that do not hear each other, or of which only one hears the other;
//! lost and late packets.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::Field;
use super::network::{Host, JOURNAL, SERVERS};
use crate::replicas::members::Leader;

/// How long what is only slow or lossy stays so.
const BAD_WEATHER: Duration = Duration::from_secs(5);

impl Field {
    /// Cuts the wires between two groups: both ways, or one of them. Says which.
    fn sever(&mut self, some: &[Host], others: &[Host]) -> Result<String> {
        let how = match self.rng.below(4) {
            0 | 1 => {
                self.network.part(some, others)?;
                "do not hear each other"
            }
            2 => {
                self.network.cut(some, others)?;
                "do not hear the former"
            }
            _ => {
                self.network.cut(others, some)?;
                "are not heard by the former"
            }
        };
        Ok(format!("{some:?} and {others:?} {how}").replace("the former", &format!("{some:?}")))
    }

    pub(super) async fn cut_leader_from_journal(&mut self, leader: Leader) -> Result<String> {
        let since = self.recorder.now();
        let what = self.sever(&[Host::Server(leader.at)], &JOURNAL)?;
        let took = self.failover(leader, since).await?;
        self.times.failovers.push(took);
        self.rest(0, 3_000).await;
        self.network.heal()?;
        Ok(format!("{what}, another one wrote after {} ms", took.as_millis()))
    }

    pub(super) async fn cut_follower_from_journal(&mut self, leader: Leader) -> Result<String> {
        let follower = self.follower(leader);
        let what = self.sever(&[Host::Server(follower)], &JOURNAL)?;
        self.stays_cut(&what, 1_000, 6_000).await
    }

    pub(super) async fn cut_leader_from_peers(&mut self, leader: Leader) -> Result<String> {
        let peers: Vec<Host> = SERVERS.into_iter().filter(|host| *host != Host::Server(leader.at)).collect();
        let what = self.sever(&[Host::Server(leader.at)], &peers)?;
        let told = self.stays_cut(&what, 1_000, 6_000).await?;
        // The journal hears the leader, and the others hear the journal: there is nothing to take
        // over.
        let now = self.members.leader().await?;
        ensure!(now.epoch == leader.epoch, "{what}, and epoch {} became {}", leader.epoch, now.epoch);
        Ok(told)
    }

    pub(super) async fn cut_from_clients(&mut self) -> Result<String> {
        let server = Host::Server(self.rng.below(3));
        let what = self.sever(&[server], &[Host::Clients])?;
        self.stays_cut(&what, 1_000, 4_000).await
    }

    pub(super) async fn leave_leader_alone(&mut self, leader: Leader) -> Result<String> {
        let alone = Host::Server(leader.at);
        let others = everybody().into_iter().filter(|host| *host != alone).collect::<Vec<_>>();
        let since = self.recorder.now();
        self.network.part(&[alone], &others)?;
        let took = self.failover(leader, since).await?;
        self.times.failovers.push(took);
        self.rest(0, 3_000).await;
        self.network.heal()?;
        Ok(format!("server {} was alone, another one wrote after {} ms", leader.at, took.as_millis()))
    }

    pub(super) async fn cut_leader_of_journal(&mut self) -> Result<String> {
        let leader = Host::Journal(self.journal.stream_leader().await?);
        let others: Vec<Host> = JOURNAL.into_iter().filter(|host| *host != leader).collect();
        let what = self.sever(&[leader], &others)?;
        self.stays_cut(&what, 3_000, 8_000).await
    }

    /// A machine that carries a server and one of the journal, and is lost to everybody with both.
    pub(super) async fn cut_machine(&mut self, leader: Leader) -> Result<String> {
        let stream_leader = self.journal.stream_leader().await?;
        let (server, journal) = match self.rng.below(3) {
            0 => (leader.at, stream_leader),
            1 => (leader.at, (stream_leader + 1) % 3),
            _ => (self.follower(leader), stream_leader),
        };
        let machine = [Host::Server(server), Host::Journal(journal)];
        let others = everybody().into_iter().filter(|host| !machine.contains(host)).collect::<Vec<_>>();
        let since = self.recorder.now();
        self.network.part(&machine, &others)?;
        let what = format!("server {server} and the journal's {journal} were cut off");
        let what = match server == leader.at {
            false => format!("{what}, of which the latter led"),
            true => {
                let took = self.failover(leader, since).await?;
                let times = match journal == stream_leader {
                    true => &mut self.times.with_journal,
                    false => &mut self.times.failovers,
                };
                times.push(took);
                format!("{what}, another one wrote after {} ms", took.as_millis())
            }
        };
        self.stays_cut(&what, 0, 2_000).await
    }

    pub(super) async fn cut_pair(&mut self) -> Result<String> {
        let all: Vec<Host> = JOURNAL.into_iter().chain(SERVERS).collect();
        let first = self.rng.below(all.len());
        let second = (first + 1 + self.rng.below(all.len() - 1)) % all.len();
        let what = self.sever(&[all[first]], &[all[second]])?;
        self.stays_cut(&what, 1_000, 6_000).await
    }

    pub(super) async fn lose_packets(&mut self) -> Result<String> {
        self.network.lose_packets()?;
        tokio::time::sleep(BAD_WEATHER).await;
        self.stays_cut("every tenth packet was lost", 0, 0).await
    }

    pub(super) async fn make_thin(&mut self) -> Result<String> {
        for host in JOURNAL.into_iter().chain(SERVERS) {
            self.network.make_thin(host)?;
        }
        tokio::time::sleep(BAD_WEATHER).await;
        self.stays_cut("packets had to queue", 0, 0).await
    }

    /// The rest must go on meanwhile. Heals the network in the end.
    async fn stays_cut(&mut self, what: &str, low: i64, high: i64) -> Result<String> {
        let took = self.goes_on(&format!("while {what}")).await?;
        self.rest(low, high).await;
        self.network.heal()?;
        Ok(format!("{what}, five more writes took {} ms", took.as_millis()))
    }
}

fn everybody() -> Vec<Host> {
    [Host::Clients].into_iter().chain(JOURNAL).chain(SERVERS).collect()
}
