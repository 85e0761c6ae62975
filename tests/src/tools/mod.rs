//! The tools trial: `vetch inspect` and `vetch verify` on directories that are whole, in use,
//! encrypted, and broken on purpose.
//!
//! Damage is made by flipping bits and cutting files; verify must see every one that matters, name
//! the file and a place at or before it, and must not mind what does not matter. Neither tool may
//! change a byte.

mod damage;
mod data_directory;

use anyhow::{Context, Result};
use clap::Args;

/// Inspect and verify data directories, whole and broken.
#[derive(Args, Debug)]
pub(crate) struct Tools {
    /// Bits flipped, over all files.
    #[arg(long, default_value_t = 120)]
    flips: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Tools {
    pub(crate) async fn run(&self) -> Result<()> {
        for is_encrypted in [false, true] {
            let kind = if is_encrypted { "an encrypted directory" } else { "a plain directory" };
            let fixture = data_directory::DataDirectory::make(is_encrypted).await.context(kind)?;
            fixture.whole().context(kind)?;
            fixture.inspected().context(kind)?;
            damage::flips(&fixture, self.flips, self.seed).context(kind)?;
            damage::cuts(&fixture).context(kind)?;
        }
        data_directory::beside_a_server().await.context("while a server runs")?;
        println!("tools: passed");
        Ok(())
    }
}
