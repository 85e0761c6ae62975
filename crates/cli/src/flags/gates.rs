//! Feature gates: the names of etcd 3.7, each with true or false.
//!
//! Each of them switches something that is always on here, or that concerns Raft, so a valid set of
//! gates has no further effect.

use vetch_metrics::Feature;

use super::literal::boolean;

/// A gate, whether it is alpha, and its default.
const GATES: [(&str, bool, bool); 9] = [
    ("CompactHashCheck", true, false),
    ("FastLeaseKeepAlive", false, true),
    ("InitialCorruptCheck", true, false),
    (CHECKPOINT, true, false),
    (PERSIST, true, false),
    ("PriorityRequest", true, false),
    ("SetMemberLocalAddr", true, false),
    ("StopGRPCServiceOnDefrag", true, false),
    ("TxnModeWriteWithSharedBuffer", false, true),
];

const CHECKPOINT: &str = "LeaseCheckpoint";
const PERSIST: &str = "LeaseCheckpointPersist";
const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// Why a list of gates is refused, in etcd's words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GateError {
    #[error("missing bool value for {0}")]
    NoValue(String),
    #[error("invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")]
    Value { name: String, value: String },
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    #[error("enabling feature gate {gate} requires enabling feature gate {needed}")]
    Requires { gate: &'static str, needed: &'static str },
}

pub(super) fn check(text: &str) -> Result<(), GateError> {
    read(text).map(|_| ())
}

/// The second lease gate needs the first one. etcd checks that after the list itself was accepted.
pub(crate) fn check_together(text: &str) -> Result<(), GateError> {
    let given = read(text)?;
    let is_on = |name: &str| {
        let (_, alpha, default) =
            GATES.into_iter().find(|(gate, ..)| *gate == name).expect("it is in the table");
        is_on(&given, name, alpha, default)
    };
    if is_on(PERSIST) && !is_on(CHECKPOINT) {
        return Err(GateError::Requires { gate: PERSIST, needed: CHECKPOINT });
    }
    Ok(())
}

/// All gates as a valid list sets them, in order of their names.
pub(crate) fn feature_gates(text: &str) -> Vec<Feature> {
    let given = read(text).unwrap_or_default();
    let all = [(ALL_ALPHA, true, false), (ALL_BETA, false, false)];
    all.into_iter()
        .chain(GATES)
        .map(|(name, alpha, default)| Feature {
            name,
            stage: if alpha { "ALPHA" } else { "BETA" },
            is_on: is_on(&given, name, alpha, default),
        })
        .collect()
}

/// A gate is what it was last set to, else what all of its stage were set to, else its default.
fn is_on(given: &[(&str, bool)], name: &str, alpha: bool, default: bool) -> bool {
    let all = if alpha { ALL_ALPHA } else { ALL_BETA };
    let value = |wanted: &str| given.iter().rev().find(|(gate, _)| *gate == wanted).map(|(_, on)| *on);
    value(name).or_else(|| value(all)).unwrap_or(default)
}

fn read(text: &str) -> Result<Vec<(&str, bool)>, GateError> {
    let mut gates = Vec::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = match pair.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => return Err(GateError::NoValue(pair.trim().to_string())),
        };
        let wrong = || GateError::Value { name: name.to_string(), value: value.to_string() };
        let on = boolean(value).ok_or_else(wrong)?;
        gates.push((name, on));
    }
    let known =
        |name: &str| name == ALL_ALPHA || name == ALL_BETA || GATES.iter().any(|(gate, ..)| *gate == name);
    match gates.iter().find(|(name, _)| !known(name)) {
        Some((name, _)) => Err(GateError::Unknown(name.to_string())),
        None => Ok(gates),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_have_known_names_and_true_or_false() {
        for text in
            ["", "InitialCorruptCheck=true", "InitialCorruptCheck=1,CompactHashCheck = F ,", "AllAlpha=true"]
        {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        let refused = |text: &str| check(text).unwrap_err().to_string();
        assert_eq!(refused("Nope=true"), "unrecognized feature gate: Nope");
        assert_eq!(refused("InitialCorruptCheck"), "missing bool value for InitialCorruptCheck");
        assert!(
            refused("InitialCorruptCheck=maybe").starts_with("invalid value of InitialCorruptCheck=maybe")
        );
    }

    #[test]
    fn gates_are_what_they_are_set_to() {
        let on = |text: &str| -> Vec<&str> {
            feature_gates(text).into_iter().filter(|gate| gate.is_on).map(|gate| gate.name).collect()
        };
        assert_eq!(on(""), ["FastLeaseKeepAlive", "TxnModeWriteWithSharedBuffer"]);
        assert_eq!(on("AllBeta=false,InitialCorruptCheck=true"), ["InitialCorruptCheck"]);
        assert_eq!(on("AllBeta=false,AllAlpha=true").len(), 8);
    }

    #[test]
    fn keeping_checkpoints_of_leases_needs_checkpoints_of_leases() {
        assert!(check_together("LeaseCheckpointPersist=true").is_err());
        assert!(check_together("LeaseCheckpointPersist=true,LeaseCheckpoint=true").is_ok());
        assert!(check_together("AllAlpha=true").is_ok());
        assert!(check_together("AllAlpha=true,LeaseCheckpoint=false").is_err());
    }
}
