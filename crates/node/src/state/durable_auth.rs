//! Durable auth: users and roles as far as they are durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vetch_seeded_bugs::Bug;
use vetch_store::auth::{Auth, Caller};
use vetch_sync::RwLock;

/// Users and roles that are durable.
pub(crate) struct DurableAuth {
    /// Looked at by every request, so it has a place of its own.
    enabled: AtomicBool,
    current: RwLock<Arc<Auth>>,
}

impl DurableAuth {
    pub(crate) fn new(auth: Arc<Auth>) -> DurableAuth {
        DurableAuth { enabled: AtomicBool::new(auth.enabled()), current: RwLock::new(auth) }
    }

    pub(crate) fn publish(&self, auth: Arc<Auth>) {
        if vetch_seeded_bugs::on(Bug::AuthLags) && auth.revision() % 2 == 1 {
            return;
        }
        let mut current = self.current.write();
        self.enabled.store(auth.enabled(), Ordering::Release);
        *current = auth;
    }

    pub(crate) fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    pub(crate) fn current(&self) -> Arc<Auth> {
        Arc::clone(&self.current.read())
    }

    /// What decides about `caller`; None if everything is permitted.
    pub(crate) fn judge(&self, caller: &Caller) -> Option<Arc<Auth>> {
        (*caller != Caller::Server && self.enabled()).then(|| Arc::clone(&self.current.read()))
    }
}
