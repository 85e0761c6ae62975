//! The cost: processor time of the server per put, encrypted and plain by turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use vetch_api::pb;

use super::encrypted_directory::EncryptedDirectory;
use crate::client::Client;
use crate::server::{Kind, Options, Server};

const WRITERS: usize = 64;
const VALUE_BYTES: usize = 1024;
/// More than this many times the plain cost is a mistake and no noise.
const MOST: f64 = 2.0;

pub(super) async fn run(puts: usize, rounds: usize) -> Result<()> {
    let (mut plain, mut encrypted) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        plain.push(round(puts, false).await?);
        encrypted.push(round(puts, true).await?);
    }
    let shown = |costs: &[f64]| costs.iter().map(|cost| format!("{cost:.1}")).collect::<Vec<_>>().join(", ");
    println!("  server CPU per put of {VALUE_BYTES} bytes by {WRITERS} clients, in us, round by round:");
    println!("    plain  {}", shown(&plain));
    println!("    encrypted {}", shown(&encrypted));
    let least = |costs: &[f64]| costs.iter().copied().fold(f64::INFINITY, f64::min);
    let times = least(&encrypted) / least(&plain);
    println!("    the best encrypted round cost {times:.2} times the best plain one");
    ensure!(times < MOST, "encryption costs too much");
    Ok(())
}

/// Microseconds of the server's processor time per put.
async fn round(puts: usize, is_encrypted: bool) -> Result<f64> {
    let fixture = EncryptedDirectory::new()?;
    fixture.keygen()?;
    let flags = if is_encrypted {
        vec![format!("--encryption-key-file={}", fixture.keys().display())]
    } else {
        vec![]
    };
    let server = Server::start_with(Kind::Vetch, Options { flags, data_dir: Some(fixture.data()) })?;
    let next = Arc::new(AtomicUsize::new(0));
    let before = server.cpu_seconds()?;
    let mut writers = tokio::task::JoinSet::new();
    let client = Client::connect(&server.endpoint()).await?;
    for _ in 0..WRITERS {
        let (mut kv, next) = (client.kv.clone(), Arc::clone(&next));
        writers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= puts {
                    return anyhow::Ok(());
                }
                let (key, value) =
                    (format!("/registry/{:05}", number % 5000), vec![number as u8; VALUE_BYTES]);
                kv.put(pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() }).await?;
            }
        });
    }
    while let Some(result) = writers.join_next().await {
        result??;
    }
    Ok((server.cpu_seconds()? - before) * 1e6 / puts as f64)
}
