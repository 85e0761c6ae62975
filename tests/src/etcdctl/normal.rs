//! Takes out of etcdctl's output what two correct servers may print differently: ids, times, sizes,
//! ports.
//!
//! | what | becomes |
//! |---|---|
//! | hexadecimal words of 14 digits and more (ids of members, clusters, leases) | `HEX` |
//! | decimal numbers of 15 digits and more (the same ids in JSON) | `BIG` |
//! | `127.0.0.1:1234` | `127.0.0.1:PORT` |
//! | numbers after the names in `NUMBERS` | `N` |
//! | durations after the words in `DURATIONS` | `TIME` |
//! | time stamps and client addresses in log lines on standard error | dropped |
//! | keys of a lease, which etcd lists in any order | sorted |
//! | repeated progress notices | one of them |

/// Fields whose values depend on the storage engine, on elections or on hashing.
const NUMBERS: [&str; 18] = [
    "raft_term",
    "RaftTerm",
    "raftTerm",
    "RaftIndex",
    "raftIndex",
    "raftAppliedIndex",
    "RaftAppliedIndex",
    "dbSize",
    "DBSize",
    "dbSizeInUse",
    "DBSizeInUse",
    "dbSizeQuota",
    "DBSizeQuota",
    "hash",
    "Hash",
    "ttl",
    "TTL",
    "Term",
];

/// Words that a duration or a remaining time follows.
const DURATIONS: [&str; 5] = ["took = ", "took ", "\"took\":\"", "\"Took\" : \"", "remaining("];

pub(super) fn normal(text: &str, columns: Option<&str>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut line = if line.starts_with("{\"level\"") { log_line(line) } else { line.to_owned() };
        if let Some(columns) = columns {
            line = keep_columns(&line, columns);
        }
        for name in NUMBERS {
            line = number_after(&line, &format!("\"{name}\""));
        }
        for word in DURATIONS {
            line = duration_after(&line, word);
        }
        line = sorted_keys(&line, "attached keys([", ' ');
        line = sorted_keys(&line, "\"keys\":[", ',');
        line = long_words(&line);
        if line.starts_with("progress notify") && lines.last() == Some(&line) {
            continue;
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// The parts of a client's log line that say what happened.
fn log_line(line: &str) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else { return line.to_owned() };
    ["level", "msg", "method", "attempt", "error"]
        .iter()
        .filter_map(|key| value.get(key).map(|value| format!("{key}={value}")))
        .collect::<Vec<_>>()
        .join(" ")
}

/// `0-2,5,9-` of a line like `a, b, c`.
fn keep_columns(line: &str, list: &str) -> String {
    let wanted = |index: usize| {
        list.split(',').any(|part| match part.split_once('-') {
            Some((low, high)) => {
                index >= low.parse().unwrap_or(0) && index <= high.parse().unwrap_or(usize::MAX)
            }
            None => part.parse() == Ok(index),
        })
    };
    let columns = line.split(", ").enumerate().filter(|(index, _)| wanted(*index)).map(|(_, column)| column);
    columns.collect::<Vec<_>>().join(", ")
}

/// `name : 12` or `name:12` becomes `name : N`, wherever it stands.
fn number_after(line: &str, name: &str) -> String {
    let mut parts = line.split(name);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.trim_start_matches([' ', ':']);
        let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
        let number = if rest.len() < digits.len() { "N" } else { "" };
        result.push_str(&format!("{name}{}{number}{rest}", &part[..part.len() - digits.len()]));
    }
    result
}

fn duration_after(line: &str, word: &str) -> String {
    let Some((before, after)) = line.split_once(word) else { return line.to_owned() };
    let rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == 'µ');
    if rest.len() == after.len() { line.to_owned() } else { format!("{before}{word}TIME{rest}") }
}

/// The words between `before` and the next `]`, sorted.
fn sorted_keys(line: &str, before: &str, separator: char) -> String {
    let Some((head, tail)) = line.split_once(before) else { return line.to_owned() };
    let Some((keys, rest)) = tail.split_once(']') else { return line.to_owned() };
    let mut keys: Vec<&str> = keys.split(separator).collect();
    keys.sort_unstable();
    format!("{head}{before}{}]{rest}", keys.join(&separator.to_string()))
}

/// Ids and ports, word by word.
fn long_words(line: &str) -> String {
    let mut result = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        result.push_str(&long_word(word, &result));
        let separator = tail.chars().next().map_or(0, char::len_utf8);
        result.push_str(&tail[..separator]);
        rest = &tail[separator..];
    }
    result
}

fn long_word(word: &str, before: &str) -> String {
    let decimal = word.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match word.len() {
        4..=5 if decimal && before.ends_with("127.0.0.1:") => "PORT".into(),
        15.. if decimal => "BIG".into(),
        14.. if hexadecimal => "HEX".into(),
        _ => word.to_owned(),
    }
}

/// The first id in a command's output.
pub(super) fn first_id(text: &str) -> Option<String> {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.find(|word| long_word(word, "") == "HEX" || long_word(word, "") == "BIG").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn ids_times_and_sizes_go_and_the_rest_stays() {
        let cases = [
            (r#"{"header":{"raft_term":12,"revision":7}}"#, r#"{"header":{"raft_term":N,"revision":7}}"#),
            ("\"RaftTerm\" : 2", "\"RaftTerm\" : N"),
            (
                "lease 694d9c1b1ed1a40a granted with TTL(600s), remaining(598s)",
                "lease HEX granted with TTL(600s), remaining(TIME)",
            ),
            (
                "http://127.0.0.1:13001 is healthy: took = 1.9ms",
                "http://127.0.0.1:PORT is healthy: took = TIME",
            ),
            ("progress notify: 4\nprogress notify: 4", "progress notify: 4"),
            (r#"{"level":"warn","ts":"x","msg":"m","error":"e"}"#, r#"level="warn" msg="m" error="e""#),
        ];
        for (before, after) in cases {
            assert_eq!(normal(before, None), after);
        }
        assert_eq!(normal("a, b, c, d", Some("0,2-")), "a, c, d");
    }
}
