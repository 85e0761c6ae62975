//! Which transactions write a key twice, by comparing every put with every other write.

use vetch_store::StoreError;
use vetch_store::request::*;

/// The keys a branch puts, and the ranges it deletes with their ends taken literally.
#[derive(Default)]
struct Writes {
    puts: Vec<Vec<u8>>,
    deletes: Vec<KeyRange>,
}

/// The verdict on a transaction's shape that needs no state.
pub(crate) fn check(txn: &TxnRequest, max_ops: usize) -> Result<(), StoreError> {
    shape(txn, max_ops)?;
    writes(&txn.success)?;
    writes(&txn.failure)?;
    Ok(())
}

fn shape(txn: &TxnRequest, max_ops: usize) -> Result<(), StoreError> {
    let used = [txn.compare.len(), txn.success.len(), txn.failure.len()].into_iter().max().unwrap_or(0);
    if used > max_ops {
        return Err(StoreError::TooManyOps);
    }
    let empty = |key: &[u8]| if key.is_empty() { Err(StoreError::EmptyKey) } else { Ok(()) };
    for compare in &txn.compare {
        empty(&compare.range.key)?;
    }
    for op in [&txn.success, &txn.failure].into_iter().flatten() {
        match op {
            RequestOp::Range(range) => empty(&range.range.key)?,
            RequestOp::DeleteRange(delete) => empty(&delete.range.key)?,
            RequestOp::Put(put) => {
                empty(&put.key)?;
                if put.ignore_value && !put.value.is_empty() {
                    return Err(StoreError::ValueProvided);
                }
                if put.ignore_lease && put.lease != 0 {
                    return Err(StoreError::LeaseProvided);
                }
            }
            RequestOp::Txn(nested) => shape(nested, max_ops - used)?,
            RequestOp::Empty => return Err(StoreError::KeyNotFound),
        }
    }
    Ok(())
}

fn writes(ops: &[RequestOp]) -> Result<Writes, StoreError> {
    let mut here = Writes::default();
    for op in ops {
        if let RequestOp::DeleteRange(delete) = op {
            here.deletes.push(delete.range.clone());
        }
    }
    for op in ops {
        if let RequestOp::Txn(nested) = op {
            let (then, otherwise) = (writes(&nested.success)?, writes(&nested.failure)?);
            let mut puts = then.puts.clone();
            puts.extend(otherwise.puts.into_iter().filter(|key| !then.puts.contains(key)));
            for key in puts {
                here.put(key)?;
            }
            here.deletes.extend(then.deletes);
            here.deletes.extend(otherwise.deletes);
        }
    }
    for op in ops {
        if let RequestOp::Put(put) = op {
            here.put(put.key.to_vec())?;
        }
    }
    Ok(here)
}

impl Writes {
    fn put(&mut self, key: Vec<u8>) -> Result<(), StoreError> {
        let deleted = self.deletes.iter().any(|range| {
            let (start, end) = (range.key.as_ref(), range.range_end.as_ref());
            if end.is_empty() { key == start } else { start <= key.as_slice() && key.as_slice() < end }
        });
        if deleted || self.puts.contains(&key) {
            return Err(StoreError::DuplicateKey);
        }
        self.puts.push(key);
        Ok(())
    }
}
