//! Reads the script: lines into steps. The language is described at the top of the script itself.

use anyhow::{Context, Result, bail};

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Run(Run),
    Start(String, Run),
    Until(String, usize),
    Stop(String),
    Settle,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Run {
    pub(super) line: usize,
    pub(super) words: Vec<String>,
    pub(super) input: String,
    pub(super) remember: Option<String>,
    pub(super) columns: Option<String>,
    /// The outputs are known to differ, on purpose.
    pub(super) deviates: bool,
}

pub(super) fn parse(text: &str) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        if let Some(input) = line.strip_prefix('<') {
            let Some(Step::Run(run) | Step::Start(_, run)) = steps.last_mut() else {
                bail!("line {line_number}: input without a command");
            };
            run.input.push_str(input.strip_prefix(' ').unwrap_or(input));
            run.input.push('\n');
            continue;
        }
        let words = split(line).with_context(|| format!("line {line_number}"))?;
        if let Some(step) = step(line_number, &words).with_context(|| format!("line {line_number}"))? {
            steps.push(step);
        }
    }
    Ok(steps)
}

fn step(line: usize, words: &[String]) -> Result<Option<Step>> {
    let run = |words: &[String]| Run { line, words: words.to_vec(), ..Default::default() };
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(Some(match texts.as_slice() {
        [] => return Ok(None),
        [first, ..] if first.starts_with('#') => return Ok(None),
        ["let", name, "=", ..] => Step::Run(Run { remember: Some((*name).to_owned()), ..run(&words[3..]) }),
        ["start", name, ..] => Step::Start((*name).to_owned(), run(&words[2..])),
        ["until", name, count] => Step::Until((*name).to_owned(), count.parse()?),
        ["stop", name] => Step::Stop((*name).to_owned()),
        ["columns", list, ..] => Step::Run(Run { columns: Some((*list).to_owned()), ..run(&words[2..]) }),
        ["differs", ..] => Step::Run(Run { deviates: true, ..run(&words[1..]) }),
        ["settle"] => Step::Settle,
        _ => Step::Run(run(words)),
    }))
}

/// Words at spaces; single quotes keep spaces and make an empty word possible.
fn split(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    if quoted && !line.starts_with('#') {
        bail!("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::{Run, Step, parse};

    #[test]
    fn lines_become_steps() {
        let steps =
            parse("# note\nput 'a b' ''\nlet L = lease grant 5\nstart w watch -i\n< watch x\n<\nuntil w 2\n");
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            steps.unwrap(),
            [
                Step::Run(Run { line: 2, words: words(&["put", "a b", ""]), ..Default::default() }),
                Step::Run(Run {
                    line: 3,
                    words: words(&["lease", "grant", "5"]),
                    remember: Some("L".into()),
                    ..Default::default()
                }),
                Step::Start(
                    "w".into(),
                    Run {
                        line: 4,
                        words: words(&["watch", "-i"]),
                        input: "watch x\n\n".into(),
                        ..Default::default()
                    }
                ),
                Step::Until("w".into(), 2),
            ]
        );
        assert!(parse("put 'a").is_err());
        assert!(parse("< nothing to feed").is_err());
    }

    #[test]
    fn the_script_itself_is_readable() {
        let steps = parse(include_str!("../../etcdctl.script")).unwrap();
        assert!(steps.len() > 150, "only {} steps", steps.len());
    }
}
