//! Lines for systemd's journal, over its own socket.

use std::io;
use std::os::unix::net::UnixDatagram;

use tracing::Level;

const SOCKET: &str = "/run/systemd/journal/socket";

#[derive(Debug)]
pub(super) struct Journal(UnixDatagram);

impl Journal {
    pub(super) fn open() -> io::Result<Journal> {
        Journal::at(SOCKET)
    }

    fn at(path: &str) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Journal(socket))
    }

    /// One entry with the line as its message. An entry is one line, so line breaks become spaces.
    pub(super) fn send(&self, line: &[u8], level: Level) -> io::Result<()> {
        let priority = match level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end().replace('\n', " ");
        let entry = format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER=vetch\nMESSAGE={text}\n");
        self.0.send(entry.as_bytes()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_entry_with_its_priority() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        Journal::at(path.to_str().unwrap()).unwrap().send(b"{\"msg\":1}\n", Level::WARN).unwrap();
        let mut heard = [0; 128];
        let n = journal.recv(&mut heard).unwrap();
        let expected: &[u8] = b"PRIORITY=4\nSYSLOG_IDENTIFIER=vetch\nMESSAGE={\"msg\":1}\n";
        assert_eq!(&heard[..n], expected);
    }
}
