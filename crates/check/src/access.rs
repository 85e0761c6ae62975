//! Access: what users were let do while users, roles and permissions changed.
//!
//! What decides are facts, each of which is true or false: that users are asked at all, that there
//! is this user, that the user has a role, that a role may read or write a span of keys. A request
//! needs a moment between its call and its return at which the facts can have been as its outcome
//! says: if it was answered, one in which it may have been permitted; if it was refused, one in
//! which it may not have been.
//!
//! A fact can have a value in a span of time if something that gave it that value was called before
//! the end of the span, and nothing that took it away came certainly later and was acknowledged
//! before the span began. Each fact is judged for itself: that two of them were never true together
//! is not seen, but no right history is refused. A permission must cover all keys of a request by
//! itself, so recorders give permissions for spans that do not touch.

use std::collections::{BTreeMap, BTreeSet};

use vetch_model::Keys;

use crate::facts::bytes;
use crate::history::{Access, AccessChange, Fact, History};
use crate::violation::{Kind, Violation};

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let facts = Facts::new(history);
    let mut violations = Vec::new();
    for access in &history.accesses {
        let (kind, is_right) = match access.granted {
            true => (Kind::AccessLeaked, facts.may_permit(access)),
            false => (Kind::AccessDenied, facts.may_refuse(access)),
        };
        if !is_right {
            violations.push(Violation::new(kind, describe(access)));
        }
    }
    violations
}

fn describe(access: &Access) -> String {
    let Access { called, returned, user, keys, write, granted } = access;
    let what = if *write { "write" } else { "read" };
    let outcome = if *granted { "was permitted" } else { "was not permitted" };
    let (from, to) = (bytes(&keys.key), bytes(&keys.range_end));
    format!("[{called}..{returned}] {user} {outcome} {what} {from}..{to}, at no time of which it was so")
}

struct Facts<'h> {
    changes: BTreeMap<&'h Fact, Vec<(&'h AccessChange, bool)>>,
    roles: BTreeSet<&'h str>,
}

impl<'h> Facts<'h> {
    fn new(history: &'h History) -> Facts<'h> {
        let mut facts = Facts { changes: BTreeMap::new(), roles: BTreeSet::new() };
        for change in &history.access_changes {
            for (fact, value) in &change.facts {
                facts.changes.entry(fact).or_default().push((change, *value));
                if let Fact::Role(_, role) = fact {
                    facts.roles.insert(role);
                }
            }
        }
        facts
    }

    /// Whether the fact can have had the value at a moment of the access.
    fn can_be(&self, fact: &Fact, value: bool, access: &Access) -> bool {
        let none = Vec::new();
        let changes = self.changes.get(fact).unwrap_or(&none);
        let made = changes.iter().filter(|(change, to)| *to == value && change.called <= access.returned);
        // At first no fact holds.
        let mut since = made.map(|(change, _)| change.returned).chain((!value).then_some(0));
        since.any(|since| {
            let undone = |(change, to): &(&AccessChange, bool)| {
                *to != value && change.called > since && change.returned < access.called
            };
            !changes.iter().any(undone)
        })
    }

    /// The permissions of a role that cover all keys of the request.
    fn permissions(&self, role: &str, access: &Access) -> Vec<&'h Fact> {
        let covers = |fact: &&'h Fact| {
            matches!(fact, Fact::Permission { role: of, keys, write }
                if of == role && *write == access.write && covers(keys, &access.keys))
        };
        self.changes.keys().copied().filter(covers).collect()
    }

    fn may_permit(&self, access: &Access) -> bool {
        let may_be = |fact: &Fact| self.can_be(fact, true, access);
        let by_role = |role: &&str| {
            let has = Fact::Role(access.user.clone(), (*role).to_owned());
            may_be(&has) && self.permissions(role, access).into_iter().any(may_be)
        };
        let asked = may_be(&Fact::User(access.user.clone())) && self.roles.iter().any(by_role);
        self.can_be(&Fact::Enabled, false, access) || asked
    }

    fn may_refuse(&self, access: &Access) -> bool {
        let may_lack = |fact: &Fact| self.can_be(fact, false, access);
        let not_by_role = |role: &&str| {
            let has = Fact::Role(access.user.clone(), (*role).to_owned());
            may_lack(&has) || self.permissions(role, access).into_iter().all(may_lack)
        };
        let refused = may_lack(&Fact::User(access.user.clone())) || self.roles.iter().all(not_by_role);
        self.can_be(&Fact::Enabled, true, access) && refused
    }
}

/// Whether a span of keys, from the first to before the second, holds all of the others.
fn covers((from, to): &(Vec<u8>, Vec<u8>), keys: &Keys) -> bool {
    match keys.range_end.as_slice() {
        [] => *from <= keys.key && keys.key < *to,
        end => *from <= keys.key && end <= to.as_slice() && end != [0],
    }
}
