//! Ranges: what is read at one revision, with every option.

use crate::request::{Range, SortOrder, SortTarget};
use crate::response::{KeyValue, Ranged};
use crate::state::Model;

impl Model {
    /// What the range finds at revision `at`, whatever revision it asks for.
    pub fn range_at(&self, request: &Range, at: i64) -> Ranged {
        let mut kvs: Vec<&KeyValue> = self.live(&request.keys, at).collect();
        let count = kvs.len() as i64;
        if request.count_only {
            return Ranged { kvs: Vec::new(), more: false, count };
        }
        let limit = usize::try_from(request.limit).ok().filter(|&limit| limit > 0);
        if let Some(limit) = limit.filter(|_| in_key_order(request) && !is_filtered(request)) {
            // The limit cuts in key order, one too many is kept to tell that there is more, and
            // only then are the few that are left sorted.
            kvs.truncate(limit.saturating_add(1));
        }
        kvs.retain(|kv| {
            within(kv.mod_revision, request.min_mod_revision, request.max_mod_revision)
                && within(kv.create_revision, request.min_create_revision, request.max_create_revision)
        });
        sort(request, &mut kvs);
        let more = limit.is_some_and(|limit| kvs.len() > limit);
        kvs.truncate(limit.unwrap_or(usize::MAX));
        let kvs = kvs.into_iter().map(|kv| shown(request, kv)).collect();
        Ranged { kvs, more, count }
    }
}

/// Order NONE counts as key order for every target, although the result is then sorted by it.
fn in_key_order(request: &Range) -> bool {
    match request.sort_order {
        SortOrder::None => true,
        SortOrder::Ascend => request.sort_target == SortTarget::Key,
        SortOrder::Descend => false,
    }
}

fn is_filtered(request: &Range) -> bool {
    request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0
}

/// 0 is no bound; a negative bound is one.
fn within(value: i64, min: i64, max: i64) -> bool {
    (min == 0 || value >= min) && (max == 0 || value <= max)
}

/// Equal elements stay in key order: descending sorts by the opposite comparison, it does not
/// reverse the ascending order.
fn sort(request: &Range, kvs: &mut [&KeyValue]) {
    let order = |a: &KeyValue, b: &KeyValue| match request.sort_target {
        SortTarget::Key => a.key.cmp(&b.key),
        SortTarget::Version => a.version.cmp(&b.version),
        SortTarget::Create => a.create_revision.cmp(&b.create_revision),
        SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
        SortTarget::Value => a.value.cmp(&b.value),
    };
    match request.sort_order {
        SortOrder::Descend => kvs.sort_by(|a, b| order(b, a)),
        SortOrder::None | SortOrder::Ascend => kvs.sort_by(|a, b| order(a, b)),
    }
}

/// Only a sort by value reads whole records; any other answer with keys alone does not know their
/// leases.
fn shown(request: &Range, kv: &KeyValue) -> KeyValue {
    let mut kv = kv.clone();
    if request.keys_only {
        kv.value.clear();
        if request.sort_target != SortTarget::Value {
            kv.lease = 0;
        }
    }
    kv
}
