//! Engine: what makes the entries of this server durable, and what each kind has to be told. No
//! other part of the binary knows one of them by name.

mod nats;

use std::path::Path;
use std::time::Duration;

use vetch_cluster::Log;

use nats::NatsPlace;

/// What makes entries durable.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    /// Files of this server alone.
    Local,
    /// An ordered durable log elsewhere, which several servers share.
    Ordered(Box<OrderedJournal>),
}

/// A log elsewhere, and what is asked of the rules by which servers share it.
#[derive(Debug, Clone)]
pub(crate) struct OrderedJournal {
    pub(crate) place: LogPlace,
    /// For how long a leader may rely on being the only one.
    pub(crate) read_lease: Duration,
}

/// Where a log is, by the kind of store that keeps it.
#[derive(Debug, Clone)]
pub(crate) enum LogPlace {
    Nats(NatsPlace),
}

/// Why the place of a log is not understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("--journal {0}: URLs of NATS servers begin with nats://")]
    Url(String),
    #[error("--journal-login-file: {0}")]
    Login(String),
}

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Nats(#[from] vetch_nats::NatsError),
}

impl Engine {
    /// Whether several servers share the entries.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Engine::Ordered(_))
    }

    /// Everything the engine consists of was looked at: a part of it that is away from now on is
    /// not waited for.
    pub(crate) fn trust_majority(&mut self) {
        if let Engine::Ordered(journal) = self {
            journal.place.trust_majority();
        }
    }
}

impl LogPlace {
    /// `urls` are separated by commas.
    pub(crate) fn parse(
        urls: &str,
        stream: &str,
        login_file: Option<&Path>,
        allow_unsafe: bool,
    ) -> Result<LogPlace, PlaceError> {
        Ok(LogPlace::Nats(NatsPlace::parse(urls, stream, login_file, allow_unsafe)?))
    }

    /// What tells this log from others there. All servers on one log are one cluster.
    pub(crate) fn name(&self) -> &str {
        match self {
            LogPlace::Nats(place) => place.name(),
        }
    }

    /// The hosts that keep it, as far as they were named.
    pub(crate) fn hosts(&self) -> Vec<&str> {
        match self {
            LogPlace::Nats(place) => place.hosts(),
        }
    }

    pub(crate) fn trust_majority(&mut self) {
        match self {
            LogPlace::Nats(place) => place.trust_majority(),
        }
    }

    /// Connects; waits for a log that cannot be reached yet. One that answers and is not fit for
    /// use is refused at once.
    pub(crate) fn connect(&self) -> Result<Box<dyn Log>, ConnectError> {
        match self {
            LogPlace::Nats(place) => Ok(Box::new(place.connect()?)),
        }
    }
}
