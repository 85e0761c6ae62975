//! The shutdown trial: SIGTERM under load. What was acknowledged is there afterwards, what was in flight finished or
//! failed with a status, the watch ended as etcd's does, and so did the process.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use tonic::Code;

use crate::client::Client;
use crate::judge::judge;
use crate::load::Load;
use crate::server::{Kind, Server};

/// Stop the server politely under load and judge what it remembers.
#[derive(Args, Debug)]
pub(crate) struct Shutdown {
    #[arg(long, default_value = "vetch")]
    server: Kind,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

impl Shutdown {
    pub(crate) async fn run(&self) -> Result<()> {
        println!("shutdown: {} rounds of SIGTERM on {}", self.rounds, self.server.name());
        for round in 1..=self.rounds {
            let mut server = Server::start(self.server)?;
            let load = Load::start(&server.endpoint(), 8, 40, round as u64);
            tokio::time::sleep(Duration::from_millis(700)).await;
            let writes = load.acknowledged();
            ensure!(writes > 0, "nothing was written before the signal");
            let begun = Instant::now();
            let status = server.terminate()?;
            let took = begun.elapsed();
            server.run()?;
            tokio::time::sleep(Duration::from_millis(200)).await;
            let history = load.finish().await?;
            let client = Client::connect(&server.endpoint()).await?;
            let verdict = judge(&history, &client, 2).await?;
            println!(
                "  round {round}: {writes} writes, ended in {} ms with {status}; {verdict}",
                took.as_millis()
            );
            println!(
                "    watch ended with {:?}; requests failed with {:?}",
                history.watch_ends, history.failures
            );
            check_end(status, took)?;
            for (code, message) in &history.watch_ends {
                ensure!(ended_cleanly(*code), "the watch ended with {code:?} {message:?}");
            }
        }
        println!("shutdown: nothing acknowledged was lost");
        Ok(())
    }
}

/// etcd hands the signal on to itself once it has cleaned up, so the process ends by SIGTERM.
fn check_end(status: ExitStatus, took: Duration) -> Result<()> {
    let by_signal = status.signal() == Some(15) || status.code() == Some(143);
    ensure!(by_signal, "the process ended with {status}, where etcd's ends by SIGTERM");
    ensure!(took < Duration::from_secs(10), "it took {took:?} to stop");
    Ok(())
}

/// A client resumes its watch on these codes and gives up on others; an error of the connection counts as Unavailable
/// or Unknown in this client library.
fn ended_cleanly(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Ok)
}
