//! Judgement: the checker's verdict on a history.

use vetch_check::{History, check};

/// Everything that is wrong with it.
pub(crate) fn judge(history: &History) -> Vec<String> {
    match check(history) {
        Ok(report) if !report.finished => vec!["the history has no end".to_owned()],
        Ok(_) => Vec::new(),
        Err(violations) => violations.iter().map(ToString::to_string).collect(),
    }
}
