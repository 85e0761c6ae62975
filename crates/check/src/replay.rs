//! Replay: all revisions in their order through the specification.
//!
//! A revision that an answered write claims is that write; its answer must be the specification's. Any other revision
//! needs an explanation: an answered revoke of a lease with keys, a write whose outcome is unknown and that was called
//! before anybody saw the revision, or the end of a lease that has keys. Explanations that contradict what watchers and
//! readers saw are out. Where several are left they are tried in turn, each until the first contradiction with a later
//! answer. So the search is complete; it gives up after a number of attempts, and then says so.
//!
//! After each revision every answer that shows it and changed nothing is compared with the specification.
//!
//! Not decided here: leases and compactions, which take no revision, and refusals.

mod judge;
mod path;

use std::collections::{BTreeMap, BTreeSet};

use vetch_model::{Event, Op, Request};

use path::Path;

use crate::evidence::{Evidence, Written, gather};
use crate::facts::{all_ops, changed};
use crate::hints::Hints;
use crate::history::{History, Outcome};
use crate::seen::Seen;
use crate::sightings::Sightings;
use crate::violation::{Kind, Violation};
use crate::world::World;

/// Explanations taken back before the search gives up.
const ATTEMPTS: usize = 5_000;

/// Who made a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// The operation with this index, which was answered.
    Answered(usize),
    /// The operation with this index, whose outcome is unknown.
    Unknown(usize),
    /// The end of this lease's time.
    Expiry(i64),
}

/// All revisions, explained.
pub(crate) struct Replayed {
    pub(crate) world: World,
    /// The makers of the revisions from 2 on.
    pub(crate) makers: Vec<Maker>,
    /// Answers that changed nothing and were compared.
    pub(crate) reads: usize,
}

impl Replayed {
    pub(crate) fn maker(&self, revision: i64) -> Option<Maker> {
        self.makers.get(usize::try_from(revision - 2).ok()?).copied()
    }
}

/// A point of the search where more than one explanation was left.
struct Choice {
    /// How many revisions were explained before.
    length: usize,
    left: Vec<Maker>,
}

struct Replay<'h> {
    history: &'h History,
    seen: &'h Seen<'h>,
    writes: &'h BTreeMap<i64, usize>,
    /// The operations with an answer that does not say that it changed anything, by the revision it shows.
    quiet: BTreeMap<i64, Vec<usize>>,
    /// Writes that may have happened, with their single operations.
    unknown: Vec<(usize, Vec<Op>)>,
    /// Hashes by their revisions.
    hashes: BTreeMap<i64, Vec<usize>>,
    evidence: BTreeMap<i64, Evidence>,
    written: Written,
    sightings: Sightings,
    hints: Hints,
    forbidden: &'h [(i64, Maker)],
    /// Whether leases may end before their time, and what was seen may contradict what answered writes did.
    lenient: bool,
}

/// Explains all revisions, none of them by what `forbidden` says of it.
pub(crate) fn replay(
    history: &History,
    seen: &Seen<'_>,
    writes: &BTreeMap<i64, usize>,
    forbidden: &[(i64, Maker)],
) -> Result<Replayed, Violation> {
    let mut replay = Replay::new(history, seen, writes, forbidden);
    replay.run().or_else(|violation| {
        // Leases that end too early, and what watchers were told wrongly, are named by other checks, if the revisions
        // can be explained with them.
        if violation.kind == Kind::GaveUp {
            return Err(violation);
        }
        replay.lenient = true;
        replay.run().map_err(|_| violation)
    })
}

impl<'h> Replay<'h> {
    fn new(
        history: &'h History,
        seen: &'h Seen<'h>,
        writes: &'h BTreeMap<i64, usize>,
        forbidden: &'h [(i64, Maker)],
    ) -> Replay<'h> {
        let mut quiet: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        let mut unknown = Vec::new();
        for (index, operation) in history.operations.iter().enumerate() {
            match &operation.outcome {
                Outcome::Answered { revision, answer } if !changed(answer) => {
                    quiet.entry(*revision).or_default().push(index);
                }
                Outcome::Unknown if writes_keys(&operation.request) => {
                    unknown.push((index, all_ops(&operation.request)));
                }
                _ => {}
            }
        }
        unknown.sort_by_key(|&(index, _)| history.operations[index].called);
        let gaps: BTreeSet<i64> = (2..=seen.newest()).filter(|rev| !writes.contains_key(rev)).collect();
        let (evidence, written) = gather(history, &gaps);
        let sightings = if gaps.is_empty() { Sightings::default() } else { Sightings::new(history, writes) };
        let mut hashes: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (index, hash) in history.hashes.iter().enumerate() {
            hashes.entry(hash.revision).or_default().push(index);
        }
        let hints = Hints::new(history);
        Replay {
            history,
            seen,
            writes,
            quiet,
            unknown,
            hashes,
            evidence,
            sightings,
            hints,
            forbidden,
            written,
            lenient: false,
        }
    }

    fn run(&self) -> Result<Replayed, Violation> {
        let mut path = Path::new(self.history, self.seen.newest());
        let mut choices: Vec<Choice> = Vec::new();
        let mut attempts = 0;
        let mut deepest: Option<(i64, Violation)> = None;
        let mut failed = self.check_quiet(&path.world, 1).err();
        loop {
            let revision = path.next();
            let step = match failed.take() {
                Some(violation) => Err(violation),
                None if revision > self.seen.newest() => break,
                None => self.step(&mut path, &mut choices),
            };
            let Err(violation) = step else { continue };
            if deepest.as_ref().is_none_or(|(depth, _)| revision > *depth) {
                deepest = Some((revision, violation));
            }
            attempts += 1;
            // The newest choice with anything left is tried again with its next explanation.
            let Some(choice) = choices.pop() else {
                return Err(deepest.expect("something failed").1);
            };
            if attempts > ATTEMPTS {
                return Err(gave_up(deepest.expect("something failed").1));
            }
            path.back_to(choice.length);
            failed = self.take(&mut path, choice.left, &mut choices).err();
        }
        let reads = self.quiet.values().map(Vec::len).sum();
        Ok(Replayed { world: path.world, makers: path.makers, reads })
    }

    /// Goes on by one revision.
    fn step(&self, path: &mut Path<'_>, choices: &mut Vec<Choice>) -> Result<(), Violation> {
        let revision = path.next();
        if let Some(&index) = self.writes.get(&revision) {
            path.makers.push(Maker::Answered(index));
            self.apply_answered(&mut path.world, index, revision)?;
            if !self.lenient && !self.written.agrees(&path.world, revision) {
                return Err(self.contradicted(index, revision));
            }
            return self.check_quiet(&path.world, revision);
        }
        let explanations = self.explanations(&path.world, &path.makers, revision);
        self.take(path, explanations, choices)
    }

    /// Takes the first explanation that does not fail at once; the others are kept for later.
    fn take(
        &self,
        path: &mut Path<'_>,
        mut left: Vec<Maker>,
        choices: &mut Vec<Choice>,
    ) -> Result<(), Violation> {
        let (length, revision) = (path.makers.len(), path.next());
        let mut violation = None;
        path.rest();
        while !left.is_empty() {
            let maker = left.remove(0);
            if !self.is_plausible(&path.world, maker, revision) {
                continue;
            }
            path.makers.push(maker);
            match self.explain(&mut path.world, maker, revision) {
                Ok(()) => {
                    if !left.is_empty() {
                        choices.push(Choice { length, left });
                    }
                    return Ok(());
                }
                // What an explanation contradicts says more than that there is none.
                Err(found) => violation = violation.or(Some(found)),
            }
            path.back_to(length);
        }
        Err(violation.unwrap_or_else(|| self.unexplained(revision)))
    }

    /// Everything that may have made the revision, the likeliest first.
    fn explanations(&self, world: &World, makers: &[Maker], revision: i64) -> Vec<Maker> {
        let evidence = &self.evidence[&revision];
        let mut found = Vec::new();
        for &index in self.quiet.get(&revision).into_iter().flatten() {
            let operation = &self.history.operations[index];
            if let Request::LeaseRevoke { id } = operation.request
                && operation.called <= self.seen.first(revision)
                && world.attached().get(&id).is_some_and(|keys| evidence.allows_end(keys))
            {
                found.push(Maker::Answered(index));
            }
        }
        let used = self.used(makers);
        for (index, ops) in &self.unknown {
            let operation = &self.history.operations[*index];
            if operation.called > self.seen.first(revision) {
                break;
            }
            let allowed = match operation.request {
                Request::LeaseRevoke { id } => {
                    world.attached().get(&id).is_some_and(|keys| evidence.allows_end(keys))
                }
                Request::Put(ref put) if put.lease != 0 => {
                    evidence.allows(ops) && self.hints.granted_by(put.lease, self.seen.first(revision))
                }
                _ => evidence.allows(ops),
            };
            if allowed && !used.contains(index) {
                found.push(Maker::Unknown(*index));
            }
        }
        let ends = world.attached().iter().filter(|(_, keys)| evidence.allows_end(keys)).map(|(&id, _)| id);
        let timely = |id: &i64| self.hints.may_end(*id, revision, self.seen.first(revision));
        let (timely, early): (Vec<i64>, Vec<i64>) = ends.partition(timely);
        found.extend(timely.into_iter().chain(early.into_iter().filter(|_| self.lenient)).map(Maker::Expiry));
        found.retain(|maker| !self.forbidden.contains(&(revision, *maker)));
        found
    }

    /// The operations of unknown outcome that explain an earlier revision already.
    fn used(&self, makers: &[Maker]) -> BTreeSet<usize> {
        let gaps = self.evidence.keys().map_while(|gap| makers.get((gap - 2) as usize));
        let used = gaps.filter_map(|maker| match maker {
            Maker::Unknown(index) => Some(*index),
            _ => None,
        });
        used.collect()
    }

    /// Whether the explanation goes with what was seen, as far as that can be told before it is tried.
    fn is_plausible(&self, world: &World, maker: Maker, revision: i64) -> bool {
        world
            .preview(&path::request(self.history, maker))
            .is_none_or(|events| self.is_seen(&events, revision))
    }

    /// Whether these changes of the revision go with what was seen.
    fn is_seen(&self, events: &[Event], revision: i64) -> bool {
        !events.is_empty()
            && self.evidence[&revision].agrees(self.history, events)
            && events.iter().all(|event| self.sightings.allow(event))
    }

    fn explain(&self, world: &mut World, maker: Maker, revision: i64) -> Result<(), Violation> {
        let made = world.apply(&path::request(self.history, maker)).is_ok() && world.revision() == revision;
        if !made || !self.is_seen(world.events(revision), revision) {
            return Err(self.unexplained(revision));
        }
        self.check_quiet(world, revision)
    }
}

fn writes_keys(request: &Request) -> bool {
    match request {
        Request::Put(_) | Request::Delete(_) | Request::LeaseRevoke { .. } => true,
        Request::Txn(txn) => !txn.only_reads(),
        _ => false,
    }
}

fn gave_up(deepest: Violation) -> Violation {
    let text = format!("more than {ATTEMPTS} explanations were tried; the furthest failed with {deepest}");
    Violation::new(Kind::GaveUp, text)
}
