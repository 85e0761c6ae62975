//! Replay: all revisions in their order through the specification.
//!
//! A revision that an answered write claims is that write; its answer must be the specification's.
//! Any other revision needs an explanation: an answered revoke of a lease with keys, a write whose
//! outcome is unknown and that was called before anybody saw the revision, or the end of a lease
//! that has keys. Explanations that contradict what watchers and readers saw are out. Where several
//! are left they are tried in turn, each until the first contradiction with a later answer; no
//! state is gone on from twice (`tried`). So the search is complete; it gives up after a number of
//! steps, and then says so.
//!
//! After each revision every answer that shows it and changed nothing is compared with the
//! specification.
//!
//! Not decided here: leases and compactions, which take no revision, and refusals.

mod judge;
mod path;
mod tried;

use std::collections::{BTreeMap, BTreeSet};

use vetch_model::{Event, Op, Request};

use path::Path;
use tried::{Gaps, Tried};

use crate::evidence::{Evidence, Written, gather};
use crate::facts::{all_ops, changed};
use crate::hints::Hints;
use crate::history::{History, Outcome};
use crate::seen::Seen;
use crate::sightings::Sightings;
use crate::violation::{Kind, Violation};
use crate::world::World;

/// Revisions gone through once more before the search gives up.
const STEPS: usize = 2_000_000;

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

/// What is known of a history, to explain its revisions with.
pub(crate) struct Replay<'h> {
    history: &'h History,
    seen: &'h Seen<'h>,
    writes: &'h BTreeMap<i64, usize>,
    /// The operations with an answer that does not say that it changed anything, by the revision it
    /// shows.
    quiet: BTreeMap<i64, Vec<usize>>,
    /// Writes that may have happened, with their single operations.
    unknown: Vec<(usize, Vec<Op>)>,
    /// Hashes by their revisions.
    hashes: BTreeMap<i64, Vec<usize>>,
    /// Answers about the keys of leases, by their revisions.
    leased: BTreeMap<i64, Vec<usize>>,
    evidence: BTreeMap<i64, Evidence>,
    written: Written,
    sightings: Sightings,
    hints: Hints,
    gaps: Gaps,
}

/// One search.
struct Search<'s> {
    forbidden: &'s [(i64, Maker)],
    /// Whether leases may end before their time, and what was seen may contradict what answered
    /// writes did.
    lenient: bool,
    choices: Vec<Choice>,
    tried: Tried,
}

/// Why a search cannot go on from where it is.
enum Dead {
    Wrong(Violation),
    /// No explanation of the next revision goes with what was seen.
    Unexplained,
    /// It was there before.
    Known,
}

impl From<Violation> for Dead {
    fn from(violation: Violation) -> Dead {
        Dead::Wrong(violation)
    }
}

impl<'h> Replay<'h> {
    pub(crate) fn new(
        history: &'h History,
        seen: &'h Seen<'h>,
        writes: &'h BTreeMap<i64, usize>,
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
        let mut leased: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (index, leased_keys) in history.leased.iter().enumerate() {
            leased.entry(leased_keys.revision).or_default().push(index);
        }
        let (hints, gaps) = (Hints::new(history), Gaps::new(history, gaps));
        let mut replay = Replay {
            history,
            seen,
            writes,
            quiet,
            unknown,
            hashes,
            leased,
            evidence,
            written,
            sightings,
            hints,
            gaps,
        };
        replay.gaps.last_use = replay.last_uses();
        replay
    }

    /// The last revision that each request of unknown outcome could explain.
    fn last_uses(&self) -> BTreeMap<usize, i64> {
        let last = |index: usize, ops: &[Op]| {
            let revokes = matches!(self.history.operations[index].request, Request::LeaseRevoke { .. });
            let fits =
                |evidence: &Evidence| if revokes { !evidence.has_puts() } else { evidence.allows(ops) };
            self.evidence.iter().rev().find(|(_, evidence)| fits(evidence)).map(|(gap, _)| *gap)
        };
        self.unknown.iter().filter_map(|(index, ops)| Some((*index, last(*index, ops)?))).collect()
    }

    /// Explains all revisions, none of them by what `forbidden` says of it.
    pub(crate) fn explain(&self, forbidden: &[(i64, Maker)]) -> Result<Replayed, Violation> {
        let search = |lenient| Search { forbidden, lenient, choices: Vec::new(), tried: Tried::default() };
        self.run(&mut search(false)).or_else(|violation| {
            // Leases that end too early, and wrong events of watchers, are named by other
            // checks, if the revisions can be explained with them.
            if violation.kind == Kind::GaveUp {
                return Err(violation);
            }
            self.run(&mut search(true)).map_err(|_| violation)
        })
    }

    fn run(&self, search: &mut Search<'_>) -> Result<Replayed, Violation> {
        let mut path = Path::default();
        let mut steps = STEPS + self.seen.newest() as usize;
        let mut deepest: Option<(i64, Violation)> = None;
        let mut failed = self.check_quiet(&path.world, 1).map_err(Dead::Wrong).err();
        loop {
            let revision = path.next();
            let Some(left) = steps.checked_sub(1) else {
                return Err(gave_up(deepest.expect("nothing is gone through twice before").1));
            };
            steps = left;
            let step = match failed.take() {
                Some(dead) => Err(dead),
                None if revision > self.seen.newest() => break,
                None => self.step(&mut path, search),
            };
            let Err(dead) = step else { continue };
            if deepest.as_ref().is_none_or(|(depth, _)| revision > *depth) {
                let violation = match dead {
                    Dead::Wrong(violation) => Some(violation),
                    Dead::Unexplained => Some(self.contradiction(&mut path, revision, search)),
                    Dead::Known => None,
                };
                deepest = violation.map(|violation| (revision, violation)).or(deepest);
            }
            // The newest choice with anything left is tried again with its next explanation.
            let Some(choice) = search.choices.pop() else {
                return Err(deepest.expect("something failed").1);
            };
            path.back_to(choice.length);
            failed = self.take(&mut path, choice.left, search).err();
        }
        let reads = self.quiet.values().map(Vec::len).sum();
        Ok(Replayed { world: path.world, makers: path.makers, reads })
    }

    /// Goes on by one revision.
    fn step(&self, path: &mut Path, search: &mut Search<'_>) -> Result<(), Dead> {
        let revision = path.next();
        if let Some(&index) = self.writes.get(&revision) {
            path.makers.push(Maker::Answered(index));
            self.apply_answered(&mut path.world, index, revision)?;
            if !search.lenient && !self.written.agrees(&path.world, revision) {
                return Err(self.contradicted(index, revision).into());
            }
            return Ok(self.check_quiet(&path.world, revision)?);
        }
        if !search.tried.is_new(path, &self.gaps) {
            return Err(Dead::Known);
        }
        let explanations = self.explanations(path, revision, search);
        self.take(path, explanations, search)
    }

    /// Takes the first explanation that does not fail at once; the others are kept for later.
    fn take(&self, path: &mut Path, mut left: Vec<Maker>, search: &mut Search<'_>) -> Result<(), Dead> {
        let (length, revision) = (path.makers.len(), path.next());
        let mut dead = Dead::Unexplained;
        while !left.is_empty() {
            let maker = left.remove(0);
            if !self.is_plausible(&path.world, maker, revision) {
                continue;
            }
            path.makers.push(maker);
            match self.make(&mut path.world, maker, revision) {
                Ok(()) => {
                    self.gaps.note(path, revision);
                    if !left.is_empty() {
                        search.choices.push(Choice { length, left });
                    }
                    return Ok(());
                }
                // What an explanation contradicts says more than that there is none.
                Err(found @ Dead::Wrong(_)) if matches!(dead, Dead::Unexplained) => dead = found,
                Err(_) => {}
            }
            path.back_to(length);
        }
        Err(dead)
    }

    /// Everything that may have made the revision, the likeliest first.
    fn explanations(&self, path: &Path, revision: i64, search: &Search<'_>) -> Vec<Maker> {
        let world = &path.world;
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
        let used = self.used(&path.makers);
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
        found.extend(
            timely.into_iter().chain(early.into_iter().filter(|_| search.lenient)).map(Maker::Expiry),
        );
        found.retain(|maker| !search.forbidden.contains(&(revision, *maker)));
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

    /// Whether the explanation goes with what was seen, as far as that is known before it is
    /// tried.
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

    fn make(&self, world: &mut World, maker: Maker, revision: i64) -> Result<(), Dead> {
        let made = world.apply(&path::request(self.history, maker)).is_ok() && world.revision() == revision;
        if !made || !self.is_seen(world.events(revision), revision) {
            return Err(Dead::Unexplained);
        }
        Ok(self.check_quiet(world, revision)?)
    }

    /// What speaks against the explanations of a revision that has none: the first answer that
    /// contradicts one.
    fn contradiction(&self, path: &mut Path, revision: i64, search: &Search<'_>) -> Violation {
        let length = path.makers.len();
        for maker in self.explanations(path, revision, search) {
            let made = path.world.apply(&path::request(self.history, maker)).is_ok();
            let fits = made
                && path.world.revision() == revision
                && self.evidence[&revision].agrees(self.history, path.world.events(revision));
            let wrong = self.check_quiet(&path.world, revision).err().filter(|_| fits);
            path.back_to(length);
            if let Some(violation) = wrong {
                return violation;
            }
        }
        self.unexplained(revision)
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
    let text = format!("more than {STEPS} revisions were tried again; the furthest failed with {deepest}");
    Violation::new(Kind::GaveUp, text)
}
