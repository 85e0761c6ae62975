//! `vetch-sim same`: a seed means one run, to the byte. Two processes run it; their traces must be
//! equal.

use std::io;
use std::process::{Command, Output};

use super::{Level, LevelOption, say};

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    level: LevelOption,
    #[arg(required = true)]
    seeds: Vec<u64>,
}

pub(crate) fn run(options: &Options) -> io::Result<bool> {
    let mut same = true;
    for &seed in &options.seeds {
        let (one, other) = (trace(seed, options.level.level)?, trace(seed, options.level.level)?);
        let line = one.stdout.split(|byte| *byte == b'\n').zip(other.stdout.split(|byte| *byte == b'\n'));
        match line.enumerate().find(|(_, (one, other))| one != other) {
            None if one.stdout.len() == other.stdout.len() && one.status == other.status => {
                say(format_args!("seed {seed}: {} bytes of trace, twice the same", one.stdout.len()));
            }
            found => {
                same = false;
                say(format_args!("seed {seed}: two runs differ"));
                if let Some((number, (one, other))) = found {
                    say(format_args!("line {number}: {}", String::from_utf8_lossy(one)));
                    say(format_args!("line {number}: {}", String::from_utf8_lossy(other)));
                }
            }
        }
    }
    Ok(same)
}

fn trace(seed: u64, level: Level) -> io::Result<Output> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["seed", &seed.to_string(), "--verbose"]).args(level.arguments()).output()
}
