//! The pages that are not part of the API.

pub(super) mod debug;
pub(super) mod health;
pub(super) mod metrics;
mod query;
pub(super) mod version;
