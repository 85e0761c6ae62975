//! The differential trial: the same requests to two servers and to the specification, and every
//! answer compared.
//!
//! A run is a number of sequences; each has a seed and two fresh servers. Requests go out one after
//! the other, to both servers, so both must give every write the same revision. On a difference the
//! trial prints both answers and the command that replays the sequence, then looks for the shortest
//! part of it that still differs.
//!
//! Not here: behaviour that depends on time, such as lease expiry, locks and elections
//! (`scenarios`), and restarts (`kill`).

mod deviations;
mod generate;
mod mask;
mod pair;
mod request;
mod side;
mod spec;
mod watches;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
pub(crate) use generate::{Generator, World};
use pair::{Between, Pair, Unlike};
pub(crate) use request::Request;
use side::Answer;

use crate::server::Kind;
use vetch_testkit::random::Rng;

/// Compare two servers on random requests.
#[derive(Args, Debug, Clone)]
pub(crate) struct Differential {
    /// The server that is right by definition.
    #[arg(long, default_value = "etcd")]
    left: Kind,
    /// The server under trial.
    #[arg(long, default_value = "vetch")]
    right: Kind,
    /// Requests in all, spread evenly over the seeds.
    #[arg(long, env = "VETCH_DIFF_REQUESTS", default_value_t = 21_000)]
    requests: usize,
    /// Seeds to run; without any, a fixed list.
    #[arg(long, env = "VETCH_DIFF_SEEDS", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Run only these steps of the sequence, such as 3,7-12.
    #[arg(long, value_parser = parse_ranges)]
    only: Option<Steps>,
    /// Steps per sequence; given in replay commands, because it fixes where a sequence ends.
    #[arg(long)]
    steps: Option<usize>,
    /// Do not stop at a difference that left both servers at the same revision: print it briefly
    /// and go on.
    #[arg(long)]
    keep_going: bool,
    /// After a difference, look for a shorter sequence that shows it.
    #[arg(long, default_value_t = 60)]
    shrink_seconds: u64,
}

/// Sequences that have found something once, and some that have not yet.
const SEEDS: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

#[derive(Clone, Debug)]
struct Steps(Vec<usize>);

struct Difference {
    step: usize,
    request: String,
    unlike: Unlike,
}

#[derive(Default)]
struct Tally {
    requests: usize,
    refused: usize,
    hashes: usize,
    equal_hashes: usize,
    /// Answers and events, of either server, that the specification gave as well.
    judged: usize,
    judged_events: usize,
    /// Differences that `--keep-going` went past.
    passed_over: usize,
    deviations: BTreeMap<&'static str, usize>,
    /// Per kind of request: sent, refused.
    kinds: BTreeMap<String, (usize, usize)>,
}

impl Differential {
    pub(crate) async fn run(&self) -> Result<()> {
        let seeds = if self.seeds.is_empty() { SEEDS.to_vec() } else { self.seeds.clone() };
        let steps = self.steps.unwrap_or(self.requests.div_ceil(seeds.len()));
        println!(
            "differential: {} and {}, {} sequences of {steps}",
            self.left.name(),
            self.right.name(),
            seeds.len()
        );
        let begun = Instant::now();
        let mut tally = Tally::default();
        for seed in seeds {
            let chosen = self.only.clone().map_or_else(|| (0..steps).collect(), |only| only.0);
            if let Some(difference) = self.sequence(seed, &chosen, &mut tally).await? {
                self.report(seed, steps, &chosen, difference).await?;
                bail!("the servers differ");
            }
            println!("  seed {seed}: {steps} requests agree ({:.1}s)", begun.elapsed().as_secs_f64());
        }
        for (reason, count) in &tally.deviations {
            println!("  {count} deliberate deviations: {reason}");
        }
        println!("  by kind (sent, refused): {:?}", tally.kinds);
        println!(
            "differential: {} requests agree, {} of them refused by both; {} of {} HashKV hashes equal; {:.1}s",
            tally.requests,
            tally.refused,
            tally.equal_hashes,
            tally.hashes,
            begun.elapsed().as_secs_f64()
        );
        println!(
            "differential: the specification gave {} of the answers and {} events to watchers, of both servers, as well",
            tally.judged, tally.judged_events
        );
        ensure!(tally.passed_over == 0, "{} differences", tally.passed_over);
        Ok(())
    }

    /// Runs the chosen steps of a seed on fresh servers.
    async fn sequence(&self, seed: u64, steps: &[usize], tally: &mut Tally) -> Result<Option<Difference>> {
        let mut pair = Pair::start(self.left, self.right).await?;
        for &step in steps {
            let request =
                Generator { rng: Rng::for_step(seed, step), world: &pair.world, sane: false }.request();
            if pair.is_fatal(&request) {
                *tally.deviations.entry("no compaction where etcd would lose a key").or_default() += 1;
                continue;
            }
            let settled = if request.needs_settled_watches() { pair.settle(tally).await? } else { None };
            let watched = settled.map(|unlike| ("the watchers' output up to here".to_owned(), unlike));
            let answered = pair.step(&request, tally).await?.map(|unlike| (format!("{request:#?}"), unlike));
            for (request, unlike) in watched.into_iter().chain(answered) {
                let difference = Difference { step, request, unlike };
                if !self.keep_going || !pair.same_revision().await? {
                    return Ok(Some(difference));
                }
                self.print(seed, steps.len(), &difference, None);
                tally.passed_over += 1;
            }
        }
        let step = steps.last().copied().unwrap_or(0);
        let last = pair.settle_for_good(tally).await?;
        let request = "the watchers' whole output".to_owned();
        Ok(last.map(|unlike| Difference { step, request, unlike }))
    }

    async fn report(&self, seed: u64, steps: usize, chosen: &[usize], difference: Difference) -> Result<()> {
        self.print(seed, steps, &difference, None);
        let mut chosen: Vec<usize> = chosen.iter().copied().filter(|step| *step <= difference.step).collect();
        let deadline = Instant::now() + Duration::from_secs(self.shrink_seconds);
        let mut smallest = difference;
        let mut part = chosen.len() / 2;
        while part >= 1 && Instant::now() < deadline {
            let mut start = 0;
            while start < chosen.len() && Instant::now() < deadline {
                let end = (start + part).min(chosen.len());
                let without: Vec<usize> = [&chosen[..start], &chosen[end..]].concat();
                match self.sequence(seed, &without, &mut Tally::default()).await? {
                    Some(found) => {
                        chosen = without.into_iter().filter(|step| *step <= found.step).collect();
                        smallest = found;
                    }
                    None => start = end,
                }
            }
            part /= 2;
        }
        println!("shortened to {} steps:", chosen.len());
        self.print(seed, steps, &smallest, Some(&chosen));
        Ok(())
    }

    fn print(&self, seed: u64, steps: usize, difference: &Difference, only: Option<&[usize]>) {
        let Difference { step, request, unlike } = difference;
        println!("DIFFERENCE at seed {seed}, step {step}\nrequest: {}", shorten(request));
        let (left, right) = match unlike.between {
            Between::Servers => (self.left.name(), self.right.name()),
            Between::LeftAndSpecification => (self.left.name(), "specification"),
            Between::RightAndSpecification => (self.right.name(), "specification"),
        };
        println!("{left}: {}", shorten(&unlike.left));
        println!("{right}: {}", shorten(&unlike.right));
        let only = only.map_or(String::new(), |only| format!(" --only {}", ranges(only)));
        println!(
            "replay: cargo run --profile fast -p vetch-tests -- differential --left {} --right {} --seeds {seed} --steps {steps}{only}\n",
            self.left.name(),
            self.right.name()
        );
    }
}

impl Tally {
    fn count(&mut self, request: &Request, left: &Answer, right: &Answer) {
        self.requests += 1;
        if left.text.starts_with("error") && right.text.starts_with("error") {
            self.refused += 1;
        }
        if let (Some(left), Some(right)) = (left.hash, right.hash) {
            self.hashes += 1;
            self.equal_hashes += usize::from(left == right);
        }
        let text = format!("{request:?}");
        let kind = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
        let (sent, refused) = self.kinds.entry(kind).or_default();
        *sent += 1;
        *refused += usize::from(left.text.starts_with("error"));
    }
}

/// `1-3,7` for 1, 2, 3 and 7.
fn ranges(steps: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &step in steps {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == step => *last = step,
            _ => parts.push((step, step)),
        }
    }
    let text = |(first, last): &(usize, usize)| match first == last {
        true => format!("{first}"),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

fn parse_ranges(text: &str) -> Result<Steps, std::num::ParseIntError> {
    let mut steps = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        steps.extend(first.parse::<usize>()?..=last.parse::<usize>()?);
    }
    Ok(Steps(steps))
}

/// Values can be megabytes.
fn shorten(text: &str) -> String {
    const LIMIT: usize = 6_000;
    text.lines()
        .map(|line| {
            if line.len() > 300 { format!("{}... ({} bytes)", &line[..200], line.len()) } else { line.into() }
        })
        .collect::<Vec<_>>()
        .join("\n")
        .chars()
        .take(LIMIT)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{parse_ranges, ranges};

    #[test]
    fn steps_survive_the_command_line() {
        let steps = vec![1, 2, 3, 7, 9, 10];
        assert_eq!(ranges(&steps), "1-3,7,9-10");
        assert_eq!(parse_ranges("1-3,7,9-10").unwrap().0, steps);
        assert!(parse_ranges("1-").is_err());
    }
}
