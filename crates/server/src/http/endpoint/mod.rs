//! The pages that are not part of the API.

pub(super) mod debug;
pub(super) mod health;
pub(super) mod metrics;
pub(super) mod peer;
mod query;
pub(super) mod version;
