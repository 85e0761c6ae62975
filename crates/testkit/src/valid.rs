//! Requests of tests, which are well-formed.

use vetch_store::request::{DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest};
use vetch_store::{StoreError, Validated, validate};

/// A request that can be validated.
pub trait Valid: Sized {
    fn validate(self) -> Result<Validated<Self>, StoreError>;

    /// A transaction may have any number of operations.
    fn valid(self) -> Validated<Self> {
        self.validate().expect("a well-formed request")
    }
}

impl Valid for RangeRequest {
    fn validate(self) -> Result<Validated<Self>, StoreError> {
        validate::range(self)
    }
}

impl Valid for PutRequest {
    fn validate(self) -> Result<Validated<Self>, StoreError> {
        validate::put(self)
    }
}

impl Valid for DeleteRangeRequest {
    fn validate(self) -> Result<Validated<Self>, StoreError> {
        validate::delete_range(self)
    }
}

impl Valid for TxnRequest {
    fn validate(self) -> Result<Validated<Self>, StoreError> {
        validate::txn(self, usize::MAX)
    }
}
