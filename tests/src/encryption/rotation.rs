//! Rotation under load: keys change while clients write and the server is killed; nothing
//! acknowledged is lost, and the old key can go when the server says so, and not before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::encrypted_directory::{EncryptedDirectory, all, key, put, wait_files, wait_log};
use crate::client::Client;
use crate::server::Server;

/// What a writer knows: every number below was acknowledged.
#[derive(Clone, Default)]
struct Progress {
    acknowledged: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

pub(super) async fn run(rotations: usize) -> Result<()> {
    let fixture = EncryptedDirectory::new()?;
    fixture.keygen()?;
    let mut server = fixture.start(true)?;
    let progress = Progress::default();
    let writer = tokio::spawn(write(server.endpoint(), progress.clone()));
    for round in 1..=rotations {
        let (old, new) = (format!("k{round}"), format!("k{}", round + 1));
        some(&progress).await?;
        fixture.keygen()?;
        wait_files(&server, "the new key", |files| files.contains_key(&new)).await?;
        // Most often in the middle of it all: old and new files lie side by side.
        server.kill()?;
        if round % 2 == 1 {
            let all_keys = fixture.lines()?;
            let early: Vec<String> =
                all_keys.iter().filter(|line| !line.starts_with(&old)).cloned().collect();
            fixture.write_keys(&early)?;
            // It may be through with it already, where the disk is fast.
            if !fixture.is_readable()? {
                let words = format!("encrypted with the key {old}, which is not in the key file ({new})");
                fixture.refuses(true, &[&words])?;
            }
            fixture.write_keys(&all_keys)?;
        }
        server.run()?;
        let took = wait_files(&server, "the end of the old key", |files| files.get(&old) == Some(&0)).await?;
        wait_log(&server, "no file needs this encryption key any more").await?;
        let kept: Vec<String> = fixture.lines()?.into_iter().filter(|line| !line.starts_with(&old)).collect();
        fixture.write_keys(&kept)?;
        wait_files(&server, "a ring without the old key", |files| !files.contains_key(&old)).await?;
        some(&progress).await?;
        println!(
            "  rotated to {new} under load: {old} was not needed any more {:.1}s after a kill; {} puts so far",
            took.as_secs_f64(),
            progress.acknowledged.load(Ordering::Relaxed)
        );
        server.kill()?;
        server.run()?;
    }
    progress.stop.store(true, Ordering::Relaxed);
    writer.await??;
    ensure!(fixture.found_in()?.is_empty(), "the marker was found in {:?}", fixture.found_in()?);
    check(&server, &progress).await?;
    server.terminate()?;
    Ok(())
}

/// Puts one number after another, again and again until it is acknowledged.
async fn write(endpoint: String, progress: Progress) -> Result<()> {
    let mut client = None;
    while !progress.stop.load(Ordering::Relaxed) {
        let number = progress.acknowledged.load(Ordering::Relaxed);
        let connected = match client.take() {
            Some(connected) => connected,
            None => match Client::connect(&endpoint).await {
                Ok(connected) => connected,
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            },
        };
        if put(&connected, number, "under load").await.is_ok() {
            progress.acknowledged.store(number + 1, Ordering::Relaxed);
            client = Some(connected);
        }
    }
    Ok(())
}

/// Waits for some writes.
async fn some(progress: &Progress) -> Result<()> {
    let from = progress.acknowledged.load(Ordering::Relaxed);
    for _ in 0..3000 {
        if progress.acknowledged.load(Ordering::Relaxed) >= from + 100 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    anyhow::bail!("no writes within a minute")
}

async fn check(server: &Server, progress: &Progress) -> Result<()> {
    let found = all(&Client::connect(&server.endpoint()).await?).await?;
    for number in 0..progress.acknowledged.load(Ordering::Relaxed) {
        let value =
            found.get(&key(number)).with_context(|| format!("put {number} was acknowledged and is gone"))?;
        ensure!(value.ends_with(&format!(":{number}")), "put {number} became {value:?}");
    }
    Ok(())
}
