//! Links: a link between documents leads to a file and a heading that are there, and every alert
//! has a runbook.

use crate::files::Tree;

const RULES: &str = "deploy/prometheus/vetch.rules.yaml";
const RUNBOOKS: &str = "docs/runbooks.md";

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for page in tree.with_ending(".md") {
        for (line, target) in links(&page.text) {
            if let Some(why) = broken(tree, &page.path, &target) {
                found.push(format!("{}:{line}: {target}: {why}", page.path));
            }
        }
    }
    found.extend(alerts_without_runbook(tree));
    found
}

/// Targets of links, each with its line. Blocks of code have none.
fn links(text: &str) -> Vec<(usize, String)> {
    let (mut is_code, mut found) = (false, Vec::new());
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code || line.starts_with("    ") {
            continue;
        }
        let ends = line.match_indices("](").map(|(at, found)| &line[at + found.len()..]);
        let targets = ends.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        found.extend(targets.map(|target| (n + 1, target.to_owned())));
    }
    found
}

/// Why a link on `page` leads nowhere. Addresses of the web are not visited.
fn broken(tree: &Tree, page: &str, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { page.to_owned() } else { resolve(page, path) };
    if !tree.has(&path) {
        return Some("no such file");
    }
    let has_heading = |text: &str| headings(text).any(|heading| heading == anchor);
    let is_missing = !anchor.is_empty() && path.ends_with(".md") && !tree.get(&path).is_some_and(has_heading);
    is_missing.then_some("no such heading")
}

/// A path from the directory of `page`, as one from the root of the repository.
fn resolve(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a page's headings: in lower case, spaces as hyphens, without other signs.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

fn alerts_without_runbook(tree: &Tree) -> Vec<String> {
    let Some(rules) = tree.get(RULES) else { return vec![format!("no {RULES}")] };
    let runbooks: Vec<String> = tree.get(RUNBOOKS).map(|text| headings(text).collect()).unwrap_or_default();
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let mut found = Vec::new();
    for alert in alerts {
        let anchor = alert.to_lowercase();
        if !runbooks.contains(&anchor) {
            found.push(format!("{RUNBOOKS}: no heading for the alert {alert}"));
        }
        if !rules.contains(&format!("{RUNBOOKS}#{anchor}")) {
            found.push(format!("{RULES}: the alert {alert} has no link to its runbook"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "See [a](b.md) and [c](../d.md#e).\n```\n[x](y)\n```\n    [x](y)\n";
        assert_eq!(links(text), [(1, "b.md".to_owned()), (1, "../d.md#e".to_owned())]);
    }

    #[test]
    fn paths_and_headings_are_those_of_the_web_pages() {
        assert_eq!(resolve("docs/a.md", "../deploy/b.md"), "deploy/b.md");
        assert_eq!(resolve("README.md", "./docs/"), "docs");
        let anchors: Vec<String> = headings("# A title: with `code`\ntext\n## Two-part names\n").collect();
        assert_eq!(anchors, ["a-title-with-code", "two-part-names"]);
    }
}
