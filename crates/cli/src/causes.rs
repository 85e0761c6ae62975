//! Causes: an error with everything that led to it, in one line.

/// An error and its causes: the last cause is what the user can act on.
pub(crate) fn with_causes(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
