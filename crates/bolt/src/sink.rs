//! The sink: where a writer puts pages.

use std::io;

/// Where pages go, in the order of the file, beginning behind
/// [`Layout::front`](crate::Layout::front).
pub trait Sink {
    /// Whether the content of pages matters; if not, [`Sink::skip`] is called instead of
    /// [`Sink::write`].
    fn wants_bytes(&self) -> bool {
        true
    }

    fn write(&mut self, pages: &[u8]) -> io::Result<()>;

    fn skip(&mut self, _pages: usize) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Vec<u8> {
    fn write(&mut self, pages: &[u8]) -> io::Result<()> {
        self.extend_from_slice(pages);
        Ok(())
    }
}

/// Only finds out the [`Layout`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Measure;

impl Sink for Measure {
    fn wants_bytes(&self) -> bool {
        false
    }

    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}
