//! `vetch inspect`: what a data directory holds, offline. Nothing is locked or changed; after
//! damage it continues as far as possible, says where the damage is, and ends with exit code 1.

mod entries;
mod filter;
mod show;
mod state;
mod summary;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use vetch_encryption::EncryptionKeys;
use vetch_node::journal::{Disk, RealDisk};

use self::filter::Filter;
use self::show::Out;
use super::{Failure, exit, keys, parsed};

/// Shows what a data directory holds. It needs no server, and does not disturb a running one.
#[derive(Parser)]
#[command(name = "vetch inspect", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Segments, checkpoints, encryption keys, and damage.
    Summary(Common),
    /// Every record of the journal: its place and its entries.
    Records(Common),
    /// Every entry of the journal: its effects and revisions.
    Entries(Selection),
    /// Every version of keys that the newest checkpoint holds.
    Versions(Selection),
    /// One revision: what changed, what it replaced, and the entry that has it. Clients are not
    /// recorded; the epoch says which run of the server wrote it.
    Revision(One),
    /// Bytes by prefix, sizes, leases, compaction; of the newest checkpoint and the journal behind
    /// it.
    Stats(Stats),
}

#[derive(Args)]
struct Common {
    /// The data directory.
    data_dir: PathBuf,
    /// Output format: simple, or json: one object in each line.
    #[arg(short = 'w', long, default_value = "simple")]
    write_out: String,
    /// The key file, if the directory is encrypted.
    #[arg(long)]
    encryption_key_file: Option<PathBuf>,
}

#[derive(Args)]
struct Selection {
    #[command(flatten)]
    common: Common,
    /// Only keys that begin with this.
    #[arg(long)]
    prefix: Option<String>,
    /// Only this revision and later ones.
    #[arg(long)]
    from: Option<i64>,
    /// Only this revision and earlier ones.
    #[arg(long)]
    to: Option<i64>,
    /// Show values as well, as far as they are text.
    #[arg(long)]
    values: bool,
}

#[derive(Args)]
struct One {
    #[command(flatten)]
    common: Common,
    revision: i64,
}

#[derive(Args)]
struct Stats {
    #[command(flatten)]
    common: Common,
    /// How many parts of a key, between slashes, make a prefix.
    #[arg(long, default_value_t = 2)]
    depth: usize,
}

/// Runs the command; `arguments` are those behind the word `inspect`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match parsed::<Cli>("vetch inspect", arguments) {
        Ok(cli) => exit(cli.run()),
        Err(code) => code,
    }
}

/// The common context of all subcommands.
struct DataDir {
    disk: std::sync::Arc<dyn Disk>,
    data_dir: PathBuf,
    keys: EncryptionKeys,
}

impl DataDir {
    fn journal(&self) -> PathBuf {
        self.data_dir.join("member").join("journal")
    }

    fn checkpoint(&self) -> PathBuf {
        self.data_dir.join("member").join("checkpoint")
    }
}

impl Common {
    fn open(&self) -> Result<(DataDir, Out), Failure> {
        let keys = keys(self.encryption_key_file.as_deref())?;
        check_dir(&self.data_dir)?;
        let view = DataDir { disk: std::sync::Arc::new(RealDisk), data_dir: self.data_dir.clone(), keys };
        Ok((view, Out::new(&self.write_out)?))
    }
}

/// Refuses a path that is not a data directory.
pub(super) fn check_dir(data_dir: &Path) -> Result<(), Failure> {
    if data_dir.join("member").is_dir() {
        return Ok(());
    }
    Err(Failure::bad_arguments(format!("{} is not a data directory: it has no member/", data_dir.display())))
}

impl Cli {
    fn run(&self) -> Result<(), Failure> {
        let common = match &self.what {
            What::Summary(common) | What::Records(common) => common,
            What::Entries(selection) | What::Versions(selection) => &selection.common,
            What::Revision(one) => &one.common,
            What::Stats(stats) => &stats.common,
        };
        let (view, mut out) = common.open()?;
        match &self.what {
            What::Summary(_) => summary::run(&view, &mut out)?,
            What::Records(_) => entries::records(&view, &mut out)?,
            What::Entries(selection) => entries::entries(&view, &selection.filter(), &mut out)?,
            What::Versions(selection) => state::versions(&view, &selection.filter(), &mut out)?,
            What::Revision(one) => entries::revision(&view, one.revision, &mut out)?,
            What::Stats(stats) => state::stats(&view, stats.depth, &mut out)?,
        }
        out.finish()
    }
}

impl Selection {
    fn filter(&self) -> Filter {
        Filter {
            prefix: self.prefix.clone().unwrap_or_default().into_bytes(),
            from: self.from.unwrap_or(i64::MIN),
            to: self.to.unwrap_or(i64::MAX),
            values: self.values,
        }
    }
}
