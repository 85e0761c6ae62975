//! Words: terms that were replaced by the field's own do not come back.
//!
//! `xtask/words.txt` has one term a line, a colon, and what to write instead.

use crate::files::Tree;

const LIST: &str = "xtask/words.txt";

pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let Some(list) = tree.get(LIST) else { return vec![format!("no {LIST}")] };
    let terms: Vec<(String, &str)> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(':'))
        .map(|(term, better)| (term.trim().to_lowercase(), better.trim()))
        .collect();
    let mut found = Vec::new();
    for file in tree.with_ending(".rs").chain(tree.with_ending(".md")) {
        for (n, line) in file.text.lines().enumerate() {
            let line = line.to_lowercase();
            for (term, better) in terms.iter().filter(|(term, _)| has_word(&line, term)) {
                found.push(format!("{}:{}: \"{term}\": write {better}", file.path, n + 1));
            }
        }
    }
    found
}

/// Whether the term stands in the line as whole words.
fn has_word(line: &str, term: &str) -> bool {
    line.match_indices(term).any(|(at, _)| {
        let is_part = |c: char| c.is_alphanumeric();
        let before = line[..at].chars().next_back().is_some_and(is_part);
        let after = line[at + term.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::has_word;

    #[test]
    fn words_are_whole() {
        assert!(has_word("the long way out", "long way"));
        assert!(has_word("a_short_one: pulse.", "pulse"));
        assert!(!has_word("impulses", "pulse"));
    }
}
