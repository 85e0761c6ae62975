//! Unit tests of the module above.
