//! A configuration file in place of flags and variables: YAML (or JSON), with the names etcd gives
//! its settings.
//!
//! Most names are those of flags. TLS has two blocks of its own, sockets and discovery one each.
//! Types are etcd's: durations are whole nanoseconds, lists are lists, and a bare number is no
//! text. An unknown name is ignored with a warning: etcd ignores it silently, and files are written
//! for several of its versions.

use std::fs;

use yaml_rust2::yaml::Hash;
use yaml_rust2::{Yaml, YamlLoader};

use super::old_names::{self, OldName};
use super::parsed::{Parsed, flag};
use super::value::ValueError;
use super::{Flag, Kind};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    #[error("open {path}: {error}")]
    Open { path: String, error: String },
    #[error("cannot read {path} as YAML: {error}")]
    Syntax { path: String, error: String },
    #[error("cannot unmarshal {found} into {key}, which must be {wanted}")]
    Type { key: String, found: &'static str, wanted: &'static str },
    #[error("unexpected error setting up {key}: {why}")]
    Value { key: String, why: ValueError },
    #[error("invalid {0}")]
    Block(String),
}

/// Blocks of a file: the prefix of the flags of their names, and names that differ altogether.
struct Block {
    name: &'static str,
    prefix: &'static str,
    names: &'static [(&'static str, &'static str)],
}

const BLOCKS: [Block; 4] = [
    Block {
        name: "client-transport-security",
        prefix: "",
        names: &[
            ("allowed-cn", "client-cert-allowed-cn"),
            ("allowed-hostname", "client-cert-allowed-hostname"),
            ("skip-client-san-verification", "client-skip-client-san-verification"),
        ],
    },
    Block {
        name: "peer-transport-security",
        prefix: "peer-",
        names: &[("allowed-cn", "peer-cert-allowed-cn"), ("allowed-hostname", "peer-cert-allowed-hostname")],
    },
    Block { name: "socket-options", prefix: "socket-", names: &[] },
    Block { name: "discovery-config", prefix: "discovery-", names: &[] },
];

/// The names in the two blocks for TLS.
const SECURITY: [&str; 10] = [
    "allowed-cn",
    "allowed-hostname",
    "auto-tls",
    "cert-file",
    "client-cert-auth",
    "client-cert-file",
    "client-key-file",
    "key-file",
    "skip-client-san-verification",
    "trusted-ca-file",
];

/// Flags whose values etcd checks on the command line only. For the first, another value is refused
/// later with another text; the second is ignored.
const ANY_TEXT_IN_FILES: [&str; 2] = ["initial-cluster-state", "v2-deprecation"];

/// Flags that a file cannot set: they are about the command line, or belong to a block. etcd
/// ignores such a name, whatever its value: the sample file that comes with etcd says
/// `discovery-fallback: 'proxy'`, which as a flag is refused.
const NOT_IN_FILES: [&str; 41] = [
    "auto-tls",
    "cert-file",
    "client-cert-allowed-cn",
    "client-cert-allowed-hostname",
    "client-cert-auth",
    "client-cert-file",
    "client-crl-file",
    "client-key-file",
    "client-skip-client-san-verification",
    "config-file",
    "discovery-cacert",
    "discovery-cert",
    "discovery-dial-timeout",
    "discovery-endpoints",
    "discovery-fallback",
    "discovery-insecure-skip-tls-verify",
    "discovery-insecure-transport",
    "discovery-keepalive-time",
    "discovery-keepalive-timeout",
    "discovery-key",
    "discovery-password",
    "discovery-request-timeout",
    "discovery-token",
    "discovery-user",
    "key-file",
    "peer-auto-tls",
    "peer-cert-allowed-cn",
    "peer-cert-allowed-hostname",
    "peer-cert-file",
    "peer-client-cert-auth",
    "peer-client-cert-file",
    "peer-client-key-file",
    "peer-crl-file",
    "peer-key-file",
    "peer-skip-client-san-verification",
    "peer-trusted-ca-file",
    "raft-read-timeout",
    "raft-write-timeout",
    "socket-reuse-address",
    "socket-reuse-port",
    "trusted-ca-file",
];

/// Every setting of the file at `path`.
pub(super) fn read(path: &str) -> Result<Parsed, FileError> {
    let text = fs::read_to_string(path)
        .map_err(|error| FileError::Open { path: path.to_string(), error: said(&error) })?;
    let mut parsed = Parsed::default();
    parsed.file = Some(path.to_string());
    let syntax = |error: String| FileError::Syntax { path: path.to_string(), error };
    let documents = YamlLoader::load_from_str(&text).map_err(|error| syntax(error.to_string()))?;
    match documents.first() {
        None | Some(Yaml::Null) => {}
        Some(Yaml::Hash(settings)) => top(settings, &mut parsed)?,
        Some(_) => return Err(syntax("it must be a mapping of names to values".to_string())),
    }
    Ok(parsed)
}

/// The system's error text without its number, as in Go.
fn said(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

fn top(settings: &Hash, parsed: &mut Parsed) -> Result<(), FileError> {
    for (key, value) in settings {
        let key = name_of(key)?;
        if let Some(block) = BLOCKS.iter().find(|block| block.name == key) {
            inner(block, value, parsed)?;
            continue;
        }
        let (name, found) = match old_names::find(&key) {
            Some(OldName::Renamed(new)) => (new, flag(new)),
            Some(OldName::Gone { why, .. }) => {
                parsed.warnings.push(format!("{key} is no longer a setting and is ignored: {why}"));
                continue;
            }
            Some(OldName::Ignored) | None => (key.as_str(), flag(&key)),
        };
        match found.filter(|_| !NOT_IN_FILES.contains(&name)) {
            Some(flag) => set(flag, &key, value, parsed)?,
            None => unknown(&key, parsed),
        }
    }
    Ok(())
}

fn inner(block: &Block, value: &Yaml, parsed: &mut Parsed) -> Result<(), FileError> {
    let settings = match value {
        Yaml::Hash(settings) => settings,
        Yaml::Null => return Ok(()),
        _ => return Err(FileError::Block(block.name.to_string())),
    };
    for (key, value) in settings {
        let key = name_of(key)?;
        let full = format!("{}.{key}", block.name);
        let known = !block.name.ends_with("security") || SECURITY.contains(&key.as_str());
        let differs = block.names.iter().find(|(name, _)| *name == key).map(|(_, flag)| flag.to_string());
        match flag(&differs.unwrap_or_else(|| format!("{}{key}", block.prefix))).filter(|_| known) {
            Some(flag) => set(flag, &full, value, parsed)?,
            None => unknown(&full, parsed),
        }
    }
    Ok(())
}

fn unknown(key: &str, parsed: &mut Parsed) {
    parsed.warnings.push(format!("unknown setting {key} in the configuration file is ignored"));
}

/// Names are compared as Go's JSON decoder compares them: capitals do not matter.
fn name_of(key: &Yaml) -> Result<String, FileError> {
    let name = key.as_str().map(str::to_ascii_lowercase);
    name.ok_or(FileError::Type { key: "a name".into(), found: kind_of(key), wanted: "a text" })
}

fn set(flag: &'static Flag, key: &str, value: &Yaml, parsed: &mut Parsed) -> Result<(), FileError> {
    if value.is_null() {
        return Ok(());
    }
    let (text, wanted) = match flag.kind {
        Kind::Bool => (switch(value), "true or false"),
        Kind::Int | Kind::Uint | Kind::Uint32 => (value.as_i64().map(|n| n.to_string()), "a whole number"),
        Kind::Duration => (value.as_i64().map(|n| format!("{n}ns")), "a whole number of nanoseconds"),
        Kind::Words => (words(value), "a list of texts"),
        Kind::Text | Kind::Urls | Kind::Origins | Kind::Choice(_) | Kind::Choices(_) | Kind::Gates => {
            (text(value), "a text")
        }
    };
    let wrong = || FileError::Type { key: key.to_string(), found: kind_of(value), wanted };
    // An empty text is the value of a setting that is not set.
    let text = text.ok_or_else(wrong)?;
    let keeps_default =
        matches!(flag.kind, Kind::Urls | Kind::Origins | Kind::Choice(_) | Kind::Choices(_) | Kind::Words);
    if text.is_empty() && keeps_default {
        return Ok(());
    }
    if ANY_TEXT_IN_FILES.contains(&flag.name) {
        parsed.set_unchecked(flag, text);
        return Ok(());
    }
    parsed.set(flag, text).map_err(|why| FileError::Value { key: key.to_string(), why })
}

fn text(value: &Yaml) -> Option<String> {
    match value {
        Yaml::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// The words of YAML 1.1 for true and false are accepted too.
fn switch(value: &Yaml) -> Option<String> {
    let on = match value {
        Yaml::Boolean(on) => *on,
        Yaml::String(text) => match text.to_ascii_lowercase().as_str() {
            "y" | "yes" | "on" => true,
            "n" | "no" | "off" => false,
            _ => return None,
        },
        _ => return None,
    };
    Some(on.to_string())
}

fn words(value: &Yaml) -> Option<String> {
    let words: Option<Vec<String>> = value.as_vec()?.iter().map(text).collect();
    words.map(|words| words.join(","))
}

fn kind_of(value: &Yaml) -> &'static str {
    match value {
        Yaml::Real(_) | Yaml::Integer(_) => "a number",
        Yaml::String(_) => "a text",
        Yaml::Boolean(_) => "true or false",
        Yaml::Array(_) => "a list",
        Yaml::Hash(_) => "a mapping",
        Yaml::Alias(_) | Yaml::Null | Yaml::BadValue => "nothing",
    }
}

#[cfg(test)]
mod tests;
