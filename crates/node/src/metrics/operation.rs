//! The operations of the sequencer, by etcd's names.

use std::time::Duration;

use vetch_store::auth::Change;
use vetch_store::request::WriteRequest;

use vetch_counters::Histogram;

use super::APPLY_BOUNDS;

/// The names. An [`Operation`] is a place in this list.
pub const OPERATIONS: [&str; 19] = [
    "Put",
    "DeleteRange",
    "Txn",
    "Compaction",
    "LeaseGrant",
    "LeaseRevoke",
    "LeaseCheckpoint",
    "Alarm",
    "AuthEnable",
    "AuthDisable",
    "AuthUserAdd",
    "AuthUserDelete",
    "AuthUserChangePassword",
    "AuthUserGrantRole",
    "AuthUserRevokeRole",
    "AuthRoleAdd",
    "AuthRoleDelete",
    "AuthRoleGrantPermission",
    "AuthRoleRevokePermission",
];

/// Which kind of request one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation(usize);

impl Operation {
    pub(crate) fn of(request: &WriteRequest) -> Operation {
        Operation(match request {
            WriteRequest::Put(_) => 0,
            WriteRequest::DeleteRange(_) => 1,
            // Whatever made a revision elsewhere, it comes as the changes of a transaction.
            WriteRequest::Txn(_) | WriteRequest::Foreign { .. } => 2,
            WriteRequest::Compact { .. } => 3,
            WriteRequest::LeaseGrant { .. } => 4,
            // An expired lease is revoked like one that a client revokes.
            WriteRequest::LeaseRevoke { .. } | WriteRequest::LeaseExpire { .. } => 5,
            WriteRequest::LeaseRemaining { .. } => 6,
            WriteRequest::AlarmActivate(_) | WriteRequest::AlarmDeactivate(_) => 7,
            WriteRequest::Auth(change) => match change {
                Change::Enable => 8,
                Change::Disable => 9,
                Change::UserAdd { .. } => 10,
                Change::UserDelete { .. } => 11,
                Change::UserChangePassword { .. } => 12,
                Change::UserGrantRole { .. } => 13,
                Change::UserRevokeRole { .. } => 14,
                Change::RoleAdd { .. } => 15,
                Change::RoleDelete { .. } => 16,
                Change::RoleGrantPermission { .. } => 17,
                Change::RoleRevokePermission { .. } => 18,
            },
        })
    }

    pub(crate) fn name(self) -> &'static str {
        OPERATIONS[self.0]
    }
}

/// How long requests took to evaluate, by operation and by whether they succeeded.
#[derive(Debug)]
pub struct Applied {
    /// Those that were refused, and those that were not.
    by_operation: Vec<[Histogram; 2]>,
}

impl Default for Applied {
    fn default() -> Applied {
        let pair = || [Histogram::new(APPLY_BOUNDS), Histogram::new(APPLY_BOUNDS)];
        Applied { by_operation: OPERATIONS.iter().map(|_| pair()).collect() }
    }
}

impl Applied {
    pub(crate) fn observe(&self, operation: Operation, success: bool, took: Duration) {
        self.by_operation[operation.0][usize::from(success)].observe(took);
    }

    /// Operation, success and how long it took, for all that happened at least once.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, bool, &Histogram)> {
        OPERATIONS.iter().zip(&self.by_operation).flat_map(|(name, [refused, done])| {
            [(*name, false, refused), (*name, true, done)].into_iter().filter(|(.., took)| !took.is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_under_their_names() {
        let applied = Applied::default();
        for (request, name) in [
            (WriteRequest::Compact { revision: 3 }, "Compaction"),
            (WriteRequest::LeaseExpire { id: 1, grant: 1 }, "LeaseRevoke"),
            (WriteRequest::Auth(Change::Disable), "AuthDisable"),
            (
                WriteRequest::Auth(Change::RoleGrantPermission { role: "r".into(), permission: None }),
                "AuthRoleGrantPermission",
            ),
        ] {
            let operation = Operation::of(&request);
            assert_eq!(operation.name(), name);
            applied.observe(operation, true, Duration::from_micros(5));
        }
        let seen: Vec<(&str, bool)> = applied.iter().map(|(name, success, _)| (name, success)).collect();
        let expected = ["Compaction", "LeaseRevoke", "AuthDisable", "AuthRoleGrantPermission"];
        assert_eq!(seen, expected.map(|name| (name, true)));
    }
}
