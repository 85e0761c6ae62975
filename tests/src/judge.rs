//! Judges a history that an earlier trial left behind.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use vetch_check::History;

use crate::fault_trial::{broken_promises, judge_history};

/// Judge the recorded history of an earlier trial once more.
#[derive(Args, Debug)]
pub(crate) struct Judge {
    /// The file, as the failed trial named it.
    history: PathBuf,
}

impl Judge {
    pub(crate) fn run(&self) -> Result<()> {
        let file = File::open(&self.history).with_context(|| self.history.display().to_string())?;
        let history = History::load(BufReader::new(file))?;
        judge_history(&history).map_err(|violations| broken_promises(&violations))?;
        println!("judge: every promise was kept");
        Ok(())
    }
}
