//! From arguments and environment to values.

use std::collections::BTreeMap;

use super::table::{FLAGS, OLD_NAMES, SWALLOWED};
use super::value;
use super::{Class, Flag, Kind};

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Command {
    Serve(Parsed),
    Help,
    Version,
}

/// Why nothing can be started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    #[error("flag needs an argument: -{0}")]
    NoValue(String),
    #[error("invalid value {value:?} for flag -{name}: {why}")]
    Value { name: String, value: String, why: String },
    #[error("{0:?} is not a valid flag")]
    NotAFlag(String),
    #[error(
        "conflicting environment variable is shadowed by corresponding command-line flag (either unset environment variable or disable flag)): {0}"
    )]
    Conflict(String),
    #[error("--{name} is refused: {why}")]
    Refused { name: String, why: &'static str },
}

impl UsageError {
    /// Go's flag package exits with 2, everything after it with 1.
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            UsageError::NotAFlag(_) | UsageError::Conflict(_) | UsageError::Refused { .. } => 1,
            _ => 2,
        }
    }
}

/// Values given and not given, and what the log should say about them.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    given: BTreeMap<&'static str, String>,
    /// Flags accepted without meaning, with the reason.
    pub(crate) without_meaning: Vec<(&'static str, &'static str)>,
    /// Variables that look like ours and are not.
    pub(crate) unknown_variables: Vec<String>,
}

impl Parsed {
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The value given, or the default.
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.given.get(name) {
            Some(value) => value,
            None => flag(name).unwrap_or_else(|| panic!("no flag {name}")).default,
        }
    }

    pub(crate) fn bool(&self, name: &str) -> bool {
        value::boolean(self.text(name)).expect("checked when parsed")
    }

    pub(crate) fn int(&self, name: &str) -> i64 {
        self.text(name).parse().expect("checked when parsed")
    }

    pub(crate) fn uint(&self, name: &str) -> u64 {
        self.text(name).parse().expect("checked when parsed")
    }

    pub(crate) fn duration(&self, name: &str) -> std::time::Duration {
        value::duration(self.text(name)).expect("checked when parsed")
    }

    /// A comma-separated list.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let parts = self.text(name).split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_string).collect()
    }
}

fn flag(name: &str) -> Option<&'static Flag> {
    let name = OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
    FLAGS.iter().flat_map(|(_, flags)| *flags).find(|flag| flag.name == name)
}

pub(crate) fn parse(
    arguments: impl IntoIterator<Item = String>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Command, UsageError> {
    let mut parsed = Parsed::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let name = match argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) {
            Some("") if argument == "--" => match arguments.next() {
                Some(rest) => return Err(UsageError::NotAFlag(rest)),
                None => break,
            },
            Some(name) if !name.is_empty() => name,
            _ => return Err(UsageError::NotAFlag(argument)),
        };
        if name.starts_with('-') || name.starts_with('=') {
            return Err(UsageError::Syntax(argument));
        }
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (name, None),
        };
        match name {
            "h" | "help" => return Ok(Command::Help),
            "version" => return Ok(Command::Version),
            _ => take(name, value, &mut arguments, &mut parsed)?,
        }
    }
    read_environment(environment, &mut parsed)?;
    judge(&mut parsed)?;
    Ok(Command::Serve(parsed))
}

fn take(
    name: &str,
    value: Option<String>,
    arguments: &mut impl Iterator<Item = String>,
    parsed: &mut Parsed,
) -> Result<(), UsageError> {
    if SWALLOWED.contains(&name) {
        return Ok(());
    }
    let flag = flag(name).ok_or_else(|| UsageError::Unknown(name.to_string()))?;
    let value = match value {
        Some(value) => value,
        None if flag.kind == Kind::Bool => "true".to_string(),
        None => arguments.next().ok_or_else(|| UsageError::NoValue(name.to_string()))?,
    };
    set(flag, value, parsed)
}

fn set(flag: &'static Flag, value: String, parsed: &mut Parsed) -> Result<(), UsageError> {
    value::check(flag.kind, &value).map_err(|why| UsageError::Value {
        name: flag.name.to_string(),
        value: value.clone(),
        why: why.to_string(),
    })?;
    parsed.given.insert(flag.name, value);
    Ok(())
}

fn read_environment(
    environment: impl IntoIterator<Item = (String, String)>,
    parsed: &mut Parsed,
) -> Result<(), UsageError> {
    for (variable, value) in environment {
        let Some(rest) = variable.strip_prefix("ETCD_") else { continue };
        let Some(flag) = flag(&rest.to_lowercase().replace('_', "-")) else {
            parsed.unknown_variables.push(variable);
            continue;
        };
        // An empty variable is one that is not set.
        if value.is_empty() {
            continue;
        }
        if parsed.is_given(flag.name) {
            return Err(UsageError::Conflict(variable));
        }
        set(flag, value, parsed)?;
    }
    Ok(())
}

/// Refuses what must not be ignored, notes what may be.
fn judge(parsed: &mut Parsed) -> Result<(), UsageError> {
    for (name, value) in &parsed.given {
        let flag = flag(name).expect("it was found when it was set");
        match flag.class {
            Class::Works => {}
            Class::NoMeaning(why) => parsed.without_meaning.push((flag.name, why)),
            Class::Refused(_) if same(flag, value) => {}
            Class::Refused(why) => return Err(UsageError::Refused { name: flag.name.to_string(), why }),
        }
    }
    Ok(())
}

/// The value is the default, whatever its spelling.
fn same(flag: &Flag, value: &str) -> bool {
    match flag.kind {
        Kind::Bool => value::boolean(value) == value::boolean(flag.default),
        Kind::Duration => value::duration(value) == value::duration(flag.default),
        _ => value == flag.default,
    }
}
