//! The full-disk trial: a small file system fills up. Writes are refused with etcd's words, reads and deletes go on,
//! nothing acknowledged is lost, and when there is room again the server accepts writes without anybody's help.
//!
//! It mounts a tmpfs and therefore needs root. It is about Vetch alone: etcd stops when its disk is full.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tonic::Status;
use vetch_api::pb;

use crate::client::Client;
use crate::server::{Kind, Options, Server};

/// Fill the disk beneath the server and see how it copes.
#[derive(Args, Debug)]
pub(crate) struct DiskFull {
    #[arg(long, default_value = "vetch")]
    server: Kind,
    #[arg(long, default_value_t = 400)]
    disk_mib: u64,
}

/// A tmpfs that is unmounted when the trial is over, whatever happened.
struct Mount {
    directory: tempfile::TempDir,
}

impl Mount {
    fn new(mib: u64) -> Result<Mount> {
        let directory = tempfile::tempdir()?;
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"])
            .arg(directory.path())
            .status()?;
        ensure!(status.success(), "mounting a tmpfs failed: this trial needs root");
        Ok(Mount { directory })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !Command::new("umount").arg(self.path()).status().is_ok_and(|status| status.success()) {
            eprintln!("could not unmount {}", self.path().display());
        }
    }
}

const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";

impl DiskFull {
    pub(crate) async fn run(&self) -> Result<()> {
        println!("diskfull: {} on a disk of {} MiB", self.server.name(), self.disk_mib);
        let mount = Mount::new(self.disk_mib)?;
        let data_dir = mount.path().join("data");
        let options = Options { flags: vec![], data_dir: Some(data_dir) };
        let mut server = Server::start_with(self.server, options)?;
        let client = Client::connect(&server.endpoint()).await?;

        for index in 0..50 {
            put(&client, &format!("before-{index:03}"), 1_000).await?;
        }
        let ballast = fill(mount.path(), 12)?;
        println!("  the disk is full but for 12 MiB");
        let written = write_until_refused(&client, &mut server).await?;
        println!("  refused after {written} more writes");
        check_full(&client, &mut server, written).await?;

        println!("  restarting on the full disk");
        server.kill()?;
        server.run()?;
        let client = Client::connect(&server.endpoint()).await?;
        check_contents(&client, written).await?;

        std::fs::remove_file(&ballast)?;
        let begun = Instant::now();
        while let Err(status) = put(&client, "after", 1_000).await {
            ensure!(
                begun.elapsed() < Duration::from_secs(30),
                "still refused with room on the disk: {status}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        println!("  accepts writes again {} ms after there was room", begun.elapsed().as_millis());
        server.kill()?;
        server.run()?;
        let client = Client::connect(&server.endpoint()).await?;
        check_contents(&client, written).await?;
        ensure!(value_length(&client, "after").await? == Some(1_000), "what was written afterwards is gone");
        println!("diskfull: refused, nothing lost, recovered by itself");
        Ok(())
    }
}

/// A file that leaves only some room on the disk.
fn fill(disk: &Path, leave_mib: u64) -> Result<PathBuf> {
    let path = disk.join("ballast");
    let file = std::fs::File::create(&path)?;
    let space = rustix::fs::statvfs(disk)?;
    let free = space.f_bavail * space.f_frsize;
    let take = free.checked_sub(leave_mib << 20).context("the disk is smaller than what should be left")?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, take)?;
    Ok(path)
}

async fn put(client: &Client, key: &str, bytes: usize) -> Result<(), Status> {
    let request =
        pb::PutRequest { key: key.to_owned().into(), value: vec![b'x'; bytes].into(), ..Default::default() };
    client.kv.clone().put(request).await.map(drop)
}

/// Writes until the server says that it is full, in etcd's words, and answers how many writes were acknowledged.
async fn write_until_refused(client: &Client, server: &mut Server) -> Result<usize> {
    for index in 0..20_000 {
        match put(client, &format!("fill-{index:05}"), 100_000).await {
            Ok(()) => {}
            Err(status) if status.message() == NO_SPACE => {
                ensure!(status.code() == tonic::Code::ResourceExhausted, "the code is {:?}", status.code());
                return Ok(index);
            }
            Err(status) => {
                let alive = server.alive();
                bail!(
                    "write {index} failed with {status}; the server is alive: {alive}\n{}",
                    server.log_tail()?
                );
            }
        }
    }
    bail!("two gigabytes fit on the disk, and it was never full")
}

/// Full: no writes, but reads, deletes and the alarm work.
async fn check_full(client: &Client, server: &mut Server, written: usize) -> Result<()> {
    let refused = put(client, "one-more", 100_000).await;
    ensure!(refused.is_err_and(|status| status.message() == NO_SPACE), "a write passed on a full disk");
    check_contents(client, written).await?;
    let delete = pb::DeleteRangeRequest { key: "before-000".into(), ..Default::default() };
    let deleted = client.kv.clone().delete_range(delete).await.context("deleting on a full disk")?;
    ensure!(deleted.into_inner().deleted == 1, "the delete deleted nothing");
    put(client, "before-000", 1_000).await.ok();
    let alarms = client.maintenance.clone().alarm(pb::AlarmRequest::default()).await?.into_inner().alarms;
    ensure!(alarms.iter().any(|alarm| alarm.alarm == 1), "no NOSPACE alarm is raised: {alarms:?}");
    ensure!(server.alive(), "the server has ended");
    Ok(())
}

async fn check_contents(client: &Client, written: usize) -> Result<()> {
    for index in 1..50 {
        let length = value_length(client, &format!("before-{index:03}")).await?;
        ensure!(length == Some(1_000), "before-{index:03} is lost");
    }
    let last = format!("fill-{:05}", written.saturating_sub(1));
    ensure!(written == 0 || value_length(client, &last).await? == Some(100_000), "{last} is lost");
    let range = pb::RangeRequest {
        key: "fill-".into(),
        range_end: "fill.".into(),
        count_only: true,
        ..Default::default()
    };
    let count = client.kv.clone().range(range).await?.into_inner().count;
    ensure!(count == written as i64, "{written} writes were acknowledged and {count} are there");
    Ok(())
}

async fn value_length(client: &Client, key: &str) -> Result<Option<usize>> {
    let request = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
    let response = client.kv.clone().range(request).await?.into_inner();
    Ok(response.kvs.first().map(|kv| kv.value.len()))
}
