//! Validated: a request that needs no further look before it is read or evaluated.

use std::ops::Deref;

use crate::error::StoreError;

/// A request that passed [`crate::validate`], which alone makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(transparent)]
pub struct Validated<T>(T);

impl<T> Validated<T> {
    pub(crate) fn checked(
        request: T,
        check: impl FnOnce(&T) -> Result<(), StoreError>,
    ) -> Result<Validated<T>, StoreError> {
        check(&request)?;
        Ok(Validated(request))
    }

    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Validated<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// For tests within the crate, whose requests are well-formed.
#[cfg(test)]
pub(crate) fn valid<T>(request: T) -> Validated<T> {
    Validated(request)
}
