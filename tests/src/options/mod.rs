//! The options trial: the same command lines, variables and files to etcd and to vetch, and what
//! comes of them.
//!
//! The lines are in `tests/options.script`. A refusal must have the same exit code and the same
//! words in it; a start must be one. Last, both servers' lists of flags are held against each
//! other.

mod help;
mod line;
mod run;

use anyhow::{Result, ensure};
use clap::Args;

use crate::server::Kind;
use line::Line;

/// Compare how two servers take command lines, variables and configuration files.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run only lines that contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Print what each server says.
    #[arg(long)]
    verbose: bool,
}

const SCRIPT: &str = include_str!("../../options.script");

impl Options {
    pub(crate) fn run(&self) -> Result<()> {
        let lines = line::parse(SCRIPT)?;
        let mut failed = 0;
        let mut seen = 0;
        for line in lines.iter().filter(|line| line.text.contains(&self.only)) {
            seen += 1;
            let [etcd, vetch] = both(line);
            for (kind, outcome) in [(Kind::Etcd, etcd?), (Kind::Vetch, vetch?)] {
                let wanted = line.wanted(kind);
                if self.verbose {
                    println!("{}: {}\n  {outcome}", kind.name(), line.text);
                }
                if !outcome.is(wanted) {
                    failed += 1;
                    println!("{}: {}\n  wanted {wanted:?}\n  found  {outcome}", kind.name(), line.text);
                }
            }
        }
        println!("{seen} command lines with both servers, {failed} answers not as expected");
        ensure!(
            failed == 0,
            "see above; run one of them with: vetch-tests options --only '<part of the line>'"
        );
        help::compare()
    }
}

/// Both servers at once; what each of them takes is not measured.
fn both(line: &Line) -> [Result<run::Outcome>; 2] {
    std::thread::scope(|scope| {
        let etcd = scope.spawn(|| run::run(Kind::Etcd, line));
        let vetch = run::run(Kind::Vetch, line);
        [etcd.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), vetch]
    })
}
