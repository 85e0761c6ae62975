//! Names: a file, a test or a type that ARCHITECTURE.md or the glossary names must be there.

use std::collections::HashSet;

use crate::files::Tree;
use crate::source::is_word;

const PAGES: [&str; 2] = ["ARCHITECTURE.md", "docs/glossary.md"];

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let words: HashSet<&str> =
        tree.with_ending(".rs").flat_map(|file| file.text.split(|c| !is_word(c))).collect();
    let mut found = Vec::new();
    for page in PAGES {
        let Some(text) = tree.get(page) else { return vec![format!("no {page}")] };
        for (n, line) in text.lines().enumerate() {
            for name in line.split('`').skip(1).step_by(2) {
                if let Some(kind) = missing(tree, &words, name) {
                    found.push(format!("{page}:{}: there is no {kind} `{name}`", n + 1));
                }
            }
        }
    }
    found
}

/// What the name stands for, if there is no such thing.
fn missing(tree: &Tree, words: &HashSet<&str>, name: &str) -> Option<&'static str> {
    let is_missing_item = |name: &str| name.split("::").any(|part| !words.contains(part));
    if is_file_name(name) {
        (!has_file(tree, name)).then_some("file")
    } else if is_test_name(name) {
        (!has_test(tree, name)).then_some("test")
    } else if is_item_name(name) {
        is_missing_item(name).then_some("item")
    } else {
        None
    }
}

/// A file is named by the end of its path, in which `src` may be missing.
fn has_file(tree: &Tree, name: &str) -> bool {
    tree.with_ending(".rs").any(|file| {
        let without_src = file.path.replace("/src/", "/");
        [&file.path, &without_src].into_iter().any(|path| format!("/{path}").ends_with(&format!("/{name}")))
    })
}

fn has_test(tree: &Tree, name: &str) -> bool {
    let start = format!("fn {}", name.trim_end_matches("..."));
    tree.with_ending(".rs").any(|file| file.text.contains(&start))
}

fn is_file_name(name: &str) -> bool {
    name.ends_with(".rs") && !name.contains([' ', '*'])
}

/// A type, or a path to an item.
fn is_item_name(name: &str) -> bool {
    let is_type = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
    (is_type || name.contains("::"))
        && name.split("::").all(|part| !part.is_empty() && part.chars().all(is_word))
}

/// Tests are sentences: several words joined by underscores.
fn is_test_name(name: &str) -> bool {
    let is_metric = name.starts_with("vetch_") || name.starts_with("etcd_");
    !is_metric
        && name.matches('_').count() >= 3
        && name.chars().all(|c| c.is_ascii_lowercase() || "_.0123456789".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_names_are_distinguished() {
        assert!(is_file_name("store/src/state.rs") && !is_test_name("store/src/state.rs"));
        assert!(is_test_name("a_test_is_a_sentence") && is_test_name("its_end_may_be_left_..."));
        assert!(is_item_name("Store") && is_item_name("Node::put") && !is_item_name("NOSPACE"));
        assert!(!is_test_name("vetch_panics_contained_total") && !is_file_name("crates/*/lib.rs"));
    }
}
