//! On whose behalf a request is evaluated.

use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Caller {
    /// The server itself, which may do everything: the end of a lease, an alarm, a test.
    #[default]
    Server,
    /// A client without credentials. While authentication is off it may do everything.
    Anonymous,
    /// A client that proved to be this user. `revision` is the auth revision at which that was
    /// established; a request is refused when users or roles have changed since.
    User { name: Arc<str>, revision: u64 },
}

impl Caller {
    pub fn user(name: &str, revision: u64) -> Caller {
        Caller::User { name: name.into(), revision }
    }
}
