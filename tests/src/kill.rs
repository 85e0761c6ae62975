//! The kill trial: the server dies without warning, again and again, under load, and nothing it ever said is lost.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use vetch_api::pb;

use crate::chance::Chance;
use crate::client::Client;
use crate::judge::judge;
use crate::load::Load;
use crate::server::{Kind, Options, Server};

/// Kill the server under load, restart it on its directory, and judge what it remembers.
#[derive(Args, Debug)]
pub(crate) struct Kill {
    #[arg(long, default_value = "vetch")]
    server: Kind,
    #[arg(long, env = "VETCH_KILL_ROUNDS", default_value_t = 20)]
    rounds: usize,
    #[arg(long, default_value_t = 8)]
    writers: usize,
    #[arg(long, default_value_t = 40)]
    keys: usize,
    /// Decides when the server dies and what is written; a run is never quite the same twice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further flags for the server.
    #[arg(last = true)]
    flags: Vec<String>,
}

impl Kill {
    pub(crate) async fn run(&self) -> Result<()> {
        println!(
            "kill: {} rounds of kill -9 on {}, {} writers",
            self.rounds,
            self.server.name(),
            self.writers
        );
        let begun = Instant::now();
        let mut chance = Chance::new(self.seed);
        let options = Options { flags: self.flags.clone(), data_dir: None };
        let mut server = Server::start_with(self.server, options)?;
        let lease = grant(&server).await?;
        let load = Load::start(&server.endpoint(), self.writers, self.keys, self.seed);
        let mut compacted = 0;
        for round in 1..=self.rounds {
            let before = load.acknowledged();
            tokio::time::sleep(Duration::from_millis(chance.between(200, 900) as u64)).await;
            let done = load.acknowledged() - before;
            ensure!(done > 0, "round {round}: nothing was acknowledged, so there was nothing to lose");
            server.kill()?;
            let start = server.run()?;
            println!("  round {round}: killed after {done} writes, back in {} ms", start.as_millis());
            if round % 4 == 0 {
                compacted = compact(&server, load.watched() - 200, compacted).await?;
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let history = load.finish().await?;
        let client = Client::connect(&server.endpoint()).await?;
        let verdict = judge(&history, &client, compacted.max(2)).await?;
        check_lease(&client, lease).await?;
        println!("  {verdict}");
        println!("kill: nothing lost, repeated or skipped; {:.1}s", begun.elapsed().as_secs_f64());
        Ok(())
    }
}

const LEASE_TTL: i64 = 1_000;

async fn grant(server: &Server) -> Result<i64> {
    let client = Client::connect(&server.endpoint()).await?;
    let request = pb::LeaseGrantRequest { ttl: LEASE_TTL, id: 0 };
    Ok(client.lease.clone().lease_grant(request).await?.into_inner().id)
}

/// The lease has outlived every crash with nearly all of its time, and never with more than it was given.
async fn check_lease(client: &Client, id: i64) -> Result<()> {
    let request = pb::LeaseTimeToLiveRequest { id, keys: false };
    let left = client.lease.clone().lease_time_to_live(request).await?.into_inner();
    ensure!(left.granted_ttl == LEASE_TTL, "the lease was granted {LEASE_TTL} and is now {left:?}");
    ensure!((LEASE_TTL - 600..=LEASE_TTL + 5).contains(&left.ttl), "the lease's time is wrong: {left:?}");
    Ok(())
}

/// Compacts behind the watcher, which must still be able to resume.
async fn compact(server: &Server, revision: i64, compacted: i64) -> Result<i64> {
    if revision <= compacted.max(2) {
        return Ok(compacted);
    }
    let client = Client::connect(&server.endpoint()).await?;
    client.kv.clone().compact(pb::CompactionRequest { revision, physical: false }).await?;
    Ok(revision)
}
