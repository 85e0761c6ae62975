//! Values of flags, from any source.

use std::collections::BTreeMap;
use std::time::Duration;

use vetch_server::http::url::Url;

use super::table::{self, FLAGS};
use super::value::{self, ValueError};
use super::{Class, Flag, Kind, literal};

/// Given values and defaults, and notes for the log.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    given: BTreeMap<&'static str, String>,
    /// The configuration file, if there is one.
    pub(crate) file: Option<String>,
    /// Flags accepted without effect, with the reason.
    pub(crate) without_effect: Vec<(&'static str, String)>,
    /// Further lines for the log: what was ignored, and why.
    pub(crate) warnings: Vec<String>,
    /// Variables that were taken into account.
    pub(crate) used_variables: Vec<String>,
}

/// A flag that must not be ignored has another value than its default.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{name} is refused: {why}")]
pub(crate) struct RefusedFlag {
    name: &'static str,
    why: &'static str,
}

impl Parsed {
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The given value, or the default.
    pub(crate) fn text(&self, name: &str) -> &str {
        let flag = flag(name).unwrap_or_else(|| panic!("no flag {name}"));
        match self.given.get(name) {
            Some(value) if flag.kind == Kind::Urls && value.is_empty() => flag.default,
            Some(value) => value,
            None => flag.default,
        }
    }

    pub(crate) fn bool(&self, name: &str) -> bool {
        literal::boolean(self.text(name)).expect("checked when parsed")
    }

    pub(crate) fn int(&self, name: &str) -> i64 {
        let number = literal::integer(self.text(name)).expect("checked when parsed");
        i64::try_from(number).expect("checked when parsed")
    }

    pub(crate) fn uint(&self, name: &str) -> u64 {
        let number = literal::integer(self.text(name)).expect("checked when parsed");
        u64::try_from(number).expect("checked when parsed")
    }

    pub(crate) fn duration(&self, name: &str) -> Duration {
        literal::duration(self.text(name)).expect("checked when parsed")
    }

    /// A comma-separated list.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let parts = self.text(name).split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_string).collect()
    }

    pub(crate) fn urls(&self, name: &str) -> Vec<Url> {
        match self.text(name) {
            "" => Vec::new(),
            text => Url::parse_list(text).expect("checked when parsed"),
        }
    }

    /// Sets a valid value.
    pub(super) fn set(&mut self, flag: &'static Flag, value: String) -> Result<(), ValueError> {
        value::check(flag.kind, &value)?;
        self.set_unchecked(flag, value);
        Ok(())
    }

    /// Sets the value of a flag of text, whether or not the text is one of those that the flag
    /// knows.
    pub(super) fn set_unchecked(&mut self, flag: &'static Flag, value: String) {
        self.given.insert(flag.name, value);
    }

    /// Refuses flags that must not be ignored, and notes those without effect.
    pub(super) fn check_classes(&mut self) -> Result<(), RefusedFlag> {
        for (name, value) in &self.given {
            let flag = flag(name).expect("it was found when it was set");
            match flag.class {
                Class::Works => {}
                Class::NoEffect(why) => self.without_effect.push((flag.name, why.to_string())),
                Class::Refused(_) if is_default(flag, value) => {}
                Class::Refused(why) => {
                    return Err(RefusedFlag { name: flag.name, why });
                }
            }
        }
        Ok(())
    }
}

/// A flag by its present name.
pub(super) fn flag(name: &str) -> Option<&'static Flag> {
    let all = FLAGS.iter().flat_map(|(_, flags)| *flags).chain(table::ONLY_IN_FILES);
    let mut all = all;
    all.find(|flag| flag.name == name)
}

/// The value is the default, whatever its spelling.
fn is_default(flag: &Flag, value: &str) -> bool {
    match flag.kind {
        Kind::Bool => literal::boolean(value) == literal::boolean(flag.default),
        Kind::Duration => literal::duration(value) == literal::duration(flag.default),
        _ => value == flag.default,
    }
}
