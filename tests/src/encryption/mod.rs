//! The encryption trial: a real server with keys that come, change and go, while it is written to
//! and killed.
//!
//! What was put is looked for in the bytes of every file of the data directory: with a key it must
//! not be found, without one it must, or the search would prove nothing.

mod cases;
mod cost;
mod encrypted_directory;
mod rotation;

use anyhow::{Context, Result};
use clap::Args;

/// Encrypt the data directory, change keys under load and kills, and look for what must not be
/// found.
#[derive(Args, Debug)]
pub(crate) struct Encryption {
    /// Rotations under load, each with a kill in the middle.
    #[arg(long, default_value_t = 3)]
    rotations: usize,
    /// Puts per round when the cost is measured; 0: it is not.
    #[arg(long, default_value_t = 20_000)]
    puts: usize,
    /// Rounds of that, encrypted and plain by turns.
    #[arg(long, default_value_t = 2)]
    rounds: usize,
}

impl Encryption {
    pub(crate) async fn run(&self) -> Result<()> {
        cases::hidden().await.context("what was put must not be found")?;
        cases::refused().await.context("a key that is wrong, missing or badly kept")?;
        cases::on_and_off().await.context("switching on and off")?;
        rotation::run(self.rotations).await.context("rotation under load")?;
        if self.puts > 0 {
            cost::run(self.puts, self.rounds).await?;
        }
        println!("encryption: passed");
        Ok(())
    }
}
