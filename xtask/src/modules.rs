//! Modules: no import cycle between the modules of one parent.
//!
//! An import of a module, or of what it contains, is an edge between the two children of the
//! nearest common parent. Names that a parent re-exports lead to where they come from, so a cycle
//! cannot hide behind a re-export. A child that uses its parent is no edge.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::Tree;
use crate::ratchet::Ratchet;
use crate::source::is_word;
use crate::workspace::{Crate, crates};

type Path = Vec<String>;

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for krate in crates(tree) {
        for (parent, members) in cycles(&krate) {
            let name = std::iter::once(krate.name.clone()).chain(parent).collect::<Vec<_>>().join("::");
            let text = format!("{name}: modules in import cycles: {}", members.join(", "));
            found.push((name, members.len(), text));
        }
    }
    Ratchet::read(tree, "cycle").judge(0, found)
}

/// Per parent, the children that can reach themselves.
fn cycles(krate: &Crate) -> BTreeMap<Path, Vec<String>> {
    let mut edges: BTreeMap<Path, BTreeSet<(String, String)>> = BTreeMap::new();
    let exports = exports(krate);
    for module in &krate.modules {
        for path in paths(&module.code) {
            let Some(target) = resolve(krate, &exports, &module.path, &path, 0) else { continue };
            let common = target.iter().zip(&module.path).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.path.get(common), target.get(common)) {
                edges.entry(target[..common].to_vec()).or_default().insert((from.clone(), to.clone()));
            }
        }
    }
    edges
        .iter()
        .map(|(parent, edges)| (parent.clone(), on_cycles(edges)))
        .filter(|(_, on)| !on.is_empty())
        .collect()
}

fn on_cycles(edges: &BTreeSet<(String, String)>) -> Vec<String> {
    let names: BTreeSet<&String> = edges.iter().map(|(from, _)| from).collect();
    let reaches_itself = |name: &String| {
        let mut seen = BTreeSet::new();
        let mut open = vec![name];
        while let Some(at) = open.pop() {
            for (_, to) in edges.iter().filter(|(from, _)| from == at) {
                if seen.insert(to) {
                    open.push(to);
                }
            }
        }
        seen.contains(name)
    };
    names.into_iter().filter(|name| reaches_itself(name)).cloned().collect()
}

/// Names that a module has from below itself: `pub use child::Name`.
fn exports(krate: &Crate) -> BTreeMap<(Path, String), Path> {
    let mut map = BTreeMap::new();
    for module in &krate.modules {
        for line in statements(&module.code).filter_map(exported) {
            for path in expand(line) {
                let path = if path.first().is_some_and(|s| s == "self") { path[1..].to_vec() } else { path };
                if let Some(name) = path.last() {
                    map.insert((module.path.clone(), name.clone()), path.clone());
                }
            }
        }
    }
    map
}

fn exported(statement: &str) -> Option<&str> {
    let rest = statement.strip_prefix("pub")?.trim_start();
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1.trim_start() } else { rest };
    rest.strip_prefix("use ")
}

fn statements(code: &str) -> impl Iterator<Item = &str> {
    code.split(';').map(|text| text.rsplit("\n\n").next().unwrap_or(text).trim_start())
}

/// The module that a path leads to from where it stands.
fn resolve(
    krate: &Crate,
    exports: &BTreeMap<(Path, String), Path>,
    from: &[String],
    path: &[String],
    depth: usize,
) -> Option<Path> {
    let mut at: Path = from.to_vec();
    for (n, segment) in path.iter().enumerate() {
        match segment.as_str() {
            "crate" => at.clear(),
            "super" => {
                at.pop()?;
            }
            "self" => {}
            _ => {
                let mut child = at.clone();
                child.push(segment.clone());
                if krate.has(&child) {
                    at = child;
                } else {
                    let export = exports.get(&(at.clone(), segment.clone()));
                    let further = export.filter(|_| depth < 8 && n > 0);
                    return Some(
                        further.and_then(|e| resolve(krate, exports, &at, e, depth + 1)).unwrap_or(at),
                    );
                }
            }
        }
    }
    Some(at)
}

/// Paths that begin at the crate, the module itself or its parent.
fn paths(code: &str) -> Vec<Path> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| is_word(c) || c == ':' || c == '$') {
                found.extend(expand(&code[at..]));
            }
        }
    }
    found
}

/// The paths of a tree such as `a::{b, c::d}`.
fn expand(text: &str) -> Vec<Path> {
    let mut out = Vec::new();
    walk(text, &mut Vec::new(), &mut out);
    out
}

/// Returns what follows the tree.
fn walk<'t>(text: &'t str, prefix: &mut Path, out: &mut Vec<Path>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            let len = prefix.len();
            rest = walk(rest, prefix, out).trim_start();
            prefix.truncate(len);
            match rest.strip_prefix(',') {
                Some(next) if !next.trim_start().starts_with('}') => rest = next,
                next => return next.unwrap_or(rest).trim_start().strip_prefix('}').unwrap_or(""),
            }
        }
    }
    let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    if end == 0 {
        out.push(prefix.clone());
        return text.strip_prefix('*').unwrap_or(text);
    }
    let is_prefix = &text[..end] == "self" && !prefix.is_empty();
    if !is_prefix {
        prefix.push(text[..end].to_owned());
    }
    match text[end..].strip_prefix("::") {
        Some(rest) if rest.starts_with(|c: char| is_word(c) || c == '{' || c == '*') => {
            walk(rest, prefix, out)
        }
        _ => {
            out.push(prefix.clone());
            let rest = &text[end..];
            let alias = rest.trim_start().strip_prefix("as ");
            alias.map_or(rest, |name| name.trim_start_matches(is_word))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Module;

    fn module(path: &str, code: &str) -> Module {
        let path = path.split("::").filter(|s| !s.is_empty()).map(str::to_owned).collect();
        Module { path, code: code.to_owned(), lines: 0 }
    }

    #[test]
    fn trees_are_expanded() {
        let all: Vec<String> =
            expand("crate::{a::{self, B}, c::*, d as e,\n}; x").iter().map(|p| p.join("::")).collect();
        assert_eq!(all, ["crate::a", "crate::a::B", "crate::c", "crate::d"]);
    }

    #[test]
    fn cycles_are_found_below_one_parent_and_through_re_exports() {
        let modules = vec![
            module("", "mod a; mod b; mod c;\n\npub use b::B;\n"),
            module("a", "use crate::B;\nfn f() {}"),
            module("b", "struct B(crate::a::x::X);"),
            module("a::x", "use super::f;"),
            module("c", "use crate::{a, b};"),
        ];
        let krate = Crate { name: "k".into(), modules };
        let found = cycles(&krate);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(vec![], vec!["a".to_owned(), "b".to_owned()])]);
    }
}
