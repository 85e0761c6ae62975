//! Names: a file or a test that ARCHITECTURE.md names must be there.

use crate::files::Tree;

const PAGE: &str = "ARCHITECTURE.md";

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let Some(architecture) = tree.get(PAGE) else { return vec![format!("no {PAGE}")] };
    let mut found = Vec::new();
    for (n, line) in architecture.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2) {
            let at = format!("{PAGE}:{}", n + 1);
            if is_file_name(name) && !has_file(tree, name) {
                found.push(format!("{at}: there is no file `{name}`"));
            } else if is_test_name(name) && !has_test(tree, name) {
                found.push(format!("{at}: there is no test `{name}`"));
            }
        }
    }
    found
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
    fn names_are_told_apart() {
        assert!(is_file_name("store/src/state.rs") && !is_test_name("store/src/state.rs"));
        assert!(is_test_name("a_test_is_a_sentence") && is_test_name("its_end_may_be_left_..."));
        assert!(!is_test_name("vetch_panics_contained_total") && !is_file_name("crates/*/lib.rs"));
    }
}
