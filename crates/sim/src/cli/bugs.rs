//! `vetch-sim bugs`: is every planted bug found, how soon, and by which promise?

use std::io;
use std::path::PathBuf;

use vetch_seeded_bugs::Bug;

use super::pool::{self, Setup};
use super::{Level, LevelOption, default_histories, say};

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    level: LevelOption,
    /// Only these; all unless given.
    bugs: Vec<String>,
    /// Not these.
    #[arg(long)]
    except: Vec<String>,
    /// Seeds to try for each.
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    #[arg(long, default_value_os_t = default_histories())]
    histories: PathBuf,
}

pub(crate) fn run(options: &Options) -> io::Result<bool> {
    if !vetch_seeded_bugs::SEEDED {
        return Err(io::Error::other("this build has no bugs to plant; build it with --features seeded"));
    }
    for name in options.bugs.iter().chain(&options.except) {
        name.parse::<Bug>().map_err(io::Error::other)?;
    }
    let all = options.bugs.is_empty();
    let mut missed = 0;
    let among = |names: &[String], bug: &Bug| names.iter().any(|name| name == bug.name());
    let chosen = |bug: &&Bug| {
        Level::of_bug(**bug) == options.level.level
            && (all || among(&options.bugs, bug))
            && !among(&options.except, bug)
    };
    for bug in Bug::ALL.iter().filter(chosen) {
        let setup =
            Setup { level: options.level.level, histories: &options.histories, bug: Some(bug.name()) };
        let (mut tried, mut found) = (0, None);
        pool::feed(&setup, options.jobs, options.from..options.from + options.seeds, |mut answer| {
            tried += 1;
            if found.is_none() && !answer.violations.is_empty() {
                found = Some((tried, answer.seed, answer.violations.swap_remove(0)));
            }
            found.is_none()
        })?;
        match found {
            Some((tried, seed, violation)) => {
                let violation: String = violation.chars().take(120).collect();
                say(format_args!("{:24} found by seed {seed}, after {tried}: {violation}", bug.name()));
            }
            None => {
                missed += 1;
                say(format_args!("{:24} NOT FOUND in {tried} seeds: {}", bug.name(), bug.what()));
            }
        }
    }
    Ok(missed == 0)
}
