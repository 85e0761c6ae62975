//! Verdicts: which keys of a lease a user was found to be permitted to write.
//!
//! A user that puts a key on a lease or renews it has to be permitted to write all of its keys.
//! Asking that of hundreds of thousands of them at every put would stop the server, so what was
//! found is remembered with the lease, and is kept true: a key that is attached later is judged by
//! every verdict when that happens, also one that a rewind brings back. A key that goes makes no
//! verdict wrong.
//!
//! A verdict is by one state of users and roles. It is told from any other by the place of that
//! state in memory, which is not used again while the verdict points at it.

use std::sync::{Arc, Weak};

use crate::auth::{Auth, Caller};
use crate::keys::Slot;

/// Users whose verdicts about a lease are remembered.
const USERS_MAX: usize = 4;
/// A lease with fewer keys is judged again: that takes no longer than remembering.
pub(crate) const REMEMBERED_KEYS_MIN: usize = 64;

#[derive(Debug, Clone)]
struct Verdict {
    user: Arc<str>,
    auth: Weak<Auth>,
    upto: Permitted,
}

/// How many of a lease's keys may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permitted {
    /// All since head had this revision.
    AllSince(i64),
    /// Those in slots below this one.
    Below(Slot),
}

/// The verdicts about one lease, the newest last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdicts(Vec<Verdict>);

impl Verdicts {
    /// What is known about a user.
    pub(crate) fn find(&self, caller: &Caller, auth: &Arc<Auth>) -> Permitted {
        let Caller::User { name, .. } = caller else { return Permitted::Below(0) };
        let verdict = self.0.iter().find(|verdict| verdict.user == *name && verdict.is_by(auth));
        verdict.map_or(Permitted::Below(0), |verdict| verdict.upto)
    }

    pub(crate) fn note(&mut self, caller: &Caller, auth: &Arc<Auth>, upto: Permitted) {
        let Caller::User { name, .. } = caller else { return };
        self.0.retain(|verdict| verdict.user != *name && verdict.is_by(auth));
        if self.0.len() == USERS_MAX {
            self.0.remove(0);
        }
        self.0.push(Verdict { user: Arc::clone(name), auth: Arc::downgrade(auth), upto });
    }

    /// A key was attached to the lease.
    pub(crate) fn attached(&mut self, slot: Slot, key: &[u8], auth: &Arc<Auth>) {
        self.0.retain_mut(|verdict| {
            if !verdict.is_by(auth) {
                return false;
            }
            let caller = Caller::User { name: Arc::clone(&verdict.user), revision: auth.revision() };
            if auth.check_write(&caller, key).is_err() {
                verdict.upto = match verdict.upto {
                    Permitted::Below(below) => Permitted::Below(below.min(slot)),
                    Permitted::AllSince(_) => Permitted::Below(slot),
                };
            }
            true
        });
    }
}

impl Verdict {
    fn is_by(&self, auth: &Arc<Auth>) -> bool {
        std::ptr::eq(self.auth.as_ptr(), Arc::as_ptr(auth))
    }
}
