//! Notifies systemd that the server is ready, or about to stop.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a message such as `READY=1` to the socket named by NOTIFY_SOCKET. Without the variable it
/// does nothing.
pub(crate) fn send(socket: Option<&OsStr>, what: &str) -> io::Result<()> {
    let Some(name) = socket.filter(|name| !name.is_empty()) else { return Ok(()) };
    let address = match name.as_bytes() {
        // An at sign stands for the zero byte that begins an abstract name.
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_it() {
        let name = format!("vetch-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        send(Some(OsStr::new(&format!("@{name}"))), "READY=1").unwrap();
        let mut heard = [0; 32];
        let n = manager.recv(&mut heard).unwrap();
        assert_eq!(&heard[..n], b"READY=1");
    }

    #[test]
    fn no_address_is_fine_and_a_wrong_one_is_not() {
        assert!(send(None, "READY=1").is_ok());
        assert!(send(Some(OsStr::new("")), "READY=1").is_ok());
        assert!(send(Some(OsStr::new("/nonexistent/socket")), "READY=1").is_err());
    }
}
