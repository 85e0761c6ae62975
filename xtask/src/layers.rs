//! Layers: a crate depends on no crate of ours that the code map in ARCHITECTURE.md does not allow.
//!
//! The column "knows" of that table is the rule, so the table cannot become untrue.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::Tree;

/// Crates that `seeded-bugs` serves; the sentence below the code map names them as well.
const MAY_HAVE_SEEDED_BUGS: [&str; 7] = ["store", "watch", "journal", "cluster", "raft", "node", "cli"];

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let Some(architecture) = tree.get("ARCHITECTURE.md") else { return vec!["no ARCHITECTURE.md".into()] };
    let allowed = code_map(architecture);
    let mut found = Vec::new();
    for manifest in tree.with_ending("Cargo.toml") {
        let Some(name) = manifest.path.strip_prefix("crates/").and_then(|path| path.split('/').next()) else {
            continue;
        };
        let Some(allowed) = allowed.get(name) else {
            found.push(format!("{}: the code map in ARCHITECTURE.md lacks `{name}`", manifest.path));
            continue;
        };
        for dependency in dependencies(&manifest.text) {
            let is_seeded_bugs = dependency == "seeded-bugs" && MAY_HAVE_SEEDED_BUGS.contains(&name);
            if !allowed.contains(&dependency) && !is_seeded_bugs {
                found.push(format!(
                    "{}: `{name}` depends on `{dependency}`, which the code map does not allow",
                    manifest.path
                ));
            }
        }
    }
    found
}

/// Per crate, the crates in the third column of the code map. "and below" adds what those know.
fn code_map(architecture: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut map: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let rows = architecture.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let Some(name) = cells.get(1).and_then(|cell| quoted(cell).into_iter().next()) else { continue };
        let knows = cells.get(3).copied().unwrap_or_default();
        let mut crates: BTreeSet<String> = quoted(knows).into_iter().collect();
        if knows.contains("and below") {
            let below: Vec<String> =
                crates.iter().filter_map(|name| map.get(name)).flatten().cloned().collect();
            crates.extend(below);
        }
        map.insert(name, crates);
    }
    map
}

fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Crates of ours that what ships depends on: tests may look at anything.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]"
            && let Some(rest) = line.strip_prefix("vetch-")
        {
            names.extend(rest.split([' ', '.', '=']).next().map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_map_is_read() {
        let text = "| crate | holds | knows | never |\n|---|---|---|---|\n| `a` | x | | y |\n| `b` | x | `a` | |\n| `c` | | `b` and below | |\n";
        let map = code_map(text);
        assert_eq!(map["b"], BTreeSet::from(["a".to_owned()]));
        assert_eq!(map["c"], BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn dependencies_of_tests_do_not_count() {
        let manifest = "[dependencies]\nvetch-api.workspace = true\nvetch-node = { path = \"x\" }\n[dev-dependencies]\nvetch-sim.workspace = true\n";
        assert_eq!(dependencies(manifest), ["api", "node"]);
    }
}
