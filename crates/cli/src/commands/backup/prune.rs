//! `vetch backup prune`.

use std::time::Duration;

use clap::Args;
use vetch_backup::{prune, times};

use super::super::client::duration;
use super::super::output::size;
use super::super::{Failure, print_result};
use super::Source;

#[derive(Args)]
pub(super) struct Prune {
    #[command(flatten)]
    source: Source,
    /// Keep every point of this time span restorable, such as 168h.
    #[arg(long, value_parser = duration)]
    keep: Duration,
    /// Keep at least this many full backups of each journal, however old they are.
    #[arg(long, default_value_t = 1)]
    keep_fulls: usize,
    /// Prune only the journal with this ID.
    #[arg(long)]
    journal: Option<String>,
    /// Only show what would be removed.
    #[arg(long)]
    dry_run: bool,
}

impl Prune {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let depot = self.source.location()?.open()?;
        let keep = prune::Keep { span: self.keep, fulls: self.keep_fulls };
        let pruned = prune::prune(&depot, self.journal.as_deref(), keep, times::now(), self.dry_run)?;
        let verb = if self.dry_run { "would remove" } else { "removed" };
        print_result(&format!(
            "{verb} {} full backups, {} pieces of journal and {} files: {}",
            pruned.fulls,
            pruned.chunks,
            pruned.files,
            size(pruned.bytes)
        ))
    }
}
