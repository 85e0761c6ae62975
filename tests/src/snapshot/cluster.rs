//! A cluster of three etcds that is killed at once, and a member whose database is far behind its
//! log.
//!
//! Any majority of the members' directories holds every acknowledged write. One member alone may
//! not know what was committed, and its directory is then refused, unless the operator accepts the
//! loss.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use vetch_api::pb;

use super::image::{Image, list};
use super::killed::requests_from_log;
use super::tools;
use crate::client::Client;
use crate::server::{Kind, Options, Server, free_port};

const MEMBERS: usize = 3;
const WRITERS: usize = 6;

/// Kills all members under load and looks for what was acknowledged in every pair of them.
pub(super) async fn killed_at_once() -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("vetch-cluster-").tempdir()?;
    let dirs: Vec<PathBuf> = (0..MEMBERS).map(|n| scratch.path().join(format!("member-{n}"))).collect();
    let mut members = start(&dirs)?;
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let client = Client::connect(&members[number % MEMBERS].endpoint()).await?;
        writers.spawn(write(client, number));
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for member in &mut members {
        member.kill()?;
    }
    let mut acknowledged = Vec::new();
    while let Some(keys) = writers.join_next().await {
        acknowledged.append(&mut keys?);
    }
    ensure!(!acknowledged.is_empty(), "no write was acknowledged");
    let mut from_log = 0;
    for (one, other) in [(0, 1), (1, 2), (2, 0)] {
        let target = scratch.path().join(format!("vetch-{one}-{other}"));
        let said = tools::vetch_restore(&dirs[one], &target, &["--other-member", tools::text(&dirs[other])])?;
        from_log += requests_from_log(&said.stderr);
        let found = keys_of(&target).await?;
        let lost = acknowledged.iter().filter(|key| found.binary_search(key).is_err()).count();
        ensure!(
            lost == 0,
            "members {one} and {other}: {lost} of {} acknowledged writes are lost",
            acknowledged.len()
        );
    }
    println!(
        "cluster: three etcds killed at once: {} acknowledged writes are in each majority, {from_log} requests from logs",
        acknowledged.len()
    );
    alone(scratch.path(), &dirs).await?;
    let twice = tools::vetch_refuses(
        &dirs[0],
        &scratch.path().join("twice"),
        &["--other-member", tools::text(&dirs[0])],
    )?;
    ensure!(twice.contains("different members"), "{twice}");
    Ok(())
}

/// Starts all members; none is ready before most are.
fn start(dirs: &[PathBuf]) -> Result<Vec<Server>> {
    let mut ports = Vec::new();
    for _ in dirs {
        ports.push(free_port()?);
    }
    let url = |n: usize| format!("http://127.0.0.1:{}", ports[n]);
    let cluster: Vec<String> = (0..dirs.len()).map(|n| format!("member-{n}={}", url(n))).collect();
    let options = |n: usize| {
        // The databases lag behind the logs as far as possible.
        let flags = vec![
            format!("--name=member-{n}"),
            format!("--listen-peer-urls={}", url(n)),
            format!("--initial-advertise-peer-urls={}", url(n)),
            format!("--initial-cluster={}", cluster.join(",")),
            "--backend-batch-interval=1h".to_owned(),
            "--backend-batch-limit=1000000".to_owned(),
        ];
        Options { flags, data_dir: Some(dirs[n].clone()) }
    };
    std::thread::scope(|scope| {
        let starting: Vec<_> = (0..dirs.len())
            .map(|n| {
                let options = options(n);
                scope.spawn(move || Server::start_with(Kind::Etcd, options))
            })
            .collect();
        starting.into_iter().map(|thread| thread.join().ok().context("a start failed")?).collect()
    })
}

/// Writes keys of its own until the server is gone; returns the acknowledged ones.
async fn write(client: Client, number: usize) -> Vec<Vec<u8>> {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        let key = format!("writer/{number}/{n:06}").into_bytes();
        let request = pb::PutRequest { key: key.clone().into(), value: "v".into(), ..Default::default() };
        if client.kv.clone().put(request).await.is_err() {
            break;
        }
        acknowledged.push(key);
    }
    acknowledged
}

async fn keys_of(data_dir: &Path) -> Result<Vec<Vec<u8>>> {
    let options = Options { data_dir: Some(data_dir.to_path_buf()), ..Options::default() };
    let vetch = Server::start_with(Kind::Vetch, options)?;
    let client = Client::connect(&vetch.endpoint()).await?;
    Ok(list(&client, 0).await?.into_iter().map(|kv| kv.key.to_vec()).collect())
}

/// One of three: refused if its log ends with what it does not know to be committed, and then only
/// taken on request.
async fn alone(scratch: &Path, dirs: &[PathBuf]) -> Result<()> {
    let mut refused = 0;
    for (n, dir) in dirs.iter().enumerate() {
        let tried = tools::try_restore(dir, &scratch.join(format!("alone-{n}")), &[])?;
        if !tried.is_success {
            ensure!(tried.stderr.contains("--other-member"), "the refusal does not help: {}", tried.stderr);
            refused += 1;
        }
        let target = scratch.join(format!("without-{n}"));
        tools::vetch_restore(dir, &target, &["--leave-undecided"])?;
        keys_of(&target).await?;
    }
    println!(
        "cluster: of its members alone, {refused} of {MEMBERS} are refused, and taken with --leave-undecided"
    );
    Ok(())
}

/// A database that is far behind, as after a disk that lost much: a copy from before, with all of
/// the log.
pub(super) async fn with_an_old_database() -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("vetch-old-").tempdir()?;
    let at = |name: &str| scratch.path().join(name);
    let db = at("etcd").join("member").join("snap").join("db");
    let options = Options { data_dir: Some(at("etcd")), ..Options::default() };
    let mut etcd = Server::start_with(Kind::Etcd, options)?;
    fill(&etcd, 0..10).await?;
    etcd.terminate()?;
    std::fs::copy(&db, at("older"))?;
    etcd.run()?;
    fill(&etcd, 10..400).await?;
    etcd.kill()?;
    std::fs::copy(at("older"), &db)?;
    tools::copy(&at("etcd"), &at("copy"))?;
    let said = tools::vetch_restore(&at("copy"), &at("vetch"), &[])?.stderr;
    ensure!(requests_from_log(&said) == 390, "all of the log was needed: {said}");
    etcd.run()?;
    let image = Image::of(&Client::connect(&etcd.endpoint()).await?).await?;
    let vetch =
        Server::start_with(Kind::Vetch, Options { data_dir: Some(at("vetch")), ..Options::default() })?;
    image.must_equal(&Image::of(&Client::connect(&vetch.endpoint()).await?).await?, "an old database")?;
    println!("killed: an old database and 390 requests from the log: equal, {}", image.size());
    Ok(())
}

async fn fill(etcd: &Server, numbers: std::ops::Range<usize>) -> Result<()> {
    let client = Client::connect(&etcd.endpoint()).await?;
    for n in numbers {
        let key = format!("{:02}", n % 30);
        let request = pb::PutRequest { key: key.into(), value: n.to_string().into(), ..Default::default() };
        client.kv.clone().put(request).await?;
    }
    Ok(())
}
