//! The terminal while `top` owns it: alternate screen, no cursor, single keys. Dropping it restores
//! all.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::screen::ScreenSize;

/// Switch to the other screen and hide the cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

pub(super) struct Terminal {
    before: Termios,
}

/// The user's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// No key within the timeout.
    None,
    Refresh,
    Quit,
}

impl Terminal {
    /// None if there is no terminal on both ends.
    pub(super) fn enter() -> Option<Terminal> {
        if !io::stdout().is_terminal() {
            return None;
        }
        let before = tcgetattr(io::stdin()).ok()?;
        let mut single_keys = before.clone();
        // Signals included: a process that dies of one leaves the other screen behind.
        single_keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        tcsetattr(io::stdin(), OptionalActions::Now, &single_keys).ok()?;
        let terminal = Terminal { before };
        terminal.write(ENTER).ok()?;
        Some(terminal)
    }

    pub(super) fn size(&self) -> ScreenSize {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
                ScreenSize { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            _ => ScreenSize { columns: 80, rows: 24 },
        }
    }

    pub(super) fn show(&self, lines: &[String]) -> io::Result<()> {
        // Every line clears the rest of the line; the last one clears the screen below.
        self.write(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")))
    }

    /// Waits for a key, but no longer than `timeout`.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<Input> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now()))
                .map_err(|_| io::ErrorKind::InvalidInput)?;
            let stdin = io::stdin();
            let mut polled = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
            match poll(&mut polled, Some(&left)) {
                Ok(0) => return Ok(Input::None),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut keys = [0; 64];
            let read = rustix::io::read(stdin.as_fd(), &mut keys)?;
            // Control-C and control-D are keys here; nothing read means that the terminal is gone.
            match keys.get(..read) {
                Some([]) | None => return Ok(Input::Quit),
                Some(keys) if keys.iter().any(|key| [b'q', b'Q', 3, 4].contains(key)) => {
                    return Ok(Input::Quit);
                }
                Some(keys) if keys.contains(&b' ') => return Ok(Input::Refresh),
                Some(_) => {}
            }
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = self.write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
