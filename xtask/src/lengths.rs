//! Lengths: comments and Markdown wrap at a column.

use crate::files::{File, Tree};

const COLUMNS_MAX: usize = 100;

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.with_ending(".rs") {
        found.extend(wide(file, comment));
    }
    for file in tree.with_ending(".md") {
        found.extend(wide(file, |line| Some(line)));
    }
    found
}

/// Lines of prose that are too wide. `prose` gives the prose of a line, if it has any.
fn wide(file: &File, prose: fn(&str) -> Option<&str>) -> Vec<String> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (n, line) in file.text.lines().enumerate() {
        let Some(text) = prose(line) else {
            is_code = false;
            continue;
        };
        if text.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let columns = line.chars().count();
        if !is_code && columns > COLUMNS_MAX && can_be_wrapped(text) {
            found.push(format!("{}:{}: {columns} columns, more than {COLUMNS_MAX}", file.path, n + 1));
        }
    }
    found
}

/// What a line that is nothing but a comment says.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']);
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// Rows of tables, blocks of code and lines of one word, such as an address, cannot be wrapped.
fn can_be_wrapped(text: &str) -> bool {
    let is_code = text.starts_with("    ");
    let text = text.trim_start_matches(['*', '-', ' ']);
    !is_code && !text.starts_with('|') && text.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: String) -> usize {
        let file = File { path: path.into(), text };
        if path.ends_with(".rs") { wide(&file, comment).len() } else { wide(&file, |line| Some(line)).len() }
    }

    #[test]
    fn prose_is_judged_and_code_is_not() {
        let long = "word ".repeat(21);
        assert_eq!(found("a.rs", format!("/// {long}\nlet x = \"{long}\";\n    // {long}\n")), 2);
        assert_eq!(
            found("a.rs", format!("//!     {long}\n// | {long} |\n/// ```\n/// {long}\n/// ```\n")),
            0
        );
        assert_eq!(found("a.md", format!("{long}\n| {long} |\n```\n{long}\n```\n    {long}\n* {long}\n")), 2);
        assert_eq!(found("a.md", format!("<{}>\n", "x".repeat(200))), 0);
    }
}
