//! One register: read, write, compare-and-set.

use super::Sequential;

/// An operation with its answer. Nothing is answered where the outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read {
        /// None: there was nothing yet.
        found: Option<i64>,
    },
    Write {
        value: i64,
    },
    Cas {
        expected: i64,
        value: i64,
        /// None: unknown.
        succeeded: Option<bool>,
    },
}

/// A register that is empty at first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Register;

impl Sequential for Register {
    type State = Option<i64>;
    type Operation = Access;

    fn start(&self) -> Option<i64> {
        None
    }

    fn step(&self, state: &Option<i64>, access: &Access) -> Vec<Option<i64>> {
        match *access {
            Access::Read { found } if found == *state => vec![*state],
            Access::Read { .. } => Vec::new(),
            Access::Write { value } => vec![Some(value)],
            Access::Cas { expected, value, succeeded } => {
                let holds = *state == Some(expected);
                match succeeded {
                    Some(succeeded) if succeeded != holds => Vec::new(),
                    _ if holds => vec![Some(value)],
                    _ => vec![*state],
                }
            }
        }
    }
}
