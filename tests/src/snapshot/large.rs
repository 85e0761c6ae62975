//! A large store: what a snapshot costs while writers go on, and what a restore needs. The limits
//! are part of the trial.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use vetch_api::pb;

use super::image::hash_kv;
use super::tools;
use crate::client::Client;
use crate::million;
use crate::server::{Kind, Options, Server};

const WRITERS: usize = 16;
/// Memory that a server may take for a snapshot besides the versions that are overwritten
/// meanwhile, and how much more than its bytes such a version may cost.
const SERVER_BYTES: u64 = 192 << 20;
const VERSION_BYTES: u64 = 512;
/// Memory of the commands that save and restore, whatever the size of the store.
const SAVE_BYTES: u64 = 64 << 20;
const RESTORE_BYTES: u64 = 320 << 20;
/// How long writers are watched without a snapshot.
const BASELINE: Duration = Duration::from_secs(5);

pub(super) async fn run(keys: usize, value_bytes: usize) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("vetch-snapshot-").tempdir()?;
    let at = |name: &str| scratch.path().join(name);
    println!("snapshot: {keys} keys of {value_bytes} bytes");
    let quota = vec!["--quota-backend-bytes=8589934592".to_owned()];
    let vetch = Server::start_with(Kind::Vetch, Options { flags: quota.clone(), data_dir: None })?;
    million::load(&vetch, keys, value_bytes, 256).await?;
    let before = Writers::start(&vetch, keys, value_bytes).await?;
    tokio::time::sleep(BASELINE).await;
    println!("  writers without a snapshot: {}", before.stop().await?.text);
    let resident = vetch.resident()?;
    let file = at("snapshot");
    let writers = Writers::start(&vetch, keys, value_bytes).await?;
    let (saved, peak) = save(&vetch, &file).await?;
    let written = writers.stop().await?;
    println!("  writers during the snapshot: {}", written.text);
    println!(
        "  saved {} MiB in {:.1} s; the server had {} MiB before and {} MiB at most",
        file.metadata()?.len() >> 20,
        saved.took.as_secs_f64(),
        resident >> 20,
        peak >> 20
    );
    let overwritten = written.puts * (value_bytes as u64 + VERSION_BYTES);
    must_be_below(
        "the server while it sent a snapshot",
        peak - resident.min(peak),
        SERVER_BYTES + overwritten,
    )?;
    must_be_below("vetch snapshot save", saved.peak, SAVE_BYTES)?;
    let client = Client::connect(&vetch.endpoint()).await?;
    let status = tools::status(&file)?;
    println!("  {status}");
    let revision = revision(&status)?;
    let hash = hash_kv(&client, revision).await?.hash;
    drop(vetch);
    restore(&file, &at("vetch"))?;
    serves(Kind::Vetch, &at("vetch"), &quota, revision, hash).await?;
    std::fs::remove_dir_all(at("vetch"))?;
    let restored = tools::etcdutl_restore(&file, &at("etcd"), &[])?;
    println!(
        "  etcdutl snapshot restore: {:.1} s, {} MiB of memory at most",
        restored.took.as_secs_f64(),
        restored.peak >> 20
    );
    std::fs::remove_file(&file)?;
    let etcd = serves(Kind::Etcd, &at("etcd"), &quota, revision, hash).await?;
    let back = at("etcd.snapshot");
    let saved = tools::etcdctl_save(&etcd.endpoint(), &back)?;
    println!("  etcdctl saved etcd's snapshot of it in {:.1} s", saved.took.as_secs_f64());
    drop(etcd);
    restore(&back, &at("vetch.again"))?;
    serves(Kind::Vetch, &at("vetch.again"), &quota, revision, hash).await?;
    println!("snapshot: Vetch -> etcd -> Vetch: HashKV equal");
    Ok(())
}

fn restore(file: &Path, target: &Path) -> Result<()> {
    let restored = tools::vetch_restore(file, target, &["--no-bump"])?;
    println!(
        "  vetch snapshot restore: {:.1} s, {} MiB of memory at most, {} lines of progress",
        restored.took.as_secs_f64(),
        restored.peak >> 20,
        restored.stderr.lines().count() - 1
    );
    let is_long = restored.took > Duration::from_secs(5);
    ensure!(!is_long || restored.stderr.lines().count() > 1, "no progress was reported: {}", restored.stderr);
    must_be_below("vetch snapshot restore", restored.peak, RESTORE_BYTES)
}

fn must_be_below(what: &str, bytes: u64, limit: u64) -> Result<()> {
    ensure!(bytes <= limit, "{what} took {} MiB, which is more than {} MiB", bytes >> 20, limit >> 20);
    println!("    {what}: {} MiB of at most {} MiB", bytes >> 20, limit >> 20);
    Ok(())
}

/// Takes a snapshot, and watches the server's memory meanwhile.
async fn save(vetch: &Server, path: &Path) -> Result<(tools::Ended, u64)> {
    let (endpoint, target) = (vetch.endpoint(), path.to_path_buf());
    let saving = tokio::task::spawn_blocking(move || tools::vetch_save(&endpoint, &target));
    let mut peak = 0;
    while !saving.is_finished() {
        peak = peak.max(vetch.resident()?);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok((saving.await??, peak))
}

async fn serves(kind: Kind, data_dir: &Path, flags: &[String], revision: i64, hash: u32) -> Result<Server> {
    let options = Options { flags: flags.to_vec(), data_dir: Some(data_dir.to_path_buf()) };
    let begun = Instant::now();
    let server = Server::start_with(kind, options)?;
    let found = hash_kv(&Client::connect(&server.endpoint()).await?, 0).await?;
    ensure!(
        (found.hash_revision, found.hash) == (revision, hash),
        "{} serves another history: revision {} instead of {revision}, HashKV {} instead of {hash}",
        kind.name(),
        found.hash_revision,
        found.hash
    );
    println!(
        "  {} serves it after {:.1} s: revision and HashKV equal",
        kind.name(),
        begun.elapsed().as_secs_f64()
    );
    Ok(server)
}

fn revision(status: &str) -> Result<i64> {
    let status: serde_json::Value = serde_json::from_str(status)?;
    status["revision"].as_i64().context("the status has no revision")
}

/// How many puts there were, and how long they took.
struct Written {
    puts: u64,
    text: String,
}

/// Clients that overwrite keys, and how long each put takes.
struct Writers {
    tasks: tokio::task::JoinSet<Result<Vec<Duration>>>,
    stop: Arc<AtomicBool>,
    begun: Instant,
}

impl Writers {
    async fn start(server: &Server, keys: usize, value_bytes: usize) -> Result<Writers> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let mut kv = Client::connect(&server.endpoint()).await?.kv;
            let stop = Arc::clone(&stop);
            tasks.spawn(async move {
                let mut took = Vec::new();
                for n in 0usize.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let index = (writer + n * 7919 * WRITERS) % keys;
                    let key = format!("/registry/pods/namespace-{:03}/pod-{index:07}", index % 500);
                    let value = vec![b'w'; value_bytes];
                    let begun = Instant::now();
                    kv.put(pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() })
                        .await?;
                    took.push(begun.elapsed());
                }
                Ok(took)
            });
        }
        Ok(Writers { tasks, stop, begun: Instant::now() })
    }

    async fn stop(mut self) -> Result<Written> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        while let Some(took) = self.tasks.join_next().await {
            all.append(&mut took??);
        }
        let seconds = self.begun.elapsed().as_secs_f64();
        all.sort_unstable();
        let at = |part: f64| all[((all.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
        ensure!(!all.is_empty(), "no client wrote");
        let text = format!(
            "{:.0} puts/s, p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, longest {:.1} ms",
            all.len() as f64 / seconds,
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
        Ok(Written { puts: all.len() as u64, text })
    }
}
