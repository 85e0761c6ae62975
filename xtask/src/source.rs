//! Source: Rust text as the other checks read it, without a parser of the whole language.

/// The text without comments and without what string and character literals hold. Every line stays
/// at its number.
pub(crate) fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kept, len) = match first {
            '/' if rest.starts_with("//") => ("", rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => ("", block_comment(rest)),
            '"' => ("\"\"", string(rest)),
            'r' if !out.ends_with(is_word) && raw_string(rest).is_some() => {
                ("\"\"", raw_string(rest).unwrap_or(rest.len()))
            }
            '\'' if character(rest).is_some() => ("' '", character(rest).unwrap_or(rest.len())),
            _ => (&rest[..first.len_utf8()], first.len_utf8()),
        };
        out.push_str(kept);
        if len > kept.len() || kept == "\"\"" {
            out.extend(rest[..len].matches('\n'));
        }
        rest = &rest[len..];
    }
    out
}

/// Code without the items that are compiled for tests only.
pub(crate) fn production(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        rest = &rest[at + MARK.len()..];
        rest = &rest[item(rest)..];
    }
    out.push_str(rest);
    out
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Bytes of the item at the beginning of `code`: up to a semicolon or comma, or a closed block.
fn item(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if c == '}' && depth == 0 {
                    return at + 1;
                }
            }
            ';' | ',' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn block_comment(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let hashes = text[1..].chars().take_while(|c| *c == '#').count();
    let start = 1 + hashes;
    text[start..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let found = text[start + 1..].find(&end);
    Some(found.map_or(text.len(), |at| start + 1 + at + end.len()))
}

/// A character literal; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        return text[2..].char_indices().skip(1).find(|(_, c)| *c == '\'').map(|(at, _)| at + 3);
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_go_and_lines_stay() {
        let text = "a // use x\n/* b\n/* c */ */ d \"e\\\"\nf\" 'g' '\\'' &'h i r#\"j\"k\"# for";
        assert_eq!(code(text), "a \n\n d \"\"\n ' ' ' ' &'h i \"\" for");
    }

    #[test]
    fn items_for_tests_go() {
        let text = "a;\n#[cfg(test)]\nmod tests;\nb;\n#[cfg(test)]\nmod t { fn c() {} }\nd";
        assert_eq!(production(text), "a;\n\nb;\n\nd");
    }
}
