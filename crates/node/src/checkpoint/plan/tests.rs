//! Tests of the plan: what it costs over a long life, and the limits it keeps.
