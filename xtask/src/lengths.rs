//! Lengths: comments and Markdown wrap at a column, and no file of code grows beyond what a reader
//! keeps in mind.

use crate::files::{File, Tree};

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 800;

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.with_ending(".rs") {
        found.extend(wide(file, is_comment));
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            found.push(format!("{}: {lines} lines, more than {LINES_MAX}", file.path));
        }
    }
    for file in tree.with_ending(".md") {
        found.extend(wide_prose(file));
    }
    found
}

fn wide(file: &File, counts: impl Fn(&str) -> bool) -> Vec<String> {
    file.text
        .lines()
        .enumerate()
        .filter(|(_, line)| counts(line) && is_too_wide(line))
        .map(|(n, line)| finding(file, n, line))
        .collect()
}

/// Tables and blocks of code cannot be wrapped.
fn wide_prose(file: &File) -> Vec<String> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (n, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let is_table = line.trim_start().starts_with('|');
        if !is_code && !is_table && !line.starts_with("    ") && is_too_wide(line) {
            found.push(finding(file, n, line));
        }
    }
    found
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// A line of one word, such as an address, cannot be wrapped. In comments, a row of a table neither.
fn is_too_wide(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!', '*', '-', ' ']);
    line.chars().count() > COLUMNS_MAX && text.contains(' ') && !text.starts_with('|')
}

fn finding(file: &File, n: usize, line: &str) -> String {
    format!("{}:{}: {} columns, more than {COLUMNS_MAX}", file.path, n + 1, line.chars().count())
}
