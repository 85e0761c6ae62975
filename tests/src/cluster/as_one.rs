//! What makes several servers one etcd, asked of them under load while all is well.
//!
//! Whatever is written here is the recorder's: it judges every revision.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tonic::Code;
use vetch_api::pb;
use vetch_api::pb::request_op::Request as Op;

use super::{Field, LIMIT};
use crate::client::Client;
use crate::replicas::members::{self, Leader};

/// Reads of every server, one after another.
const ROUNDS: usize = 50;
/// Leadership transfers that are timed.
const MOVES: usize = 6;

impl Field {
    /// Members, and who of them leads.
    pub(super) async fn behaves_as_one(&mut self) -> Result<()> {
        self.members_are_known().await?;
        self.leader_moves().await?;
        self.a_taken_name_is_refused().await?;
        self.who_is_gone_can_be_removed_and_replaced().await
    }

    /// A linearizable read is answered by the server that is asked, which its header shows, and no
    /// server is behind what another one has shown before.
    pub(super) async fn reads_are_answered_where_they_are_asked(&self) -> Result<()> {
        let mut clients = Vec::new();
        for endpoint in self.members.endpoints() {
            let client = Client::connect(&endpoint).await?;
            let status = client.maintenance.clone().status(pb::StatusRequest {}).await?.into_inner();
            clients.push((endpoint, client, status.header.context("a status without a header")?.member_id));
        }
        let mut newest = 0;
        for (endpoint, client, member) in clients.iter().cycle().take(ROUNDS * clients.len()) {
            let range = pb::RangeRequest { key: b"/".to_vec().into(), ..Default::default() };
            let read = client.kv.clone().range(range.clone()).await?.into_inner().header;
            let op = pb::RequestOp { request: Some(Op::RequestRange(range)) };
            let txn = pb::TxnRequest { success: vec![op], ..Default::default() };
            let txn = client.kv.clone().txn(txn).await?.into_inner().header;
            for header in [read, txn] {
                let header = header.context("an answer without a header")?;
                let by = header.member_id;
                ensure!(by == *member, "a read at {endpoint} was answered by member {by:x}, not {member:x}");
                let seen = header.revision;
                ensure!(
                    seen >= newest,
                    "{endpoint} answers from revision {seen}, and {newest} had been shown"
                );
                newest = seen;
            }
        }
        println!("  every server answers linearizable reads by itself, none is behind another");
        Ok(())
    }

    async fn members_are_known(&self) -> Result<()> {
        let endpoints = self.members.endpoints();
        let mut wanted: Vec<(String, String)> =
            endpoints.iter().enumerate().map(|(at, url)| (format!("server-{at}"), url.clone())).collect();
        wanted.sort();
        for endpoint in &endpoints {
            self.lists(endpoint, &wanted).await?;
        }
        println!("  every server lists all three as members");
        Ok(())
    }

    /// Waits until a server lists these members, by name and address.
    async fn lists(&self, endpoint: &str, wanted: &[(String, String)]) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut listed: Vec<(String, String)> = member_list(endpoint)
                .await?
                .into_iter()
                .map(|member| (member.name, member.client_ur_ls.first().cloned().unwrap_or_default()))
                .collect();
            listed.sort();
            if listed == wanted {
                return Ok(());
            }
            ensure!(begun.elapsed() < LIMIT, "{endpoint} lists {listed:?} as members, not {wanted:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The leader transfers its leadership to each of the others; no other server can transfer it.
    async fn leader_moves(&mut self) -> Result<()> {
        let mut took = Vec::new();
        for _ in 0..MOVES {
            let leader = self.members.leader().await?;
            let (from, to) = (leader.at, self.follower(leader));
            let target = self.member_at(to).await?;
            let refused = self.move_leader(to, target).await.err().context("a follower moved the leader")?;
            ensure!(refused.code() == Code::FailedPrecondition, "{refused:?}");
            ensure!(refused.message() == "etcdserver: not leader", "{refused:?}");
            let since = self.recorder.now();
            self.move_leader(from, target).await.context("moving the leader")?;
            took.push(self.next_write(leader, since).await?);
            let now = self.members.leader().await?;
            ensure!(now.member == target, "{now:?} writes, not member {target:x} at {to}");
        }
        let leader = self.members.leader().await?;
        let unknown =
            self.move_leader(leader.at, 1).await.err().context("an unknown member became the leader")?;
        ensure!(unknown.message() == "etcdserver: bad leader transferee", "{unknown:?}");
        took.sort_unstable();
        println!("  the leader moved {MOVES} times, another one wrote after {took:?} ms");
        ensure!(took[took.len() / 2] < 1000, "a leadership transfer takes as long as an election timeout");
        Ok(())
    }

    /// Milliseconds until another server than the leader acknowledged a write.
    async fn next_write(&self, leader: Leader, since: Duration) -> Result<u128> {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.recorder.first_write_by_another(leader.member, since) {
                return Ok((at - since).as_millis());
            }
            ensure!(begun.elapsed() < LIMIT, "no server leads after the leader was moved");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn member_at(&self, at: usize) -> Result<u64> {
        let client = Client::connect(&self.members.servers[at].endpoint()).await?;
        let status = client.maintenance.clone().status(pb::StatusRequest {}).await?.into_inner();
        Ok(status.header.context("a status without a header")?.member_id)
    }

    async fn move_leader(&self, at: usize, target_id: u64) -> Result<(), tonic::Status> {
        let client = Client::connect(&self.members.servers[at].endpoint()).await;
        let client = client.map_err(|error| tonic::Status::internal(error.to_string()))?;
        client.maintenance.clone().move_leader(pb::MoveLeaderRequest { target_id }).await.map(drop)
    }

    async fn a_taken_name_is_refused(&self) -> Result<()> {
        let mut second = members::start_one("server-1", &self.journal.flags(), &[])?;
        let exit =
            tokio::task::block_in_place(|| second.wait_exit(LIMIT)).context("a second server-1 goes on")?;
        let log = second.log_of_this_life()?;
        ensure!(!exit.success() && log.contains("choose another --name"), "it ended with {exit}:\n{log}");
        println!("  a second server of a name is refused");
        Ok(())
    }

    async fn who_is_gone_can_be_removed_and_replaced(&self) -> Result<()> {
        let endpoint = self.members.endpoints().remove(0);
        let id = async |name: &str| {
            let members = member_list(&endpoint).await?;
            anyhow::Ok(members.iter().find(|member| member.name == name).map(|member| member.id))
        };
        let mut fourth = members::start_one("server-3", &self.journal.flags(), &[])?;
        let first = wait_for(async || id("server-3").await).await.context("a fourth server is not listed")?;
        fourth.kill()?;
        let mut replacement = members::start_one("server-3", &self.journal.flags(), &[])?;
        let begun = Instant::now();
        let second = wait_for(async || Ok(id("server-3").await?.filter(|now| *now != first)))
            .await
            .context("an empty machine does not replace one of its name that is gone")?;
        let took = begun.elapsed().as_secs();
        let client = Client::connect(&endpoint).await?;
        let remove = pb::MemberRemoveRequest { id: second };
        let left = client.cluster.clone().member_remove(remove).await.context("removing a member")?;
        ensure!(left.into_inner().members.len() == 3, "the member is still there");
        let again = client.cluster.clone().member_remove(remove).await.err().context("removed twice")?;
        ensure!(again.message() == "etcdserver: member not found", "{again:?}");
        // One was removed while it lived, the other one was replaced and comes back: neither gets
        // in any more.
        fourth.spawn_under(&[])?;
        for server in [&mut replacement, &mut fourth] {
            let exit = tokio::task::block_in_place(|| server.wait_exit(LIMIT)).context("it goes on")?;
            let log = server.log_of_this_life()?;
            ensure!(!exit.success() && log.contains("was removed from the cluster"), "{exit}:\n{log}");
        }
        println!(
            "  a server that was gone was replaced by another one of its name after {took} s; removed ones stop"
        );
        Ok(())
    }
}

async fn wait_for<T>(mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        ensure!(begun.elapsed() < LIMIT, "waited {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn member_list(endpoint: &str) -> Result<Vec<pb::Member>> {
    let client = Client::connect(endpoint).await?;
    let request = pb::MemberListRequest { linearizable: true };
    Ok(client.cluster.clone().member_list(request).await?.into_inner().members)
}
