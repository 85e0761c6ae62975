//! Flags: etcd's names, parsed as Go's `flag` package parses them, from one table.
//!
//! Every flag of etcd 3.7.1 is in the [table]: it works, or it has no effect here and is accepted
//! with a log line that says why, or it is refused because ignoring it would break its promise. The
//! help text and docs/compatibility.md come from the same table. Names of earlier releases are
//! mapped to today's or ignored.
//!
//! Each flag also has an environment variable, `ETCD_` and the name in capitals. Giving both is an
//! error, as in etcd: there is no telling which one was meant. A configuration [file] replaces all
//! of them: if there is one, everything else is ignored.

mod file;
mod gates;
mod help;
mod literal;
mod old_names;
mod parse;
mod parsed;
mod table;
mod value;

pub(crate) use gates::{GateError, check_together as check_gates_together, feature_gates};
pub(crate) use help::help;
pub(crate) use literal::{duration, duration_or_hours};
pub(crate) use parse::{Command, UsageError, parse};
pub(crate) use parsed::Parsed;

#[cfg(test)]
mod tests;

/// One flag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// The default, as text.
    pub(crate) default: &'static str,
    pub(crate) kind: Kind,
    pub(crate) class: Class,
    pub(crate) help: &'static str,
}

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `--flag` alone means true.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// An unsigned integer of 32 bits.
    Uint32,
    /// A duration such as `1h30m`; in a file, nanoseconds.
    Duration,
    Text,
    /// Words separated by commas; in a file, a list.
    Words,
    /// URLs separated by commas. An empty value is the default.
    Urls,
    /// The same, or a star for all. An empty value is the default.
    Origins,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Some of these, separated by commas.
    Choices(&'static [&'static str]),
    /// Names of feature gates with true or false.
    Gates,
}

/// The effect of the flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Works,
    /// Accepted without effect: the reason.
    NoEffect(&'static str),
    /// Any value but the default stops the start: the reason.
    Refused(&'static str),
}
