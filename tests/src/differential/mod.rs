//! The differential trial: the same requests to two servers, and every answer compared.
//!
//! A run is a number of sequences; each has a seed and two fresh servers. Requests go out one after the other, to both
//! servers, so both must give every write the same revision. On a difference the trial prints both answers and the
//! command that replays the sequence, then looks for the shortest part of it that still differs.
//!
//! Not here: behaviour that depends on time, such as lease expiry, locks and elections (`scenarios`), and restarts
//! (`kill`).

mod deviations;
mod generate;
mod mask;
mod request;
mod side;
mod watches;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use generate::{Generator, World};
use request::{Request, SETTLED};
use side::{Answer, PATIENCE, Side};
use vetch_api::pb;

use crate::chance::Chance;
use crate::server::Kind;

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
    /// Seeds to run; none means the fixed ones and a fresh one.
    #[arg(long, env = "VETCH_DIFF_SEEDS", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Run only these steps of the sequence, such as 3,7-12.
    #[arg(long, value_parser = parse_ranges)]
    only: Option<Steps>,
    /// Steps per sequence; given in replay commands, because it fixes where a sequence ends.
    #[arg(long)]
    steps: Option<usize>,
    /// Do not stop at a difference that left both servers at the same revision: print it briefly and go on.
    #[arg(long)]
    keep_going: bool,
    /// After a difference, look for a shorter sequence that shows it.
    #[arg(long, default_value_t = 60)]
    shrink_seconds: u64,
}

/// Sequences that have found something once, and some that have not yet.
const SEEDS: [u64; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];

#[derive(Clone, Debug)]
struct Steps(Vec<usize>);

struct Difference {
    step: usize,
    request: String,
    left: String,
    right: String,
}

#[derive(Default)]
struct Tally {
    requests: usize,
    refused: usize,
    hashes: usize,
    equal_hashes: usize,
    /// Differences that `--keep-going` went past.
    passed_over: usize,
    deviations: BTreeMap<&'static str, usize>,
    /// Per kind of request: sent, refused.
    kinds: BTreeMap<String, (usize, usize)>,
}

impl Differential {
    pub(crate) async fn run(&self) -> Result<()> {
        let fresh = fresh_seed();
        let seeds: Vec<u64> = if self.seeds.is_empty() {
            SEEDS.into_iter().chain([fresh]).collect()
        } else {
            self.seeds.clone()
        };
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
        ensure!(tally.passed_over == 0, "{} differences", tally.passed_over);
        Ok(())
    }

    /// Runs the chosen steps of a seed on fresh servers.
    async fn sequence(&self, seed: u64, steps: &[usize], tally: &mut Tally) -> Result<Option<Difference>> {
        let mut pair = Pair::start(self.left, self.right).await?;
        for &step in steps {
            let request =
                Generator { chance: Chance::for_step(seed, step), world: &pair.world, sane: false }.request();
            let settled = if request.needs_settled_watches() { pair.settle().await? } else { None };
            let watched = settled.map(|unequal| ("the watchers' output up to here".to_owned(), unequal));
            let answered =
                pair.step(&request, tally).await?.map(|unequal| (format!("{request:#?}"), unequal));
            for (request, (left, right)) in watched.into_iter().chain(answered) {
                let difference = Difference { step, request, left, right };
                if !self.keep_going || !pair.same_revision().await? {
                    return Ok(Some(difference));
                }
                self.print(seed, steps.len(), &difference, None);
                tally.passed_over += 1;
            }
        }
        let step = steps.last().copied().unwrap_or(0);
        let last = pair.settle_for_good().await?;
        Ok(last.map(|(left, right)| Difference {
            step,
            request: "the watchers' whole output".into(),
            left,
            right,
        }))
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
        let Difference { step, request, left, right } = difference;
        println!("DIFFERENCE at seed {seed}, step {step}\nrequest: {}", shorten(request));
        println!("{}: {}", self.left.name(), shorten(left));
        println!("{}: {}", self.right.name(), shorten(right));
        let only = only.map_or(String::new(), |only| format!(" --only {}", ranges(only)));
        println!(
            "replay: cargo run --profile fast -p vetch-tests -- differential --left {} --right {} --seeds {seed} --steps {steps}{only}\n",
            self.left.name(),
            self.right.name()
        );
    }
}

/// Two servers and what is known about both.
struct Pair {
    left: Side,
    right: Side,
    world: World,
}

type Unequal = Option<(String, String)>;

impl Pair {
    async fn start(left: Kind, right: Kind) -> Result<Pair> {
        let (left, right) = tokio::try_join!(Side::start(left), Side::start(right))?;
        let mut pair = Pair { left, right, world: World { revision: 1, ..Default::default() } };
        let (id, other) = tokio::try_join!(pair.left.anchor(), pair.right.anchor())?;
        if id != other {
            bail!("the first watcher has id {id} on one side and {other} on the other");
        }
        pair.world.watchers[SETTLED].push(id);
        Ok(pair)
    }

    async fn step(&mut self, request: &Request, tally: &mut Tally) -> Result<Unequal> {
        if matches!(request, Request::WatchSettle) {
            return self.settle().await;
        }
        let work = async {
            tokio::join!(self.left.perform(request, &self.world), self.right.perform(request, &self.world))
        };
        // A request that never comes back is a difference like any other.
        let limit = Duration::from_secs(30);
        let (left, right) = match tokio::time::timeout(limit, work).await {
            Ok((left, right)) => (or_failure(left), or_failure(right)),
            Err(_) => return Ok(Some(("answered?".into(), format!("no answer from both within {limit:?}")))),
        };
        tally.count(request, &left, &right);
        if let Some(reason) = deviations::deliberate(request, &left.text, &right.text) {
            *tally.deviations.entry(reason).or_default() += 1;
            return Ok(None);
        }
        if left.text != right.text || left.watcher != right.watcher {
            return Ok(Some((left.text, right.text)));
        }
        self.learn(request, &left);
        Ok(None)
    }

    async fn same_revision(&mut self) -> Result<bool> {
        let (left, right) = tokio::try_join!(self.left.client.revision(), self.right.client.revision())?;
        self.world.revision = left;
        Ok(left == right)
    }

    fn learn(&mut self, request: &Request, answer: &Answer) {
        self.world.revision = self.world.revision.max(answer.revision);
        match request {
            Request::Compact(compaction) if answer.ok => self.world.compacted = compaction.revision,
            Request::Grant(grant) if answer.ok && grant.id == 0 => self.world.chosen_leases += 1,
            Request::WatchCreate(stream, _) => self.world.watchers[*stream].extend(answer.watcher),
            Request::WatchCancel(stream, id) => self.world.watchers[*stream].retain(|watcher| watcher != id),
            _ => {}
        }
    }

    /// Waits until both servers have sent all they have for the watchers of past and present, and compares it.
    ///
    /// A write comes first: only progress up to its revision is surely an answer to a question asked after the last
    /// watcher was created.
    async fn settle(&mut self) -> Result<Unequal> {
        let mark = Request::Put(pb::PutRequest { key: "~mark".into(), ..Default::default() });
        let (left, right) =
            tokio::join!(self.left.perform(&mark, &self.world), self.right.perform(&mark, &self.world));
        let (left, right) = (or_failure(left), or_failure(right));
        if left.text != right.text {
            return Ok(Some((left.text, right.text)));
        }
        self.learn(&mark, &left);
        let settle = Request::WatchSettle;
        let (left, right) =
            tokio::join!(self.left.perform(&settle, &self.world), self.right.perform(&settle, &self.world));
        let (left, right) = (or_failure(left), or_failure(right));
        if !left.text.is_empty() || !right.text.is_empty() {
            return Ok(Some((left.text, right.text)));
        }
        let compacted = self.world.compacted;
        let left = self.left.streams[SETTLED].take(&|id| self.left.mask_lease(id), compacted);
        let right = self.right.streams[SETTLED].take(&|id| self.right.mask_lease(id), compacted);
        // Compaction ends watchers by itself.
        let ended = |id: &i64| {
            left.get(id).is_some_and(|lines| lines.iter().any(|line| line.starts_with("canceled")))
        };
        self.world.watchers[SETTLED].retain(|id| !ended(id));
        if left != right {
            return Ok(Some(first_unequal(&left, &right)));
        }
        self.settle_future(PATIENCE).await
    }

    /// Watchers of the future cannot vouch for progress; what they were sent must become equal soon.
    async fn settle_future(&mut self, patience: Duration) -> Result<Unequal> {
        let deadline = Instant::now() + patience;
        loop {
            let compacted = self.world.compacted;
            let (left, right) = (self.left.future_lines(compacted), self.right.future_lines(compacted));
            if left == right {
                return Ok(None);
            }
            if Instant::now() > deadline {
                return Ok(Some(first_unequal(&left, &right)));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// At the end of a sequence: nothing more may come, either.
    async fn settle_for_good(&mut self) -> Result<Unequal> {
        let unequal = self.settle().await?;
        if unequal.is_some() {
            return Ok(unequal);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.settle().await
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

/// A broken connection or stream is an answer too, and one that differs from any good one.
fn or_failure(answer: Result<Answer>) -> Answer {
    answer.unwrap_or_else(|error| Answer { text: format!("failed: {error:#}"), ..Default::default() })
}

fn first_unequal(left: &BTreeMap<i64, Vec<String>>, right: &BTreeMap<i64, Vec<String>>) -> (String, String) {
    for id in left.keys().chain(right.keys()) {
        let (Some(ours), Some(theirs)) = (left.get(id), right.get(id)) else {
            let show = |lines: Option<&Vec<String>>| match lines {
                Some(lines) => format!("watcher {id}: {lines:#?}"),
                None => format!("watcher {id}: nothing"),
            };
            return (show(left.get(id)), show(right.get(id)));
        };
        if ours != theirs {
            let same = ours.iter().zip(theirs).take_while(|(left, right)| left == right).count();
            let show = |lines: &Vec<String>| {
                let rest = &lines[same.min(lines.len())..];
                format!(
                    "watcher {id}, {} lines, after {same} equal ones: {:#?}",
                    lines.len(),
                    &rest[..rest.len().min(8)]
                )
            };
            return (show(ours), show(theirs));
        }
    }
    ("equal".into(), "equal".into())
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

fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 % 1_000_000_000
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
