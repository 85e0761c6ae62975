//! What answers, hashes and watchers say of one revision, compared with the specification.

use vetch_model::Request;

use super::Replay;
use crate::facts::{all_ops, describe, puts, shorten};
use crate::hash;
use crate::history::Outcome;
use crate::violation::{Kind, Violation};
use crate::world::World;

impl Replay<'_> {
    pub(super) fn apply_answered(
        &self,
        world: &mut World,
        index: usize,
        revision: i64,
    ) -> Result<(), Violation> {
        let operation = &self.history.operations[index];
        let expected = world.apply(&operation.request);
        let right = match (&expected, &operation.outcome) {
            (Ok((at, answer)), Outcome::Answered { revision, answer: given }) => {
                at == revision && answer == given
            }
            _ => false,
        };
        if right {
            return Ok(());
        }
        let expected = shorten(format!("{expected:?}"), 400);
        let text = format!("at {revision} the specification says {expected}: {}", describe(operation));
        Err(Violation::new(Kind::WrongAnswer, text))
    }

    /// Compares the answers that show `revision` and say that they changed nothing.
    pub(super) fn check_quiet(&self, world: &World, revision: i64) -> Result<(), Violation> {
        for &index in self.quiet.get(&revision).into_iter().flatten() {
            let operation = &self.history.operations[index];
            let expected = match &operation.request {
                Request::Range(_) | Request::Delete(_) | Request::Txn(_) => {
                    let expected = world.model.answer_at(&operation.request, revision);
                    if expected.as_ref() == operation.answer() {
                        continue;
                    }
                    expected.map_or("that it changes something".to_owned(), |answer| format!("{answer:?}"))
                }
                Request::LeaseRevoke { id } if world.has_keys(*id) => "that the lease has keys".to_owned(),
                _ => continue,
            };
            let expected = shorten(expected, 400);
            let text = format!("at {revision} the specification says {expected}: {}", describe(operation));
            return Err(Violation::new(Kind::WrongAnswer, text));
        }
        for &index in self.hashes.get(&revision).into_iter().flatten() {
            hash::compare(self.history, &self.history.hashes[index], &world.model)?;
        }
        for &index in self.leased.get(&revision).into_iter().flatten() {
            let shown = &self.history.leased[index];
            let attached = world.attached().get(&shown.id).into_iter().flatten();
            if !attached.clone().eq(&shown.keys) {
                let keys: Vec<&Vec<u8>> = attached.collect();
                let text = format!("at {revision} the specification says {keys:?}: {shown:?}");
                return Err(Violation::new(Kind::Lease, shorten(text, 800)));
            }
        }
        Ok(())
    }

    pub(super) fn contradicted(&self, index: usize, revision: i64) -> Violation {
        let operation = describe(&self.history.operations[index]);
        let text = format!("what was seen of revision {revision} is not what this did: {operation}");
        Violation::new(Kind::WrongAnswer, text)
    }

    pub(super) fn unexplained(&self, revision: i64) -> Violation {
        let evidence = &self.evidence[&revision];
        let seen = evidence.text();
        let undone = self.history.operations.iter().find(|operation| {
            matches!(operation.outcome, Outcome::NotDone | Outcome::Refused(_))
                && operation.called <= self.seen.first(revision)
                && evidence.is_positive()
                && evidence.allows(&all_ops(&operation.request))
                && puts(&operation.request).iter().all(|put| !put.ignore_value)
        });
        if let Some(operation) = undone {
            let text = format!("revision {revision}, {seen}, but: {}", describe(operation));
            return Violation::new(Kind::NotDoneVisible, text);
        }
        let text = format!("nothing that clients sent can have made revision {revision}; {seen}");
        Violation::new(Kind::UnexplainedRevision, text)
    }
}
