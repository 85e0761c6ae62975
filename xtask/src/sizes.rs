//! Sizes: no crate, file or struct grows beyond what one reader keeps in mind.

use crate::files::Tree;
use crate::ratchet::Ratchet;
use crate::workspace::crates;

const CRATE_LINES_MAX: usize = 10_000;
const FILE_LINES_MAX: usize = 800;
const FIELDS_MAX: usize = 20;

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut found = file_lines(tree);
    found.extend(crate_lines(tree));
    found.extend(fields(tree));
    found
}

fn file_lines(tree: &Tree) -> Vec<String> {
    let files = tree.with_ending(".rs").map(|file| {
        let lines = file.text.lines().count();
        (file.path.clone(), lines, format!("{}: {lines} lines", file.path))
    });
    Ratchet::read(tree, "file-lines").judge(FILE_LINES_MAX, files)
}

fn crate_lines(tree: &Tree) -> Vec<String> {
    let crates = crates(tree).into_iter().map(|krate| {
        let lines = krate.modules.iter().map(|module| module.lines).sum();
        let text = format!("crates/{}: {lines} lines without tests", krate.name);
        (krate.name, lines, text)
    });
    Ratchet::read(tree, "crate-lines").judge(CRATE_LINES_MAX, crates)
}

fn fields(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for krate in crates(tree) {
        for module in &krate.modules {
            for (name, fields) in structs(&module.code) {
                let name = format!("{}::{name}", krate.name);
                let text = format!("{name}: {fields} fields");
                found.push((name, fields, text));
            }
        }
    }
    Ratchet::read(tree, "fields").judge(FIELDS_MAX, found)
}

/// The structs with named fields, and how many those are.
fn structs(code: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let mut current: Option<(&str, &str, usize)> = None;
    for line in code.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let text = line.trim_start();
        if let Some((name, outer, fields)) = &mut current {
            if indent == *outer && text.starts_with('}') {
                found.push((*name, *fields));
                current = None;
            } else if indent.len() == outer.len() + 4 && is_field(text) {
                *fields += 1;
            }
        } else if text.ends_with('{')
            && let Some((_, after)) = text.split_once("struct ")
        {
            let end = after.find(|c| !crate::source::is_word(c)).unwrap_or(after.len());
            current = Some((&after[..end], indent, 0));
        }
    }
    found
}

fn is_field(text: &str) -> bool {
    let text =
        text.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")).map_or(text, |(_, rest)| rest);
    let text = text.strip_prefix("pub ").unwrap_or(text);
    let end = text.find(|c| !crate::source::is_word(c)).unwrap_or(text.len());
    end > 0 && text[end..].starts_with(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted() {
        let code = "pub struct A<T> {\n    #[x(y: z)]\n    pub(crate) a: B,\n    c: Vec<\n        d: E,\n    >,\n    pub f: G,\n}\nstruct H;\nstruct I {\n}\n";
        assert_eq!(structs(code), [("A", 3), ("I", 0)]);
    }
}
