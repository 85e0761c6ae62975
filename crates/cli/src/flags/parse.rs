//! From arguments and environment to values.

use std::collections::BTreeMap;

use super::old_names::{self, OldName};
use super::parsed::{Parsed, RefusedFlag, flag};
use super::value::ValueError;
use super::{Kind, file, literal};

/// The result of the command line.
#[derive(Debug)]
pub(crate) enum Command {
    Serve(Parsed),
    Help,
    Version,
}

/// Errors that prevent a start.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    #[error("flag needs an argument: -{0}")]
    NoValue(String),
    #[error("invalid boolean value {value:?} for -{name}: {why}")]
    Switch { name: String, value: String, why: ValueError },
    #[error("invalid value {value:?} for flag -{name}: {why}")]
    Value { name: String, value: String, why: ValueError },
    #[error("{0:?} is not a valid flag")]
    NotAFlag(String),
    #[error("etcd's subcommand {0} is not available here; run it with etcd's own binary")]
    Subcommand(String),
    #[error("invalid value {value:?} for {variable}: {why}")]
    Variable { variable: String, value: String, why: ValueError },
    #[error(
        "conflicting environment variable is shadowed by corresponding command-line flag (either unset environment variable or disable flag)): {0}"
    )]
    Conflict(String),
    #[error(transparent)]
    Refused(#[from] RefusedFlag),
    #[error(transparent)]
    File(#[from] file::FileError),
}

impl UsageError {
    /// Go's flag package exits with 2, everything after it with 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            UsageError::Unknown(_)
            | UsageError::Syntax(_)
            | UsageError::NoValue(_)
            | UsageError::Switch { .. }
            | UsageError::Value { .. } => 2,
            UsageError::NotAFlag(_)
            | UsageError::Subcommand(_)
            | UsageError::Variable { .. }
            | UsageError::Conflict(_)
            | UsageError::Refused(_)
            | UsageError::File(_) => 1,
        }
    }
}

pub(crate) fn parse(
    arguments: impl IntoIterator<Item = String>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Command, UsageError> {
    let arguments: Vec<String> = arguments.into_iter().collect();
    if let Some(word) = arguments.first().filter(|word| ["gateway", "grpc-proxy"].contains(&word.as_str())) {
        return Err(UsageError::Subcommand(word.clone()));
    }
    let mut line = Line::default();
    if line.read(arguments)? {
        return Ok(Command::Help);
    }
    if line.version {
        return Ok(Command::Version);
    }
    let environment: BTreeMap<String, String> = environment.into_iter().collect();
    let named = line.parsed.text("config-file").to_string();
    let named = if named.is_empty() { environment.get("ETCD_CONFIG_FILE").cloned() } else { Some(named) };
    let mut parsed = match named.filter(|path| !path.is_empty()) {
        Some(path) => file::read(&path)?,
        None => {
            read_environment(&environment, &mut line)?;
            line.parsed
        }
    };
    parsed.check_classes()?;
    Ok(Command::Serve(parsed))
}

/// The command line, as far as it was read.
#[derive(Default)]
struct Line {
    parsed: Parsed,
    version: bool,
}

impl Line {
    /// True if help is requested, which ends parsing.
    fn read(&mut self, arguments: impl IntoIterator<Item = String>) -> Result<bool, UsageError> {
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
                "h" | "help" => return Ok(true),
                "version" => self.version = switch(name, value)?,
                _ => self.take(name, value, &mut arguments)?,
            }
        }
        Ok(false)
    }

    fn take(
        &mut self,
        name: &str,
        value: Option<String>,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), UsageError> {
        let (name, found) = match old_names::find(name) {
            Some(OldName::Ignored) => {
                self.parsed.warnings.push(format!("flag is no longer supported - ignoring: --{name}"));
                return Ok(());
            }
            Some(OldName::Renamed(new)) => (new, flag(new)),
            Some(OldName::Gone { takes_value, why }) => {
                self.parsed.warnings.push(format!("--{name} is no longer a flag and is ignored: {why}"));
                if takes_value && value.is_none() {
                    rest.next().ok_or_else(|| UsageError::NoValue(name.to_string()))?;
                }
                return Ok(());
            }
            None => (name, flag(name)),
        };
        let flag = found.ok_or_else(|| UsageError::Unknown(name.to_string()))?;
        let value = match value {
            Some(value) => value,
            None if flag.kind == Kind::Bool => "true".to_string(),
            None => rest.next().ok_or_else(|| UsageError::NoValue(name.to_string()))?,
        };
        self.parsed.set(flag, value.clone()).map_err(|why| match flag.kind {
            Kind::Bool => UsageError::Switch { name: name.to_string(), value, why },
            _ => UsageError::Value { name: name.to_string(), value, why },
        })
    }
}

/// The value of `--version` and its like.
fn switch(name: &str, value: Option<String>) -> Result<bool, UsageError> {
    let Some(value) = value else { return Ok(true) };
    literal::boolean(&value).ok_or_else(|| UsageError::Switch {
        name: name.to_string(),
        value: value.clone(),
        why: ValueError::Syntax,
    })
}

/// The variable `ETCD_UNSUPPORTED_ARCH`, which belongs to no flag.
const UNSUPPORTED_ARCH: &str = "unsupported-arch";

fn read_environment(environment: &BTreeMap<String, String>, line: &mut Line) -> Result<(), UsageError> {
    let parsed = &mut line.parsed;
    let mut found = Vec::new();
    for (variable, value) in environment {
        let Some(rest) = variable.strip_prefix("ETCD_") else { continue };
        let name = rest.to_lowercase().replace('_', "-");
        let flag = match old_names::find(&name) {
            Some(OldName::Renamed(new)) => flag(new),
            Some(OldName::Gone { why, .. }) => {
                parsed.warnings.push(format!("{variable} is no longer known and is ignored: {why}"));
                continue;
            }
            Some(OldName::Ignored) => continue,
            None => flag(&name),
        };
        match flag {
            // etcd reads it before its flags, on architectures that it does not support.
            // Deployments set it on others, too.
            _ if name == UNSUPPORTED_ARCH => {
                parsed.warnings.push(format!("{variable} has no effect: no architecture is refused here"))
            }
            // The flag is not to be set by a variable.
            _ if name == "version" => {
                parsed.warnings.push(format!("cannot set special environment variable: {variable}"))
            }
            None => parsed.warnings.push(format!("unrecognized environment variable: {variable}")),
            Some(flag) if parsed.is_given(flag.name) => return Err(UsageError::Conflict(variable.clone())),
            // An empty variable counts as not set.
            Some(_) if value.is_empty() => {}
            Some(flag) => found.push((flag, variable, value)),
        }
    }
    for (flag, variable, value) in found {
        parsed.set(flag, value.clone()).map_err(|why| UsageError::Variable {
            variable: variable.clone(),
            value: value.clone(),
            why,
        })?;
        parsed.used_variables.push(variable.clone());
    }
    Ok(())
}
