//! Lines of the script.

use anyhow::{Context, Result, bail};

use crate::server::Kind;

/// One line of the script.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) variables: Vec<(String, String)>,
    pub(super) file: Option<String>,
    pub(super) flags: Vec<String>,
    etcd: Wanted,
    vetch: Wanted,
}

/// What is to come of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Starts,
    /// Neither ends nor serves, as long as anybody cares to look.
    Waits,
    Ends {
        code: i32,
        words: String,
    },
}

impl Line {
    pub(super) fn wanted(&self, kind: Kind) -> &Wanted {
        match kind {
            Kind::Etcd => &self.etcd,
            Kind::Vetch => &self.vetch,
        }
    }
}

pub(super) fn parse(script: &str) -> Result<Vec<Line>> {
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| one(line).with_context(|| format!("in the line: {line}"))).collect()
}

fn one(text: &str) -> Result<Line> {
    let (left, right) = text.split_once(" => ").context("no outcome")?;
    let (etcd, vetch) = match right.strip_prefix("etcd ") {
        Some(right) => right.split_once(" | vetch ").context("no outcome for vetch")?,
        None => (right, right),
    };
    let mut line = Line {
        text: text.to_owned(),
        variables: Vec::new(),
        file: None,
        flags: Vec::new(),
        etcd: wanted(etcd)?,
        vetch: wanted(vetch)?,
    };
    for word in left.split_whitespace() {
        match (word.strip_prefix("file:"), word.split_once('=')) {
            // A word cannot hold a space, so an underscore stands for one.
            (Some(yaml), _) => line.file = Some(yaml.replace("\\n", "\n").replace('_', " ")),
            (None, Some((name, value))) if name.starts_with("ETCD_") => {
                line.variables.push((name.to_owned(), value.to_owned()));
            }
            _ => line.flags.push(word.to_owned()),
        }
    }
    Ok(line)
}

fn wanted(text: &str) -> Result<Wanted> {
    if text == "starts" {
        return Ok(Wanted::Starts);
    }
    if text == "waits" {
        return Ok(Wanted::Waits);
    }
    let (code, words) = text.split_once(' ').unwrap_or((text, ""));
    match code.parse() {
        Ok(code) => Ok(Wanted::Ends { code, words: words.to_owned() }),
        Err(_) => bail!("{text:?} is no outcome"),
    }
}
