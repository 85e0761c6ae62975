//! `vetch restore`: a data directory from a backup, at a revision or a time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use vetch_backup::catalog::Target;
use vetch_backup::restore::{Options, Progress, Restored, restore};
use vetch_backup::times;
use vetch_offline::REVISION_BUMP;

use super::backup::Source;
use super::progress::Ticker;
use super::{Failure, exit, keys, parsed, print_message};

/// Makes a data directory from a backup: the newest state, or the one at a revision or a time.
#[derive(Parser)]
#[command(name = "vetch restore", disable_version_flag = true)]
struct Cli {
    #[command(flatten)]
    source: Source,
    /// The data directory to make. Must not exist, or be empty.
    #[arg(long)]
    data_dir: PathBuf,
    /// The state right after this revision was written.
    #[arg(long, conflicts_with = "at_time")]
    at_revision: Option<i64>,
    /// The state that was durable at this time: 2026-01-31T12:00:00Z, or seconds since 1970.
    #[arg(long, value_parser = times::parse)]
    at_time: Option<u64>,
    /// The journal to restore from, where a backup has several that hold the revision.
    #[arg(long)]
    journal: Option<String>,
    /// How far to move the revision ahead, with everything before it compacted, so that no revision
    /// that a client has seen is used again and every client lists again.
    #[arg(long, default_value_t = REVISION_BUMP)]
    bump_revision: u64,
    /// Keep the revisions of the backup. Only for clients that saw none later than the restored
    /// one.
    #[arg(long, conflicts_with = "bump_revision")]
    no_bump: bool,
    /// Key file: its keys decrypt the backup; the first one encrypts the data directory.
    #[arg(long)]
    encryption_key_file: Option<PathBuf>,
}

/// Runs the command; `arguments` are those behind the word `restore`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match parsed::<Cli>("vetch restore", arguments) {
        Ok(cli) => exit(cli.run()),
        Err(code) => code,
    }
}

impl Cli {
    fn run(&self) -> Result<(), Failure> {
        let target = match (self.at_revision, self.at_time) {
            (Some(revision), _) => Target::Revision(revision),
            (None, Some(time)) => Target::Time(time),
            (None, None) => Target::Newest,
        };
        let options = Options {
            target,
            journal: self.journal.clone(),
            data_dir: self.data_dir.clone(),
            bump: if self.no_bump { 0 } else { self.bump_revision },
            identity: None,
            keys: keys(self.encryption_key_file.as_deref())?,
        };
        let depot = self.source.location()?.open()?;
        let mut ticker = Ticker::new();
        let restored = restore(&depot, &options, &mut |progress| match progress {
            Progress::Fetching { done, total } => ticker.report("fetching", done, total),
            Progress::Replaying { done, total } => ticker.report("replaying", done, total),
        })?;
        for damage in &restored.damage {
            print_message(&format!("{damage}; the restore did not need it"));
        }
        print_message(&report(&self.data_dir.display().to_string(), &restored));
        Ok(())
    }
}

fn report(data_dir: &str, restored: &Restored) -> String {
    let Restored { journal, full_revision, source, mark, known_at, versions, leases, users, damage: _ } =
        restored;
    let time = match known_at {
        Some(time) => format!(", as it was at {}", times::shown(*time)),
        None => String::new(),
    };
    let moved = if source.revision == mark.revision {
        "the revision is that of the backup".to_owned()
    } else {
        let revision = mark.revision;
        format!("the revision is {revision} now, so that clients list again (--no-bump keeps it)")
    };
    format!(
        "restored revision {}{time} into {data_dir}: {versions} versions of keys, {leases} leases, {users} users, from \
         the full backup of revision {full_revision} and journal {journal}; {moved}",
        source.revision
    )
}
