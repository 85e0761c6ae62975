//! Bounds: a test that a row of ARCHITECTURE.md's table of bounds names must be there.

use crate::files::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let Some(architecture) = tree.get("ARCHITECTURE.md") else { return vec!["no ARCHITECTURE.md".into()] };
    let rows = architecture.lines().enumerate().skip_while(|(_, line)| !line.starts_with("## Bounds"));
    let mut found = Vec::new();
    for (n, row) in rows.filter(|(_, line)| line.starts_with('|')) {
        for test in row.split('`').skip(1).step_by(2).filter(|name| is_test_name(name)) {
            let start = format!("fn {}", test.trim_end_matches("..."));
            if !tree.with_ending(".rs").any(|file| file.text.contains(&start)) {
                found.push(format!("ARCHITECTURE.md:{}: there is no test `{test}`", n + 1));
            }
        }
    }
    found
}

/// Tests are sentences: several words joined by underscores.
fn is_test_name(name: &str) -> bool {
    name.matches('_').count() >= 3
        && name.chars().all(|c| c.is_ascii_lowercase() || "_.0123456789".contains(c))
}
