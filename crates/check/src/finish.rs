//! Finish: the final range and the final watch show the newest revision that anybody saw.
//!
//! That they show it rightly is judged like any other read and watch; together it means that
//! nothing acknowledged was lost on the way, through whatever restarts.

use vetch_model::{Keys, Request};

use crate::compaction::Compactions;
use crate::facts::describe;
use crate::history::{Finish, History};
use crate::seen::Seen;
use crate::violation::{Kind, Violation};
use crate::watch::coverage;

pub(crate) fn check(
    history: &History,
    finish: Finish,
    seen: &Seen<'_>,
    compactions: &Compactions,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut fail = |text: String| violations.push(Violation::new(Kind::FinalState, text));
    let newest = seen.newest();
    match history.operations.get(finish.range) {
        Some(operation) => {
            let whole = matches!(&operation.request, Request::Range(range)
                if is_everything(&range.keys) && range.limit <= 0 && range.revision <= 0 && !range.count_only);
            if !whole || operation.revision() != Some(newest) {
                fail(format!("not all keys at revision {newest}: {}", describe(operation)));
            }
        }
        None => fail(format!("there is no operation {}", finish.range)),
    }
    match history.watches.get(finish.watch) {
        Some(watch) => {
            let request = &watch.request;
            let whole = is_everything(&request.keys) && !request.no_put && !request.no_delete;
            let last = coverage(watch).map_or(request.start_revision - 1, |(_, last)| last);
            let oldest = compactions.possible_by(u64::MAX).max(2);
            if !whole || request.start_revision < 1 || request.start_revision > oldest || last < newest {
                let start = request.start_revision;
                fail(format!("the final watch tells {start} to {last}, of {oldest} to {newest}"));
            }
        }
        None => fail(format!("there is no watch {}", finish.watch)),
    }
    violations
}

fn is_everything(keys: &Keys) -> bool {
    matches!(keys.key.as_slice(), [] | [0]) && keys.range_end == [0]
}
