//! Plan: from a revision or a time to the full backup and the chunks that lead there.

use super::{Catalog, Restorable, Timeline};
use crate::depot::Depot;
use crate::error::BackupError;
use crate::format::{Chunk, ChunkInfo, Full, Mark, chunk_name};
use crate::times;
use vetch_base::Seq;

/// What is to be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The end of the backup.
    Newest,
    /// The state in the moment this revision was written.
    Revision(i64),
    /// What is known to have been durable at this time, in milliseconds since 1970.
    Time(u64),
}

/// Where replay ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    End,
    AfterRevision(i64),
    AfterEntry(Seq),
}

/// What a restore needs.
#[derive(Debug, Clone)]
pub struct Plan {
    pub full: Full,
    /// In order, without gaps, from the beginning of the segment with the entry behind the full
    /// backup. None if that is all that is needed.
    pub chunks: Vec<ChunkInfo>,
    pub stop: Stop,
    /// For a time: the mark that was chosen.
    pub mark: Option<Mark>,
}

/// A point in one of the timelines.
#[derive(Debug, Clone, Copy)]
struct Found<'a> {
    timeline: &'a Timeline,
    mark: Mark,
}

impl Catalog {
    /// What is needed to restore `target`, from the journal of that id if one is given.
    pub fn plan(&self, depot: &Depot, target: Target, journal: Option<&str>) -> Result<Plan, BackupError> {
        let timelines: Vec<&Timeline> = self
            .timelines
            .iter()
            .filter(|timeline| journal.is_none_or(|id| timeline.journal == id))
            .collect();
        if let (Some(id), []) = (journal, timelines.as_slice()) {
            return Err(BackupError::Refused(format!("there is no journal {id} in this backup")));
        }
        match target {
            Target::Newest => self.newest(&timelines),
            Target::Revision(revision) => self.at_revision(&timelines, revision),
            Target::Time(time) => self.at_time(depot, &timelines, time),
        }
    }

    fn newest(&self, timelines: &[&Timeline]) -> Result<Plan, BackupError> {
        let newest = timelines.iter().filter_map(|timeline| timeline.to_the_end());
        let (_, plan) = newest
            .max_by_key(|(time, _)| *time)
            .ok_or_else(|| self.refused("there is no full backup that could be used"))?;
        // A restore of the newest revision must not silently restore an older one.
        let lost = timelines.iter().filter(|timeline| timeline.journal == plan.full.journal);
        if lost.flat_map(|timeline| &timeline.damaged_chunks).any(|&first| first > end_of(&plan)) {
            return Err(
                self.refused("the newest of it is damaged: say which revision or time to restore instead")
            );
        }
        Ok(plan)
    }

    pub(super) fn at_revision(&self, timelines: &[&Timeline], revision: i64) -> Result<Plan, BackupError> {
        let mut plans = timelines.iter().filter_map(|timeline| timeline.to_revision(revision));
        let Some(plan) = plans.next() else {
            return Err(self.refused(&format!("revision {revision} cannot be restored")));
        };
        match plans.next() {
            None => Ok(plan),
            Some(other) => Err(self.refused(&format!(
                "revision {revision} is in journals {} and {}: say which with --journal",
                plan.full.journal, other.full.journal
            ))),
        }
    }

    fn at_time(&self, depot: &Depot, timelines: &[&Timeline], time: u64) -> Result<Plan, BackupError> {
        let mut best: Option<Found<'_>> = None;
        for timeline in timelines {
            if let Some(mark) = timeline.mark_at(depot, time)?
                && best.is_none_or(|best| best.mark.time < mark.time)
            {
                best = Some(Found { timeline, mark });
            }
        }
        let refused = || self.refused(&format!("nothing is known of {}", times::shown(time)));
        let Found { timeline, mark } = best.ok_or_else(refused)?;
        timeline.to_mark(mark).ok_or_else(|| {
            self.refused(&format!(
                "{} lies where the backup has no full backup before it",
                times::shown(time)
            ))
        })
    }

    fn refused(&self, what: &str) -> BackupError {
        let ranges: Vec<String> = self.restorable().iter().map(Restorable::to_string).collect();
        let ranges = if ranges.is_empty() { "nothing".to_owned() } else { ranges.join("; ") };
        let damage: String = self.damage().map(|damage| format!("; {damage}")).collect();
        BackupError::Refused(format!("{what}. What can be restored: {ranges}{damage}"))
    }
}

impl Timeline {
    /// The plan for everything there is, and the time of its end.
    fn to_the_end(&self) -> Option<(u64, Plan)> {
        let in_runs = self.runs().into_iter().rev().find_map(|run| {
            let full = self.fulls_in(run).next_back()?;
            let chunks = behind(run, full.seq);
            let time = chunks.iter().rev().find_map(|chunk| chunk.times).map_or(full.time, |(_, last)| last);
            Some((time, Plan { full: full.clone(), chunks, stop: Stop::End, mark: None }))
        });
        let newest = self.fulls.last().map(|full| {
            (full.time, Plan { full: full.clone(), chunks: Vec::new(), stop: Stop::End, mark: None })
        });
        // By place, not by time: a full backup behind all chunks is the newest, and one among them
        // is not.
        match (in_runs, newest) {
            (Some(a), Some(b)) if end_of(&a.1) >= b.1.full.seq => Some(a),
            (a, b) => b.or(a),
        }
    }

    /// A full backup from before the revision is preferred: one of the same revision may contain a
    /// lease that came later.
    fn to_revision(&self, revision: i64) -> Option<Plan> {
        let stop = Stop::AfterRevision(revision);
        for run in self.runs() {
            let Some(full) = self.fulls_in(run).rfind(|full| full.revision < revision) else {
                continue;
            };
            let chunks = behind(run, full.seq);
            if let Some(last) =
                chunks.iter().position(|chunk| chunk.revision.is_some_and(|at| at >= revision))
            {
                return Some(Plan { full: full.clone(), chunks: chunks[..=last].to_vec(), stop, mark: None });
            }
        }
        let exact = self.fulls.iter().find(|full| full.revision == revision)?;
        Some(Plan { full: exact.clone(), chunks: Vec::new(), stop, mark: None })
    }

    /// The last mark at or before `time`, among those that can be restored.
    fn mark_at(&self, depot: &Depot, time: u64) -> Result<Option<Mark>, BackupError> {
        let mut best: Option<Mark> = None;
        for run in self.runs() {
            let Some(base) = self.fulls_in(run).next() else { continue };
            let candidate = run.iter().rev().find(|chunk| {
                chunk.last_seq > base.seq && chunk.times.is_some_and(|(first, _)| first <= time)
            });
            let Some(candidate) = candidate else { continue };
            let name = chunk_name(&self.journal, candidate.first_seq);
            let marks = Chunk::decode(&name, &depot.get(&name)?)?.header.marks;
            let usable = marks.into_iter().filter(|mark| mark.time <= time && mark.seq >= base.seq);
            best = usable.chain(best).max_by_key(|mark| (mark.time, mark.seq));
        }
        let fulls = self.fulls.iter().filter(|full| full.time <= time);
        let fulls = fulls.map(|full| Mark { time: full.time, seq: full.seq, revision: full.revision });
        // A full backup is written later than the state it holds, so a mark of a
        // later state is more precise.
        Ok(match (best, fulls.max_by_key(|mark| mark.seq)) {
            (Some(mark), Some(full)) if full.seq > mark.seq => Some(full),
            (None, full) => full,
            (mark, _) => mark,
        })
    }

    fn to_mark(&self, mark: Mark) -> Option<Plan> {
        let (stop, known) = (Stop::AfterEntry(mark.seq), Some(mark));
        for run in self.runs() {
            if let Some(full) = self.fulls_in(run).rfind(|full| full.seq <= mark.seq)
                && run[run.len() - 1].last_seq >= mark.seq
            {
                let mut chunks = behind(run, full.seq);
                chunks.retain(|chunk| chunk.first_seq <= mark.seq);
                return Some(Plan { full: full.clone(), chunks, stop, mark: known });
            }
        }
        let full = self.fulls.iter().find(|full| full.seq == mark.seq)?;
        Some(Plan { full: full.clone(), chunks: Vec::new(), stop, mark: known })
    }
}

fn end_of(plan: &Plan) -> Seq {
    plan.chunks.last().map_or(plan.full.seq, |chunk| chunk.last_seq)
}

/// The chunks with entries behind `seq`, and those before them in the same segment: a journal is
/// read by whole segments.
fn behind(run: &[ChunkInfo], seq: Seq) -> Vec<ChunkInfo> {
    let Some(first) = run.iter().find(|chunk| chunk.last_seq > seq) else { return Vec::new() };
    run.iter().filter(|chunk| chunk.segment >= first.segment).cloned().collect()
}
