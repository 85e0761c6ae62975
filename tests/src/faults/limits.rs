//! Faults of supply: no descriptors, no space.

use std::net::TcpStream;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tonic::Code;
use vetch_api::pb;

use super::{Case, Faults, rest};
use crate::client::Client;
use crate::fault_trial::FaultTrial;
use crate::mount::Mount;
use crate::record::Plan;
use crate::server::{Options, Server};

/// Connections beyond the limit wait, requests over the others go on. Then not even a file can be
/// opened for a while.
pub(super) async fn descriptors(faults: &Faults, rounds: usize) -> Result<()> {
    let mut trial = faults.trial(Case::Descriptors, Plan::new(faults.seed)).await?;
    let result = async {
        for round in 1..=rounds {
            trial.server.kill()?;
            trial.server.run_under(&["prlimit", "--nofile=230:"].map(str::to_owned))?;
            trial.work(300, 500, 20).await?;
            let crowd: Vec<TcpStream> = (0..300).map_while(|_| connect(&trial.server)).collect();
            let during = trial.work(1_000, 1_500, 0).await?;
            println!("  round {round}: {during} writes beside {} idle connections", crowd.len());
            drop(crowd);
            trial.work(300, 400, 20).await?;
            limit(&trial.server, 8)?;
            let during = trial.work(2_000, 3_000, 0).await?;
            limit(&trial.server, 1_024)?;
            println!("  round {round}: {during} writes without a descriptor to spare");
            trial.work(300, 400, 20).await?;
        }
        Ok(())
    };
    let result = result.await;
    trial.conclude(result).await.passed().map(drop)
}

fn connect(server: &Server) -> Option<TcpStream> {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], server.port));
    TcpStream::connect_timeout(&address, std::time::Duration::from_millis(200)).ok()
}

/// Changes the limit of the running process.
fn limit(server: &Server, files: u32) -> Result<()> {
    let pid = server.pid()?.to_string();
    let arguments = ["--pid", &pid, &format!("--nofile={files}:")];
    let output = Command::new("prlimit").args(arguments).output().context("prlimit is missing")?;
    ensure!(output.status.success(), "prlimit failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";

/// The disk fills up under load: writes are refused in etcd's words, reads and deletes go on, a
/// restart changes nothing, and when there is room again writes are accepted without anybody's
/// help.
pub(super) async fn disk_full(faults: &Faults, rounds: usize) -> Result<()> {
    let mount = Mount::tmpfs(400)?;
    let mut plan = Plan::new(faults.seed);
    (plan.large_percent, plan.large_bytes) = (30, 100_000);
    // Nothing is given back meanwhile, or the disk would never fill up.
    plan.compact_every = None;
    plan.keys = 200;
    let options = Options { flags: faults.flags.clone(), data_dir: Some(mount.path().join("data")) };
    let name = Case::DiskFull.to_string();
    let mut trial = FaultTrial::start(&name, faults.server, options, plan).await?;
    let result = async {
        for round in 1..=rounds {
            trial.work(500, 900, 20).await?;
            let ballast = mount.fill(12)?;
            let waited = refused(&mut trial).await?;
            check_full(&mut trial).await?;
            if round % 2 == 1 {
                trial.server.kill()?;
                trial.server.run()?;
                refused(&mut trial).await?;
                check_full(&mut trial).await?;
            }
            std::fs::remove_file(&ballast)?;
            let done = trial.work(500, 900, 20).await?;
            println!(
                "  round {round}: refused after {waited} ms, and {done} writes once there was room again"
            );
        }
        Ok(())
    };
    let result = result.await;
    trial.conclude(result).await.passed().map(drop)
}

/// Waits until the server says that it is full, in etcd's words. Answers how many milliseconds that
/// took.
async fn refused(trial: &mut FaultTrial) -> Result<i64> {
    const PACE: i64 = 50;
    let client = Client::connect(&trial.server.endpoint()).await?;
    for tries in 0..600 {
        // Empty and in an empty key's place, this put changes nothing even when it is not refused
        // for lack of space.
        let request = pb::PutRequest { key: "/none".into(), ignore_lease: true, ..Default::default() };
        match client.kv.clone().put(request).await {
            Err(status) if status.message() == NO_SPACE => {
                ensure!(status.code() == Code::ResourceExhausted, "the code is {:?}", status.code());
                return Ok(tries * PACE);
            }
            _ => ensure!(trial.server.alive(), "the server has ended:\n{}", trial.server.log_tail()?),
        }
        rest(PACE).await;
    }
    bail!("the disk was never full")
}

/// Full: reads and deletes work, and the alarm is raised.
async fn check_full(trial: &mut FaultTrial) -> Result<()> {
    let client = Client::connect(&trial.server.endpoint()).await?;
    let alarms = client.maintenance.clone().alarm(pb::AlarmRequest::default()).await?.into_inner().alarms;
    ensure!(alarms.iter().any(|alarm| alarm.alarm == 1), "no NOSPACE alarm is raised: {alarms:?}");
    client.revision().await.context("reading on a full disk")?;
    trial.recorder.delete_something().await.context("deleting on a full disk")?;
    ensure!(trial.server.alive(), "the server has ended");
    Ok(())
}
