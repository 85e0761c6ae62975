//! Words: terms that were replaced by the field's own do not come back.
//!
//! `xtask/words.txt` has one term a line, a colon, and what to write instead.

use crate::files::Tree;
use crate::ratchet::Ratchet;

const LIST: &str = "xtask/words.txt";

/// Findings that are shown for one term; the rest is only counted.
const PLACES_MAX: usize = 5;

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let Some(list) = tree.get(LIST) else { return vec![format!("no {LIST}")] };
    let lines: Vec<(String, String)> = prose(tree).collect();
    let found = terms(list).map(|(term, better)| {
        let places: Vec<&str> =
            lines.iter().filter(|(_, line)| has_word(line, &term)).map(|(place, _)| place.as_str()).collect();
        let shown = places[..places.len().min(PLACES_MAX)].join(", ");
        let text = format!("\"{term}\": write {better}: {} lines, such as {shown}", places.len());
        (term, places.len(), text)
    });
    Ratchet::read(tree, "word").judge(0, found.collect::<Vec<_>>())
}

fn terms(list: &str) -> impl Iterator<Item = (String, &str)> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(':'))
        .map(|(term, better)| (term.trim().to_lowercase(), better.trim()))
}

/// Every line of Rust and Markdown in lower case, with its place. A name of several words is read
/// as words: `StandIn` and `stand_in` as "stand in".
fn prose(tree: &Tree) -> impl Iterator<Item = (String, String)> {
    tree.with_ending(".rs").chain(tree.with_ending(".md")).flat_map(|file| {
        file.text
            .lines()
            .enumerate()
            .map(|(n, line)| (format!("{}:{}", file.path, n + 1), words_of_names(line)))
    })
}

fn words_of_names(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 8);
    for c in line.chars() {
        if c.is_uppercase() && out.ends_with(|before: char| before.is_lowercase()) {
            out.push(' ');
        }
        if c == '_' || c == '-' {
            out.push(' ');
        } else {
            out.extend(c.to_lowercase());
        }
    }
    out
}

/// Whether the term stands in the line as whole words.
fn has_word(line: &str, term: &str) -> bool {
    line.match_indices(term).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let after = line[at + term.len()..].chars().next().is_some_and(char::is_alphanumeric);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(line: &str, term: &str) -> bool {
        has_word(&words_of_names(line), term)
    }

    #[test]
    fn words_are_whole_and_names_are_words() {
        assert!(has("the long way out", "long way"));
        assert!(has("a_short_one: queue.", "queue"));
        assert!(has("struct LongWay;", "long way"));
        assert!(has("a long-way", "long way"));
        assert!(!has("enqueues", "queue"));
    }
}
