//! Planting a bug, in a build that has them.

use std::io;

use vetch_seeded_bugs::Bug;

/// Plants the bug of this name in this process.
pub(crate) fn plant(name: Option<&str>) -> io::Result<()> {
    let Some(name) = name else { return Ok(()) };
    let bug: Bug = name.parse().map_err(io::Error::other)?;
    #[cfg(feature = "seeded")]
    {
        vetch_seeded_bugs::plant(Some(bug));
        Ok(())
    }
    #[cfg(not(feature = "seeded"))]
    Err(io::Error::other(format!("this build cannot plant {bug:?}; build it with --features seeded")))
}
