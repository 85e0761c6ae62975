//! What was done to a server, in order, and what the specification makes of it at any revision.
//!
//! Every write that clients race with carries its number under a key of its own, so that a write
//! whose answer a kill took away can be told from the events of its revision. What makes no
//! revision (leases, compactions, users) is done while no other client writes, so its place is
//! known.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use vetch_model::{Model, Request};

/// What makes no revision.
#[derive(Debug, Clone)]
pub(super) enum Quiet {
    Request(Request),
    User(String),
}

#[derive(Debug, Default)]
pub(super) struct History {
    /// By the revision each made.
    writes: BTreeMap<i64, Request>,
    /// Behind which revision it happened.
    quiet: Vec<(i64, Quiet)>,
}

/// The state at one point.
pub(super) struct Expected {
    pub(super) model: Model,
    pub(super) users: BTreeSet<String>,
}

impl History {
    pub(super) fn write(&mut self, revision: i64, request: Request) -> Result<()> {
        let before = self.writes.insert(revision, request);
        ensure!(before.is_none(), "revision {revision} was given out twice");
        Ok(())
    }

    pub(super) fn quiet(&mut self, after: i64, quiet: Quiet) {
        self.quiet.push((after, quiet));
    }

    pub(super) fn knows(&self, revision: i64) -> bool {
        self.writes.contains_key(&revision)
    }

    pub(super) fn newest(&self) -> i64 {
        self.writes.keys().next_back().copied().unwrap_or(1)
    }

    /// Whether something without a revision happened between this one and the next.
    pub(super) fn is_ambiguous(&self, revision: i64) -> bool {
        self.quiet.iter().any(|(after, _)| *after == revision)
    }

    /// In the moment `revision` was written.
    pub(super) fn at(&self, revision: i64) -> Result<Expected> {
        self.replay(revision, |after| after < revision)
    }

    /// The same, with everything up to the write that followed.
    pub(super) fn until_after(&self, revision: i64) -> Result<Expected> {
        self.replay(revision, |after| after <= revision)
    }

    fn replay(&self, revision: i64, includes: impl Fn(i64) -> bool) -> Result<Expected> {
        let mut expected = Expected { model: Model::new(), users: BTreeSet::new() };
        let mut quiet = self.quiet.iter().filter(|(after, _)| includes(*after)).peekable();
        for at in 1..=revision {
            if at > 1 {
                let request =
                    self.writes.get(&at).with_context(|| format!("no request made revision {at}"))?;
                let made = expected.model.evaluate(request).map(|(revision, _)| revision);
                ensure!(
                    made == Ok(at),
                    "the specification makes {made:?} of what made revision {at}: {request:?}"
                );
            }
            while let Some((_, quiet)) = quiet.next_if(|(after, _)| *after == at) {
                expected.apply(quiet)?;
            }
        }
        Ok(expected)
    }
}

impl Expected {
    fn apply(&mut self, quiet: &Quiet) -> Result<()> {
        match quiet {
            Quiet::User(name) => {
                self.users.insert(name.clone());
            }
            Quiet::Request(request) => {
                let before = self.model.revision();
                let outcome = self.model.evaluate(request);
                let made = outcome.map_err(|refusal| anyhow::anyhow!("{request:?} is refused: {refusal}"))?.0;
                ensure!(made == before, "{request:?} was to make no revision");
            }
        }
        Ok(())
    }
}
