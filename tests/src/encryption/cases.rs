//! One question each: what can be seen, what is refused, and the ways into encryption and out of
//! it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Result, ensure};
use rustix::process::Signal;

use super::encrypted_directory::{EncryptedDirectory, all, put, wait_files, wait_log};
use crate::client::Client;

const KEYS: usize = 400;

/// With a key, nothing of keys and values is in any file; without one it is, so the search can
/// fail.
pub(super) async fn hidden() -> Result<()> {
    for is_encrypted in [true, false] {
        let fixture = EncryptedDirectory::new()?;
        fixture.keygen()?;
        let mut server = fixture.start(is_encrypted)?;
        let client = Client::connect(&server.endpoint()).await?;
        for number in 0..KEYS {
            put(&client, number, "first").await?;
        }
        if is_encrypted {
            wait_log(&server, "every file of the journal and the checkpoints is encrypted").await?;
        }
        ensure!(fixture.found_in()?.is_empty() == is_encrypted, "while running: {:?}", fixture.found_in()?);
        server.kill()?;
        ensure!(fixture.found_in()?.is_empty() == is_encrypted, "after a kill: {:?}", fixture.found_in()?);
        server.run()?;
        let client = Client::connect(&server.endpoint()).await?;
        ensure!(all(&client).await?.len() == KEYS, "keys are missing after a restart");
        server.terminate()?;
        let found = fixture.found_in()?;
        ensure!(found.is_empty() == is_encrypted, "after a stop: {found:?}");
        println!("  {}: marker in {} files", if is_encrypted { "encrypted" } else { "plain" }, found.len());
    }
    Ok(())
}

pub(super) async fn refused() -> Result<()> {
    let fixture = EncryptedDirectory::new()?;
    fixture.keygen()?;
    let mut server = fixture.start(true)?;
    let client = Client::connect(&server.endpoint()).await?;
    put(&client, 1, "value").await?;
    server.terminate()?;
    fixture.refuses(false, &["encrypted with the key k1", "--encryption-key-file"])?;
    let right = fixture.lines()?;
    // Another key under the same name, another name, both.
    let other = EncryptedDirectory::new()?;
    other.keygen()?;
    fixture.write_keys(&other.lines()?)?;
    fixture.refuses(true, &["another key than the one that the key file calls k1"])?;
    fixture.write_keys(&other.lines()?.iter().map(|line| line.replace("k1 ", "k9 ")).collect::<Vec<_>>())?;
    fixture.refuses(true, &["encrypted with the key k1, which is not in the key file (k9)"])?;
    fixture.write_keys(&["k1 c2hvcnQ=".to_owned()])?;
    fixture.refuses(true, &["the key has 5 bytes; it must have 32"])?;
    fixture.write_keys(&right)?;
    fs::set_permissions(fixture.keys(), fs::Permissions::from_mode(0o644))?;
    fixture.refuses(true, &["mode 644", "chmod 600"])?;
    fs::set_permissions(fixture.keys(), fs::Permissions::from_mode(0o600))?;
    let mut server = fixture.start(true)?;
    // Taken away from a running server: it says so and goes on.
    fixture.write_keys(&other.lines()?.iter().map(|line| line.replace("k1 ", "k9 ")).collect::<Vec<_>>())?;
    wait_log(&server, "keeping the current keys").await?;
    ensure!(
        server.log_of_this_life()?.contains("the key k1 is not in it and is still needed"),
        "no reason given"
    );
    let client = Client::connect(&server.endpoint()).await?;
    put(&client, 2, "value").await?;
    // And a SIGHUP reads it again, changed or not.
    fixture.write_keys(&right)?;
    server.signal(Signal::HUP)?;
    wait_log(&server, "encryption keys in use").await?;
    server.kill()?;
    server.run()?;
    let client = Client::connect(&server.endpoint()).await?;
    ensure!(all(&client).await?.len() == 2, "what was put is not there");
    server.terminate()?;
    Ok(())
}

/// A plain directory becomes an encrypted one and a plain one again, without losing anything.
pub(super) async fn on_and_off() -> Result<()> {
    let fixture = EncryptedDirectory::new()?;
    fixture.keygen()?;
    let mut server = fixture.start(false)?;
    let client = Client::connect(&server.endpoint()).await?;
    for number in 0..KEYS {
        put(&client, number, "plain").await?;
    }
    let before = all(&client).await?;
    server.terminate()?;
    ensure!(!fixture.found_in()?.is_empty(), "the marker is to be seen at first");
    let mut server = fixture.start(true)?;
    let took = wait_files(&server, "an encrypted directory", |files| files.get("plain") == Some(&0)).await?;
    ensure!(fixture.found_in()?.is_empty(), "still in plain: {:?}", fixture.found_in()?);
    println!("  switched on: everything was encrypted after {:.1}s, without a write", took.as_secs_f64());
    ensure!(all(&Client::connect(&server.endpoint()).await?).await? == before, "on changed what is stored");
    server.kill()?;
    server.run()?;
    let mut lines = fixture.lines()?;
    lines.insert(0, "plain".to_owned());
    fixture.write_keys(&lines)?;
    let took = wait_files(&server, "a plain directory", |files| files.get("k1") == Some(&0)).await?;
    println!("  switched off: nothing needed the key after {:.1}s", took.as_secs_f64());
    ensure!(all(&Client::connect(&server.endpoint()).await?).await? == before, "off changed what is stored");
    server.kill()?;
    let mut server = fixture.start(false)?;
    ensure!(
        all(&Client::connect(&server.endpoint()).await?).await? == before,
        "the last start changed something"
    );
    server.terminate()?;
    Ok(())
}
