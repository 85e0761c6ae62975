//! Two servers that are asked the same, and their answers compared with each other and with the
//! specification.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use vetch_api::pb;

use super::generate::World;
use super::request::{Request, SETTLED};
use super::side::{Answer, FUTURE_TIMEOUT, Lines, Side};
use super::spec::Contradiction;
use super::{Tally, deviations};
use crate::server::Kind;

/// Two answers that should be the same.
pub(super) struct Unlike {
    pub(super) left: String,
    pub(super) right: String,
    pub(super) between: Between,
}

pub(super) enum Between {
    Servers,
    /// The specification's stands on the right.
    LeftAndSpecification,
    RightAndSpecification,
}

type Unequal = Option<Unlike>;

impl Unlike {
    fn servers(left: String, right: String) -> Unequal {
        Some(Unlike { left, right, between: Between::Servers })
    }

    fn specified(between: Between, contradiction: Contradiction) -> Unequal {
        let Contradiction { said, specified } = contradiction;
        Some(Unlike { left: said, right: specified, between })
    }
}

/// Two servers and what is known about both.
pub(super) struct Pair {
    left: Side,
    right: Side,
    pub(super) world: World,
}

impl Pair {
    pub(super) async fn start(left: Kind, right: Kind) -> Result<Pair> {
        let (left, right) = tokio::try_join!(Side::start(left), Side::start(right))?;
        let world = World { revision: 1, ..Default::default() };
        let mut pair = Pair { left, right, world };
        let (id, other) = tokio::try_join!(pair.left.anchor(), pair.right.anchor())?;
        if id != other {
            bail!("the first watcher has id {id} on one side and {other} on the other");
        }
        pair.world.watchers[SETTLED].push(id);
        Ok(pair)
    }

    /// Whether a request is known to end a server.
    pub(super) fn is_fatal(&self, request: &Request) -> bool {
        self.left.kills_etcd(request)
    }

    pub(super) async fn step(&mut self, request: &Request, tally: &mut Tally) -> Result<Unequal> {
        if matches!(request, Request::WatchSettle) {
            return self.settle(tally).await;
        }
        let work = async {
            tokio::join!(self.left.perform(request, &self.world), self.right.perform(request, &self.world))
        };
        // A request that never comes back is a difference like any other.
        let limit = Duration::from_secs(30);
        let (left, right) = match tokio::time::timeout(limit, work).await {
            Ok((left, right)) => (or_failure(left), or_failure(right)),
            Err(_) => {
                return Ok(Unlike::servers(
                    "answered?".into(),
                    format!("no answer from both within {limit:?}"),
                ));
            }
        };
        tally.count(request, &left, &right);
        if let Some(reason) = deviations::deliberate(request, &left.text, &right.text) {
            *tally.deviations.entry(reason).or_default() += 1;
            return Ok(None);
        }
        if left.text != right.text || left.watcher != right.watcher {
            return Ok(Unlike::servers(left.text, right.text));
        }
        self.learn(request, &left);
        Ok(self.judge(request, &left, &right, tally))
    }

    /// Does the specification say the same as the servers?
    fn judge(&mut self, request: &Request, left: &Answer, right: &Answer, tally: &mut Tally) -> Unequal {
        let verdicts = [
            (Between::LeftAndSpecification, self.left.judge(request, left)),
            (Between::RightAndSpecification, self.right.judge(request, right)),
        ];
        for (between, verdict) in verdicts {
            match verdict {
                Ok(judged) => tally.judged += usize::from(judged),
                Err(contradiction) => return Unlike::specified(between, contradiction),
            }
        }
        None
    }

    pub(super) async fn same_revision(&mut self) -> Result<bool> {
        let (left, right) = tokio::try_join!(self.left.client.revision(), self.right.client.revision())?;
        self.world.revision = left;
        Ok(left == right)
    }

    fn learn(&mut self, request: &Request, answer: &Answer) {
        self.world.revision = self.world.revision.max(answer.revision);
        match request {
            Request::Compact(compaction) if answer.ok => {
                self.world.compacted = compaction.revision;
                self.world.compactions.push(compaction.revision);
            }
            Request::Grant(grant) if answer.ok && grant.id == 0 => self.world.chosen_leases += 1,
            Request::WatchCreate(stream, _) => self.world.watchers[*stream].extend(answer.watcher),
            Request::WatchCancel(stream, id) => self.world.watchers[*stream].retain(|watcher| watcher != id),
            _ => {}
        }
    }

    /// Waits until both servers have sent all they have for the watchers of past and present, and
    /// compares it.
    ///
    /// A write comes first: only progress up to its revision is surely an answer to a question
    /// asked after the last watcher was created.
    pub(super) async fn settle(&mut self, tally: &mut Tally) -> Result<Unequal> {
        let mark = Request::Put(pb::PutRequest { key: "~mark".into(), ..Default::default() });
        let (left, right) =
            tokio::join!(self.left.perform(&mark, &self.world), self.right.perform(&mark, &self.world));
        let (left, right) = (or_failure(left), or_failure(right));
        if left.text != right.text {
            return Ok(Unlike::servers(left.text, right.text));
        }
        self.learn(&mark, &left);
        if let Some(unlike) = self.judge(&mark, &left, &right, tally) {
            return Ok(Some(unlike));
        }
        let settle = Request::WatchSettle;
        let (left, right) =
            tokio::join!(self.left.perform(&settle, &self.world), self.right.perform(&settle, &self.world));
        let (left, right) = (or_failure(left), or_failure(right));
        if !left.text.is_empty() || !right.text.is_empty() {
            return Ok(Unlike::servers(left.text, right.text));
        }
        let compacted = self.world.compacted;
        let (left, right) = (self.left.settled_lines(compacted), self.right.settled_lines(compacted));
        // Compaction ends watchers by itself.
        let ended = |id: &i64| {
            left.get(id).is_some_and(|lines| lines.iter().any(|line| line.starts_with("canceled")))
        };
        self.world.watchers[SETTLED].retain(|id| !ended(id));
        if left != right {
            return Ok(first_unequal(&left, &right));
        }
        match judged(self.left.judge_settled(&left), self.right.judge_settled(&right)) {
            Ok(events) => tally.judged_events += events,
            Err(unlike) => return Ok(unlike),
        }
        self.settle_future(FUTURE_TIMEOUT).await
    }

    /// Watchers of the future cannot vouch for progress; what they were sent must become equal
    /// soon.
    async fn settle_future(&mut self, timeout: Duration) -> Result<Unequal> {
        let deadline = Instant::now() + timeout;
        loop {
            let compacted = self.world.compacted;
            let (left, right) = (self.left.future_lines(compacted), self.right.future_lines(compacted));
            let judged = judged(self.left.judge_future(&left), self.right.judge_future(&right));
            if left == right && judged.is_ok() {
                return Ok(None);
            }
            if Instant::now() > deadline {
                return Ok(first_unequal(&left, &right).or_else(|| judged.err().flatten()));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// At the end of a sequence: nothing more may come, either.
    pub(super) async fn settle_for_good(&mut self, tally: &mut Tally) -> Result<Unequal> {
        let unequal = self.settle(tally).await?;
        if unequal.is_some() {
            return Ok(unequal);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.settle(tally).await
    }
}

/// How many events both servers sent as specified.
fn judged(left: Result<usize, Contradiction>, right: Result<usize, Contradiction>) -> Result<usize, Unequal> {
    let left = left.map_err(|wrong| Unlike::specified(Between::LeftAndSpecification, wrong))?;
    let right = right.map_err(|wrong| Unlike::specified(Between::RightAndSpecification, wrong))?;
    Ok(left + right)
}

/// A broken connection or stream is an answer too, and one that differs from any good one.
fn or_failure(answer: Result<Answer>) -> Answer {
    answer.unwrap_or_else(|error| Answer { text: format!("failed: {error:#}"), ..Default::default() })
}

fn first_unequal(left: &Lines, right: &Lines) -> Unequal {
    for id in left.keys().chain(right.keys()) {
        let (Some(ours), Some(theirs)) = (left.get(id), right.get(id)) else {
            let show = |lines: Option<&Vec<String>>| match lines {
                Some(lines) => format!("watcher {id}: {lines:#?}"),
                None => format!("watcher {id}: nothing"),
            };
            return Unlike::servers(show(left.get(id)), show(right.get(id)));
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
            return Unlike::servers(show(ours), show(theirs));
        }
    }
    None
}
