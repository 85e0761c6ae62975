//! Workspace: the crates of the repository and their modules, without what only tests compile.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::Tree;
use crate::source::{code, production};

pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) modules: Vec<Module>,
}

/// A file of a crate.
pub(crate) struct Module {
    /// From the root of the crate, which is empty.
    pub(crate) path: Vec<String>,
    /// Without comments, literals and tests.
    pub(crate) code: String,
    /// Lines that are not only for tests, comments included.
    pub(crate) lines: usize,
}

impl Crate {
    pub(crate) fn has(&self, path: &[String]) -> bool {
        self.modules.iter().any(|module| module.path == path)
    }
}

/// All crates below `crates/`.
pub(crate) fn crates(tree: &Tree) -> Vec<Crate> {
    let mut by_name: BTreeMap<&str, Vec<(Vec<String>, &str)>> = BTreeMap::new();
    for file in tree.with_ending(".rs") {
        if let Some((name, path)) =
            file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        {
            by_name.entry(name).or_default().push((module_path(path), &file.text));
        }
    }
    by_name.into_iter().map(|(name, files)| krate(name, &files)).collect()
}

fn krate(name: &str, files: &[(Vec<String>, &str)]) -> Crate {
    let codes: Vec<String> = files.iter().map(|(_, text)| code(text)).collect();
    let mut for_tests: BTreeSet<Vec<String>> = BTreeSet::new();
    for ((path, _), code) in files.iter().zip(&codes) {
        for module in declared_for_tests(code) {
            for_tests.insert(path.iter().cloned().chain([module]).collect());
        }
    }
    let is_for_tests = |path: &[String]| (1..=path.len()).any(|n| for_tests.contains(&path[..n]));
    let files = files.iter().zip(&codes).filter(|((path, _), _)| !is_for_tests(path));
    let modules = files.map(|((path, text), code)| module(path.clone(), text, code)).collect();
    Crate { name: name.to_owned(), modules }
}

fn module(path: Vec<String>, text: &str, code: &str) -> Module {
    let production = production(code);
    let for_tests = code.matches('\n').count() - production.matches('\n').count();
    Module { path, code: production, lines: text.lines().count() - for_tests }
}

/// `a/b.rs` and `a/b/mod.rs` are the module `a::b`.
fn module_path(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs");
    let mut path: Vec<String> = path.split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
        path.pop();
    }
    path
}

/// Names of files that are modules for tests only.
fn declared_for_tests(code: &str) -> impl Iterator<Item = String> {
    code.split("#[cfg(test)]").skip(1).filter_map(|after| {
        let item = after.trim_start();
        let item = item.strip_prefix("pub(crate) ").unwrap_or(item);
        Some(item.strip_prefix("mod ")?.split_once(';')?.0.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_modules() {
        assert_eq!(module_path("lib.rs"), Vec::<String>::new());
        assert_eq!(module_path("a/mod.rs"), ["a"]);
        assert_eq!(module_path("a/b.rs"), ["a", "b"]);
    }

    #[test]
    fn tests_do_not_count() {
        let text = |s: &'static str, path: &str| (module_path(path), s);
        let krate = krate(
            "k",
            &[
                text(
                    "//! A.\n#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod t {\n    x\n}\n",
                    "a.rs",
                ),
                text("1\n", "a/tests.rs"),
                text("2\n", "a/tests/b.rs"),
            ],
        );
        assert_eq!(krate.modules.len(), 1);
        assert_eq!(krate.modules[0].lines, 4, "the line of an attribute is left");
    }
}
