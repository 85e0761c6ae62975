//! A journal that begins with what a server has: one that stood alone becomes a cluster, and a
//! cluster whose journal is lost goes on with another.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use vetch_api::pb;

use super::{Cluster, churn};
use crate::client::Client;
use crate::replicas::members::{self, Members};
use crate::replicas::nats::Journal;
use crate::server::{Kind, Options, Server};

/// The stream of the journal that takes the place of the one that is lost.
const NEXT: &str = "next";

pub(super) async fn run() -> Result<()> {
    let journal = Journal::start().await?;
    let mut cluster = Cluster { journal, members: Members::none() };
    let outcome = play(&mut cluster).await;
    cluster.judge(outcome).await
}

async fn play(cluster: &mut Cluster) -> Result<()> {
    let (directory, revision) = stand_alone().await?;
    let flags = cluster.journal.flags();
    println!("  {}", refill(directory.path(), &flags)?);
    begin(cluster, directory.path(), &flags).await?;
    let client = Client::connect(&cluster.members.servers[1].endpoint()).await?;
    let found = client.revision().await?;
    ensure!(found == revision, "the cluster begins with revision {found}, the server had {revision}");
    has_all(&client, "alone/0").await?;
    churn(&cluster.members.servers[2].endpoint(), 1000, 5).await?;
    let revision = cluster.all_have_the_same().await?;
    println!("  a server that stood alone is a cluster of three, now at revision {revision}");
    // The stream is gone for good, with what came behind the checkpoints; the server that has the
    // most goes on.
    lose(cluster, revision).await
}

/// A server of its own, ended, with a journal behind its checkpoint.
async fn stand_alone() -> Result<(tempfile::TempDir, i64)> {
    let directory = tempfile::Builder::new().prefix("vetch-alone-").tempdir()?;
    let data_dir = Some(directory.path().to_path_buf());
    let mut server = Server::start_with(Kind::Vetch, Options { flags: Vec::new(), data_dir })?;
    let client = Client::connect(&server.endpoint()).await?;
    for at in 0..500 {
        let put =
            pb::PutRequest { key: format!("alone/{at}").into(), value: "v".into(), ..Default::default() };
        client.kv.clone().put(put).await?;
    }
    let revision = client.revision().await?;
    server.kill()?;
    Ok((directory, revision))
}

/// `vetch journal refill`, and what it says.
fn refill(data_dir: &Path, journal: &[String]) -> Result<String> {
    let mut command = Command::new(Kind::Vetch.binary()?);
    command.args(["journal", "refill", "--data-dir"]).arg(data_dir).args(journal);
    let done = command.output().with_context(|| format!("running {command:?}"))?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    ensure!(done.status.success(), "{command:?}: {said}");
    Ok(said)
}

/// A first server on this directory, and two with nothing.
async fn begin(cluster: &mut Cluster, directory: &Path, journal: &[String]) -> Result<()> {
    cluster.members = Members::none();
    let flags = members::loopback_flags("server-0", &[journal])?;
    let data_dir = Some(directory.to_path_buf());
    cluster.members.servers.push(Server::start_with(Kind::Vetch, Options { flags, data_dir })?);
    for at in 1..3 {
        cluster.members.add(journal, &[])?;
        let log = cluster.members.servers[at].log_of_this_life()?;
        ensure!(log.contains("fetching a checkpoint from another server"), "it took no checkpoint:\n{log}");
    }
    cluster.members.leader().await.map(drop)
}

async fn has_all(client: &Client, key: &str) -> Result<()> {
    let get = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
    ensure!(client.kv.clone().range(get).await?.into_inner().count == 1, "{key} is not there");
    Ok(())
}

/// All servers are stopped, and their journal is thought lost: another stream begins with the
/// directory of one of them.
async fn lose(cluster: &mut Cluster, revision: i64) -> Result<()> {
    let directory = cluster.members.servers[0].data_dir.clone();
    let copy = tempfile::Builder::new().prefix("vetch-lost-").tempdir()?;
    for server in &mut cluster.members.servers {
        server.terminate()?;
    }
    copy_all(&directory, copy.path())?;
    let mut flags = cluster.journal.flags();
    flags.retain(|flag| !flag.starts_with("--journal-stream"));
    flags.push(format!("--journal-stream={NEXT}"));
    println!("  {}", refill(copy.path(), &flags)?);
    begin(cluster, copy.path(), &flags).await?;
    let client = Client::connect(&cluster.members.servers[1].endpoint()).await?;
    let found = client.revision().await?;
    ensure!(found <= revision, "revision {found} was never there");
    has_all(&client, "alone/0").await?;
    churn(&cluster.members.servers[2].endpoint(), 1000, 3).await?;
    let now = cluster.all_have_the_same().await?;
    println!("  another stream went on behind revision {found} of {revision}, now at {now}");
    cluster.members.all_run()
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from)? {
        let (path, target) =
            (entry.as_ref().map(std::fs::DirEntry::path), entry.as_ref().map(|e| to.join(e.file_name())));
        let (Ok(path), Ok(target)) = (path, target) else { continue };
        if path.is_dir() {
            std::fs::create_dir_all(&target)?;
            copy_all(&path, &target)?;
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
