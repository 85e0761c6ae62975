//! The auth trial: several users, good and bad tokens, and every RPC that asks who they are, on two
//! servers.
//!
//! Each sequence has a seed and two fresh servers. Users, roles and permissions change at random
//! between reads and writes of keys, leases, watches and administration, all by users who may and
//! users who may not; codes, texts and answers must be the same. Every few hundred steps the
//! servers are killed without warning and started again, and what was answered must still hold.

mod generate;
mod request;
mod send;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
pub(crate) use generate::Generator;
pub(crate) use request::{Ask, Request};
pub(crate) use send::Side;

use crate::server::{Kind, Options, Server};
use vetch_testkit::random::Rng;

/// Compare two servers on users, roles and permissions.
#[derive(Args, Debug, Clone)]
pub(crate) struct Auth {
    #[arg(long, default_value = "etcd")]
    left: Kind,
    #[arg(long, default_value = "vetch")]
    right: Kind,
    /// Requests in all, spread evenly over the seeds.
    #[arg(long, default_value_t = 6_000)]
    requests: usize,
    /// Seeds to run; none means the fixed ones.
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Print every request.
    #[arg(long)]
    verbose: bool,
}

const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// Steps between two kills.
const LIFE: usize = 500;

impl Auth {
    pub(crate) async fn run(&self) -> Result<()> {
        let seeds = if self.seeds.is_empty() { SEEDS.to_vec() } else { self.seeds.clone() };
        let steps = self.requests.div_ceil(seeds.len());
        println!(
            "auth: {} and {}, {} sequences of {steps}",
            self.left.name(),
            self.right.name(),
            seeds.len()
        );
        let begun = Instant::now();
        let mut outcomes = BTreeMap::new();
        for seed in seeds {
            self.sequence(seed, steps, &mut outcomes).await?;
            println!("  seed {seed}: {steps} requests agree ({:.1}s)", begun.elapsed().as_secs_f64());
        }
        println!("  by outcome: {outcomes:?}");
        println!("auth: all agree; {:.1}s", begun.elapsed().as_secs_f64());
        Ok(())
    }

    async fn sequence(&self, seed: u64, steps: usize, outcomes: &mut BTreeMap<String, usize>) -> Result<()> {
        let mut left = Life::start(self.left).await?;
        let mut right = Life::start(self.right).await?;
        let mut generator = Generator::default();
        for step in 0..steps {
            if step % LIFE == LIFE - 1 {
                left.kill_and_restart().await?;
                right.kill_and_restart().await?;
            }
            let request = generator.request(&mut Rng::for_step(seed, step));
            if self.verbose {
                println!("{step}: {request:?}");
            }
            let (ours, theirs) = tokio::join!(left.side.send(&request), right.side.send(&request));
            if ours != theirs {
                println!("DIFFERENCE at step {step} of seed {seed}: {request:#?}");
                println!("--- {}\n{ours}\n--- {}\n{theirs}", self.left.name(), self.right.name());
                println!("again: vetch-tests auth --seeds {seed} --requests {steps} --verbose");
                bail!("the servers differ");
            }
            generator.learn(&request, &ours);
            *outcomes.entry(summary(&ours)).or_default() += 1;
        }
        Ok(())
    }
}

/// The code of a refusal, or that there was none.
fn summary(outcome: &str) -> String {
    let refusal = outcome.strip_prefix("refused: ").and_then(|rest| rest.split_once(' '));
    refusal.map_or("answered".to_owned(), |(_, text)| text.to_owned())
}

/// A server and the connection to it.
struct Life {
    server: Server,
    side: Side,
}

impl Life {
    async fn start(kind: Kind) -> Result<Life> {
        // Cheap hashes: the passwords of a test are not attacked.
        let flags = vec!["--bcrypt-cost=4".to_owned()];
        let server = Server::start_with(kind, Options { flags, data_dir: None })?;
        let side = Side::connect(&server.endpoint()).await?;
        Ok(Life { server, side })
    }

    async fn kill_and_restart(&mut self) -> Result<()> {
        self.server.kill()?;
        self.server.run()?;
        // Without tokens: etcd still knows those whose logins it finds in its log, Vetch knows
        // none.
        self.side = Side::connect(&self.server.endpoint()).await?;
        Ok(())
    }
}
