//! A data directory that a server left behind, and the tools on it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use vetch_api::pb;

use crate::client::Client;
use crate::server::{Kind, Options, Server};

const SMALL: [&str; 3] =
    ["--journal-segment-bytes=65536", "--checkpoint-bytes=32768", "--checkpoint-interval=1s"];

pub(super) struct DataDirectory {
    dir: TempDir,
    pub(super) is_encrypted: bool,
    /// The last revision that was written.
    revision: i64,
}

pub(super) struct Answer {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl DataDirectory {
    /// Lets a server write keys, leases, deletes and a compaction, over several checkpoints, and
    /// stops it.
    pub(super) async fn make(is_encrypted: bool) -> Result<DataDirectory> {
        let dir = tempfile::Builder::new().prefix("vetch-tools-").tempdir()?;
        let mut fixture = DataDirectory { dir, is_encrypted, revision: 0 };
        let made = Command::new(Kind::Vetch.binary()?).arg("keygen").arg(fixture.keys()).output()?;
        ensure!(made.status.success(), "keygen failed");
        let mut server = fixture.start()?;
        fixture.revision = fill(&server, 0).await?;
        server.terminate()?;
        Ok(fixture)
    }

    fn start(&self) -> Result<Server> {
        let mut flags: Vec<String> = SMALL.map(str::to_owned).to_vec();
        if self.is_encrypted {
            flags.push(format!("--encryption-key-file={}", self.keys().display()));
        }
        Server::start_with(Kind::Vetch, Options { flags, data_dir: Some(self.data()) })
    }

    fn keys(&self) -> PathBuf {
        self.dir.path().join("keys")
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Runs a tool on a directory.
    pub(super) fn tool(&self, words: &[&str], data: &Path, more: &[&str]) -> Result<Answer> {
        let mut command = Command::new(Kind::Vetch.binary()?);
        command.args(words).arg(data).args(more);
        if self.is_encrypted {
            command.arg("--encryption-key-file").arg(self.keys());
        }
        let output = command.output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Answer { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) })
    }

    /// Nothing is wrong, nothing is changed, and the revision is the last one.
    pub(super) fn whole(&self) -> Result<()> {
        let before = contents(&self.data())?;
        let answer = self.tool(&["verify"], &self.data(), &["-w", "json"])?;
        ensure!(answer.code == Some(0), "{}{}", answer.stdout, answer.stderr);
        let found: Value = serde_json::from_str(&answer.stdout)?;
        ensure!(found["ok"] == true && found["revision"] == self.revision, "{found}");
        ensure!(found["compared"].as_u64() >= Some(1), "no checkpoint was compared: {found}");
        ensure!(found["checkpoints"] == 2 && found["entries"].as_u64() > Some(0), "{found}");
        ensure!(contents(&self.data())? == before, "verify changed something");
        if self.is_encrypted {
            let blind = Command::new(Kind::Vetch.binary()?).arg("verify").arg(self.data()).output()?;
            let said = String::from_utf8_lossy(&blind.stdout).into_owned();
            ensure!(
                blind.status.code() == Some(1) && said.contains("encrypted with the key k1"),
                "without a key: {said}"
            );
        }
        println!(
            "  {}: whole, {}",
            if self.is_encrypted { "encrypted" } else { "plain" },
            answer.stdout.trim()
        );
        Ok(())
    }

    /// What is shown is what was written.
    pub(super) fn inspected(&self) -> Result<()> {
        let before = contents(&self.data())?;
        let json = |words: &[&str], more: &[&str]| -> Result<Vec<Value>> {
            let answer = self.tool(words, &self.data(), &[more, &["-w", "json"]].concat())?;
            ensure!(answer.code == Some(0), "{words:?}: {}{}", answer.stdout, answer.stderr);
            answer.stdout.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
        };
        let of = |lines: &[Value], kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
        let summary = json(&["inspect", "summary"], &[])?;
        ensure!(
            of(&summary, "checkpoint") == 2 && of(&summary, "segment") >= 1 && of(&summary, "identity") == 1,
            "{summary:?}"
        );
        let key = if self.is_encrypted { Value::from("k1") } else { Value::Null };
        ensure!(
            summary.iter().filter(|line| line["type"] == "data").all(|line| line["key"] == key),
            "{summary:?}"
        );
        ensure!(of(&json(&["inspect", "records"], &[])?, "record") >= 1, "no records");
        let entries = json(&["inspect", "entries"], &["--values"])?;
        let effects: Vec<&Value> =
            entries.iter().flat_map(|entry| entry["effects"].as_array()).flatten().collect();
        let last = effects.iter().filter_map(|effect| effect["revision"].as_i64()).max();
        ensure!(last == Some(self.revision), "the last revision shown is {last:?}");
        // The very last put, asked for by its revision and by its prefix.
        let one = self.tool(&["inspect", "revision"], &self.data(), &[&self.revision.to_string()])?;
        ensure!(
            one.code == Some(0) && one.stdout.contains("put /registry/last"),
            "{}{}",
            one.stdout,
            one.stderr
        );
        let only = json(&["inspect", "entries"], &["--prefix", "/registry/last"])?;
        let shown: Vec<&Value> =
            only.iter().flat_map(|entry| entry["effects"].as_array()).flatten().collect();
        ensure!(
            !shown.is_empty() && shown.iter().all(|effect| effect["key"] == "/registry/last"),
            "{only:?}"
        );
        let versions = json(&["inspect", "versions"], &["--prefix", "/registry/pods/"])?;
        ensure!(versions.len() >= 100, "only {} versions in the newest checkpoint", versions.len());
        let stats = json(&["inspect", "stats"], &[])?;
        ensure!(
            stats.iter().any(|line| line["prefix"] == "/registry/pods/" && line["keys"].as_u64() > Some(50)),
            "{stats:?}"
        );
        ensure!(contents(&self.data())? == before, "inspect changed something");
        println!(
            "  inspected: {} lines of entries, {} versions, {} lines of stats",
            entries.len(),
            versions.len(),
            stats.len()
        );
        Ok(())
    }
}

/// Writes until there are two checkpoints, and then a little more.
async fn fill(server: &Server, from: usize) -> Result<i64> {
    let client = Client::connect(&server.endpoint()).await?;
    let mut kv = client.kv.clone();
    client.lease.clone().lease_grant(pb::LeaseGrantRequest { ttl: 600, id: 77 }).await.ok();
    let put = |key: String, lease: i64| pb::PutRequest {
        key: key.into(),
        value: vec![b'v'; 300].into(),
        lease,
        ..Default::default()
    };
    let checkpoints = || {
        fs::read_dir(server.data_dir.join("member/checkpoint")).map_or(0, |names| {
            names.flatten().filter(|name| name.path().extension() == Some("manifest".as_ref())).count()
        })
    };
    let begun = Instant::now();
    for number in from.. {
        kv.put(put(format!("/registry/pods/{:04}", number % 300), if number % 10 == 0 { 77 } else { 0 }))
            .await?;
        if number % 50 == 7 {
            let delete = pb::DeleteRangeRequest {
                key: format!("/registry/pods/{:04}", number % 300).into(),
                ..Default::default()
            };
            kv.delete_range(delete).await?;
        }
        if number - from >= 600 && checkpoints() >= 2 {
            break;
        }
        ensure!(begun.elapsed() < Duration::from_secs(90), "no two checkpoints within a minute and a half");
    }
    let revision = client.revision().await?;
    kv.compact(pb::CompactionRequest { revision: revision - 200, physical: true }).await?;
    let answer = kv.put(put("/registry/last".to_owned(), 0)).await?.into_inner();
    Ok(answer.header.context("no header")?.revision)
}

/// Every file and its bytes.
pub(super) fn contents(dir: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(contents(&path)?);
        } else {
            found.insert(path.clone(), fs::read(&path)?);
        }
    }
    Ok(found)
}

/// A server that writes and checkpoints is no damage, and is not disturbed.
pub(super) async fn beside_a_server() -> Result<()> {
    let fixture = DataDirectory::make(false).await?;
    let mut server = fixture.start()?;
    let writer = tokio::spawn({
        let endpoint = server.endpoint();
        async move {
            let client = Client::connect(&endpoint).await?;
            for number in 0..4000 {
                let key = format!("/registry/pods/{:04}", number % 300);
                let put =
                    pb::PutRequest { key: key.into(), value: vec![b'w'; 300].into(), ..Default::default() };
                client.kv.clone().put(put).await?;
            }
            anyhow::Ok(())
        }
    });
    let mut looks = 0;
    while !writer.is_finished() || looks < 3 {
        let answer = fixture.tool(&["verify"], &fixture.data(), &[])?;
        ensure!(answer.code == Some(0), "{}{}", answer.stdout, answer.stderr);
        looks += 1;
    }
    writer.await??;
    ensure!(server.alive(), "the server is gone");
    server.terminate()?;
    println!("  beside a server: {looks} looks, nothing wrong");
    Ok(())
}
