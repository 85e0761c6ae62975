//! Habits: errors are types, each crate has its own sources, and merges are resolved.

use crate::files::Tree;
use crate::ratchet::Ratchet;
use crate::source::code;
use crate::workspace::crates;

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut found = string_errors(tree);
    found.extend(foreign_sources(tree));
    found.extend(conflicts(tree));
    found
}

fn string_errors(tree: &Tree) -> Vec<String> {
    let crates = crates(tree).into_iter().map(|krate| {
        let count: usize = krate.modules.iter().map(|module| errors_of_text(&module.code)).sum();
        let text = format!("crates/{}: {count} results whose error is a String", krate.name);
        (krate.name, count, text)
    });
    Ratchet::read(tree, "string-errors").judge(0, crates)
}

/// How often `Result<..., String>` stands in the code.
fn errors_of_text(code: &str) -> usize {
    let is_text = |after: &str| {
        let mut depth = 0_usize;
        for (at, c) in after.char_indices() {
            match c {
                '<' | '(' | '[' => depth += 1,
                '>' if after[..at].ends_with('-') => {}
                '>' if depth == 0 => return after[..at].trim_end().ends_with(", String"),
                '>' | ')' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        false
    };
    code.match_indices("Result<").filter(|(at, found)| is_text(&code[at + found.len()..])).count()
}

fn foreign_sources(tree: &Tree) -> Vec<String> {
    let mut found: Vec<(String, usize, String)> = Vec::new();
    for link in tree.links() {
        found.push((link.clone(), 1, format!("{link}: a symbolic link")));
    }
    for file in tree.with_ending(".rs") {
        let count = code(&file.text).matches("#[path").count();
        found.push((file.path.clone(), count, format!("{}: {count} modules by #[path]", file.path)));
    }
    Ratchet::read(tree, "foreign-source").judge(0, found)
}

/// Marks that an unresolved merge left.
fn conflicts(tree: &Tree) -> Vec<String> {
    let is_mark = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
    let lines = tree.with_ending("").flat_map(|file| file.text.lines().map(move |line| (&file.path, line)));
    lines.filter(|(_, line)| is_mark(line)).map(|(path, _)| format!("{path}: an unresolved merge")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_text_are_counted() {
        let code = "fn a() -> Result<Vec<(u8, String)>, String>; Result<String, E>; io::Result<String>; \
            Result<fn() -> A, String>; Result<(), Vec<String>>";
        assert_eq!(errors_of_text(code), 2);
    }
}
