//! What clusters in trials are made of: Vetch servers on a journal of NATS servers, on loopback or
//! each on a host of its own.

pub(crate) mod members;
pub(crate) mod nats;

use std::time::Duration;

/// How long anything may take to become ready or to agree.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
