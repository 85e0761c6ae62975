//! `vetch-sim seed`: one seed, with everything it did if wanted.

use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use vetch_sim::Report;
use vetch_sim::run::Out;

use super::{LevelOption, default_histories, say};

#[derive(clap::Args)]
pub(crate) struct Options {
    seed: u64,
    #[command(flatten)]
    level: LevelOption,
    /// Print everything that happens.
    #[arg(short, long)]
    verbose: bool,
    /// A bug to plant, in a build that can.
    #[arg(long)]
    bug: Option<String>,
    /// Where the history goes if something is wrong.
    #[arg(long, default_value_os_t = default_histories())]
    histories: PathBuf,
}

pub(crate) fn run(options: &Options) -> io::Result<bool> {
    super::plant::plant(options.bug.as_deref())?;
    super::worker::watch_for_hangs();
    let out = options.verbose.then(|| -> Out { Arc::new(Mutex::new(BufWriter::new(io::stdout()))) });
    let report = options.level.level.run(options.seed, out.clone());
    if let Some(out) = out {
        out.lock().expect("nothing panics under this lock").flush()?;
    }
    let Report { seed, violations, history, virtual_nanos, counts, .. } = &report;
    for (what, times) in counts {
        say(format_args!("{times:9}  {what}"));
    }
    if violations.is_empty() {
        let seconds = virtual_nanos / 1_000_000_000;
        let operations = history.operations.len();
        say(format_args!("seed {seed} passed: {operations} operations in {seconds} s of virtual time"));
        return Ok(true);
    }
    for violation in violations {
        say(format_args!("seed {seed} failed: {violation}"));
    }
    if !options.level.level.has_histories() {
        return Ok(false);
    }
    let stored = super::histories::store(&report, &options.histories)?;
    say(format_args!("history: {}", stored.display()));
    Ok(false)
}
