//! Ratchet: where the repository does not keep a rule yet, and how far it may be from it.
//!
//! `xtask/ratchet.txt` has a rule, a subject and the largest number on each line. A number may only
//! become smaller: one that is a tenth larger than needed is a finding too.

use std::collections::BTreeMap;

use crate::files::Tree;

const LIST: &str = "xtask/ratchet.txt";

pub(crate) struct Ratchet {
    rule: &'static str,
    allowed: BTreeMap<String, usize>,
}

impl Ratchet {
    /// What the list says about one rule.
    pub(crate) fn read(tree: &Tree, rule: &'static str) -> Ratchet {
        Ratchet { rule, allowed: parse(tree.get(LIST).unwrap_or_default(), rule) }
    }

    /// Findings for numbers by subject. `limit` is for subjects that the list does not name.
    pub(crate) fn judge(
        mut self,
        limit: usize,
        found: impl IntoIterator<Item = (String, usize, String)>,
    ) -> Vec<String> {
        let mut findings = Vec::new();
        for (subject, number, text) in found {
            match self.allowed.remove(&subject) {
                Some(allowed) if number > allowed => {
                    findings.push(format!("{text}; {LIST} allows {allowed}"));
                }
                Some(allowed) if number * 10 <= allowed * 9 => {
                    let rule = self.rule;
                    findings.push(format!("{LIST}: lower \"{rule} {subject} {allowed}\" to {number}"));
                }
                None if number > limit => findings.push(format!("{text}, more than {limit}")),
                _ => {}
            }
        }
        let rule = self.rule;
        findings.extend(self.allowed.into_keys().map(|s| format!("{LIST}: remove \"{rule} {s}\"")));
        findings
    }
}

fn parse(list: &str, rule: &str) -> BTreeMap<String, usize> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.strip_prefix(rule)?.strip_prefix(' ')?.rsplit_once(' '))
        .filter_map(|(subject, number)| Some((subject.trim().to_owned(), number.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(found: &[(&str, usize)]) -> usize {
        let ratchet =
            Ratchet { rule: "lines", allowed: parse("lines a b 5\nlinesx c 9\n# lines d 9\n", "lines") };
        ratchet.judge(3, found.iter().map(|(s, n)| ((*s).to_owned(), *n, format!("{s}: {n}")))).len()
    }

    #[test]
    fn numbers_neither_grow_nor_stay_behind() {
        assert_eq!(judge(&[("a b", 5), ("c", 3)]), 0);
        assert_eq!(judge(&[("a b", 6)]), 1, "grown");
        assert_eq!(judge(&[("a b", 4)]), 1, "the list is to be lowered");
        assert_eq!(judge(&[("a b", 5), ("c", 4), ("d", 4)]), 2, "not in the list");
        assert_eq!(judge(&[]), 1, "the list names what is gone");
    }
}
