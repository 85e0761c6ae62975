//! Shape: which requests are refused by validation, before any state is read.

use crate::request::{Keys, Op, Put, Request, Txn};

/// Why a request was refused whatever the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    #[error("a key is missing")]
    EmptyKey,
    #[error("an operation has nothing in it")]
    EmptyOperation,
    #[error("a put brings a value and is told to keep the old one")]
    ValueProvided,
    #[error("a put brings a lease and is told to keep the old one")]
    LeaseProvided,
    #[error("too many operations in a transaction")]
    TooManyOps,
    #[error("a transaction writes a key twice")]
    DuplicateKey,
}

impl Request {
    /// The verdict that needs no state. `max_ops` bounds each of the three lists of a transaction.
    pub fn shape(&self, max_ops: usize) -> Result<(), Malformed> {
        match self {
            Request::Range(range) => keyed(&range.keys.key),
            Request::Put(put) => put_shape(put),
            Request::Delete(delete) => keyed(&delete.keys.key),
            Request::Txn(txn) => {
                txn_shape(txn, max_ops)?;
                Writes::of(&txn.success)?;
                Writes::of(&txn.failure)?;
                Ok(())
            }
            Request::Compact { .. }
            | Request::LeaseGrant { .. }
            | Request::LeaseRevoke { .. }
            | Request::LeaseKeepAlive { .. } => Ok(()),
        }
    }
}

fn keyed(key: &[u8]) -> Result<(), Malformed> {
    if key.is_empty() { Err(Malformed::EmptyKey) } else { Ok(()) }
}

fn put_shape(put: &Put) -> Result<(), Malformed> {
    keyed(&put.key)?;
    if put.ignore_value && !put.value.is_empty() {
        return Err(Malformed::ValueProvided);
    }
    if put.ignore_lease && put.lease != 0 {
        return Err(Malformed::LeaseProvided);
    }
    Ok(())
}

/// A nested transaction may use as many operations as its parents left.
fn txn_shape(txn: &Txn, max_ops: usize) -> Result<(), Malformed> {
    let used = txn.compare.len().max(txn.success.len()).max(txn.failure.len());
    if used > max_ops {
        return Err(Malformed::TooManyOps);
    }
    for compare in &txn.compare {
        keyed(&compare.keys.key)?;
    }
    for op in txn.success.iter().chain(&txn.failure) {
        match op {
            Op::Range(range) => keyed(&range.keys.key)?,
            Op::Put(put) => put_shape(put)?,
            Op::Delete(delete) => keyed(&delete.keys.key)?,
            Op::Txn(nested) => txn_shape(nested, max_ops - used)?,
            Op::Empty => return Err(Malformed::EmptyOperation),
        }
    }
    Ok(())
}

/// The keys that a branch puts, and the ranges that it deletes.
///
/// A branch may not put a key twice, nor put one that it deletes. Deletes of a level come first,
/// then what is nested in it, then its puts; so a delete in a later nested transaction passes. So
/// does an open-ended delete, because the rule reads its end of one zero byte literally.
#[derive(Default)]
struct Writes<'a> {
    puts: Vec<&'a [u8]>,
    deletes: Vec<&'a Keys>,
}

impl<'a> Writes<'a> {
    fn of(ops: &'a [Op]) -> Result<Writes<'a>, Malformed> {
        let mut here = Writes::default();
        for op in ops {
            if let Op::Delete(delete) = op {
                here.deletes.push(&delete.keys);
            }
        }
        for op in ops {
            if let Op::Txn(nested) = op {
                // Its two branches exclude each other, so they may overlap.
                let (then, otherwise) = (Writes::of(&nested.success)?, Writes::of(&nested.failure)?);
                let others = otherwise.puts.iter().filter(|key| !then.puts.contains(key));
                for key in then.puts.iter().chain(others) {
                    here.put(key)?;
                }
                here.deletes.extend(then.deletes);
                here.deletes.extend(otherwise.deletes);
            }
        }
        for op in ops {
            if let Op::Put(put) = op {
                here.put(&put.key)?;
            }
        }
        Ok(here)
    }

    fn put(&mut self, key: &'a [u8]) -> Result<(), Malformed> {
        let deleted = self.deletes.iter().any(|keys| {
            let (start, end) = (keys.key.as_slice(), keys.range_end.as_slice());
            if end.is_empty() { key == start } else { start <= key && key < end }
        });
        if deleted || self.puts.contains(&key) {
            return Err(Malformed::DuplicateKey);
        }
        self.puts.push(key);
        Ok(())
    }
}
