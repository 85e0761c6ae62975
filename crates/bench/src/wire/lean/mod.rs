//! The lean client: HTTP/2 frames over plain TCP, written for many calls at once and read the same
//! way.
//!
//! `protocol` decides what the bytes mean and does no I/O; here are the sockets. No TLS, no
//! passwords.

mod error;
mod frame;
mod headers;
mod protocol;
#[cfg(test)]
mod tests;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hashbrown::HashMap;
use rustix::event::{Timespec, epoll};

use super::{Inbox, Method, Tag, Wire};
use crate::failure::Failure;
use error::ConnectionError;
use protocol::Protocol;

/// A lost connection is tried again after this time, not sooner.
const RETRY: Duration = Duration::from_millis(100);
/// At most so much is read from one connection before the others get their turn.
const TURN: usize = 1 << 20;

struct Connection {
    address: String,
    /// None while the connection is lost.
    socket: Option<TcpStream>,
    protocol: Protocol,
    /// Output is waiting for room in the socket.
    blocked: bool,
    held: bool,
    dirty: bool,
    tried: Instant,
    why: String,
}

pub(crate) struct Lean {
    connections: Vec<Connection>,
    /// Which connection a call is on.
    home: HashMap<Tag, usize, foldhash::fast::FixedState>,
    epoll: rustix::fd::OwnedFd,
    buffer: Vec<u8>,
    dirty: Vec<usize>,
    /// Calls that failed before they were sent; the next wait reports them.
    refused: Vec<(Tag, Failure)>,
}

impl Lean {
    /// Connects `count` times, to the addresses (host:port) in turn.
    pub(crate) fn connect(addresses: &[String], count: usize) -> Result<Lean> {
        let mut lean = Lean {
            connections: Vec::new(),
            home: HashMap::default(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?,
            buffer: vec![0; 256 << 10],
            dirty: Vec::new(),
            refused: Vec::new(),
        };
        for index in 0..count {
            let address = addresses[index % addresses.len()].clone();
            let socket = dial(&address).with_context(|| format!("connecting to {address}"))?;
            lean.register(&socket, index)?;
            lean.connections.push(Connection {
                protocol: Protocol::new(&address),
                address,
                socket: Some(socket),
                blocked: false,
                held: false,
                dirty: true,
                tried: Instant::now(),
                why: String::new(),
            });
            lean.dirty.push(index);
        }
        Ok(lean)
    }

    fn register(&self, socket: &TcpStream, index: usize) -> Result<()> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        Ok(())
    }

    /// The interest of a connection in its socket has changed.
    fn interest(&mut self, index: usize) {
        let connection = &self.connections[index];
        let Some(socket) = &connection.socket else { return };
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, !connection.held);
        flags.set(epoll::EventFlags::OUT, connection.blocked);
        if let Err(error) = epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(index as u64), flags)
        {
            self.connections[index].why = error.to_string();
        }
    }

    /// Is there a connection, now or after another attempt?
    fn revive(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        if connection.socket.is_some() {
            return true;
        }
        if connection.tried.elapsed() < RETRY {
            return false;
        }
        connection.tried = Instant::now();
        let address = connection.address.clone();
        let dialled = dial(&address).map_err(anyhow::Error::new).and_then(|socket| {
            self.register(&socket, index)?;
            Ok(socket)
        });
        let connection = &mut self.connections[index];
        match dialled {
            Ok(socket) => {
                connection.socket = Some(socket);
                connection.protocol = Protocol::new(&connection.address);
                connection.blocked = false;
                true
            }
            Err(error) => {
                connection.why = error.to_string();
                false
            }
        }
    }

    fn touch(&mut self, index: usize) {
        if !std::mem::replace(&mut self.connections[index].dirty, true) {
            self.dirty.push(index);
        }
    }

    fn flush(&mut self, inbox: &mut Inbox) {
        for index in std::mem::take(&mut self.dirty) {
            self.connections[index].dirty = false;
            if !self.connections[index].blocked {
                self.write(index, inbox);
            }
        }
    }

    fn write(&mut self, index: usize, inbox: &mut Inbox) {
        let connection = &mut self.connections[index];
        let Some(socket) = &mut connection.socket else { return };
        let mut lost = None;
        while !connection.protocol.output().is_empty() {
            match socket.write(connection.protocol.output()) {
                Ok(written) => connection.protocol.written(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    lost = Some(ConnectionError::from(error));
                    break;
                }
            }
        }
        if let Some(error) = lost {
            return self.lose(index, &error, inbox);
        }
        let blocked = !connection.protocol.output().is_empty();
        if std::mem::replace(&mut connection.blocked, blocked) != blocked {
            self.interest(index);
        }
    }

    fn read(&mut self, index: usize, inbox: &mut Inbox) {
        let mut taken = 0;
        while taken < TURN {
            let connection = &mut self.connections[index];
            let Some(socket) = &mut connection.socket else { return };
            let outcome = match socket.read(&mut self.buffer) {
                Ok(0) => Err(ConnectionError::Closed),
                Ok(length) => {
                    taken += length;
                    let received = connection.protocol.receive(&self.buffer[..length], Instant::now(), inbox);
                    received.map(|()| length < self.buffer.len()).map_err(ConnectionError::from)
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
                Err(error) => Err(error.into()),
            };
            match outcome {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return self.lose(index, &error, inbox),
            }
        }
        if !self.connections[index].protocol.output().is_empty() {
            self.touch(index);
        }
    }

    fn lose(&mut self, index: usize, error: &ConnectionError, inbox: &mut Inbox) {
        let why = error.to_string();
        let connection = &mut self.connections[index];
        connection.socket = None;
        connection.tried = Instant::now();
        connection.protocol.fail_all(&why, inbox);
        connection.why = why;
    }

    fn report_refused(&mut self, inbox: &mut Inbox) {
        let now = Instant::now();
        for (tag, failure) in self.refused.drain(..) {
            inbox.end(tag, now, Some(failure));
        }
    }
}

impl Wire for Lean {
    fn connections(&self) -> usize {
        self.connections.len()
    }

    fn open(&mut self, connection: usize, tag: Tag, method: Method, message: &[u8], last: bool) {
        if !self.revive(connection) {
            let why = format!("not connected: {}", self.connections[connection].why);
            self.refused.push((tag, Failure::transport(why)));
            return;
        }
        if !last {
            self.home.insert(tag, connection);
        }
        self.connections[connection].protocol.open(tag, method, message, last);
        self.touch(connection);
    }

    fn send(&mut self, tag: Tag, message: &[u8]) {
        if let Some(&connection) = self.home.get(&tag) {
            self.connections[connection].protocol.send(tag, message);
            self.touch(connection);
        }
    }

    fn abandon(&mut self, tag: Tag) {
        if let Some(connection) = self.home.remove(&tag) {
            self.connections[connection].protocol.abandon(tag);
            self.touch(connection);
        }
    }

    fn hold(&mut self, connection: usize, held: bool) {
        self.connections[connection].held = held;
        self.interest(connection);
    }

    fn wait(&mut self, until: Instant, inbox: &mut Inbox) {
        self.flush(inbox);
        self.report_refused(inbox);
        let left = until.saturating_duration_since(Instant::now());
        let left = if inbox.is_empty() { left } else { Duration::ZERO };
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
        let Ok(ready) = epoll::wait(&self.epoll, &mut events, Some(&timeout)) else { return };
        for event in events.iter().take(ready) {
            let index = event.data.u64() as usize;
            let flags = event.flags;
            if flags.contains(epoll::EventFlags::OUT) {
                self.write(index, inbox);
            }
            if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                self.read(index, inbox);
            }
        }
    }
}

fn dial(address: &str) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(ErrorKind::NotFound, "no such host");
    for socket_address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&socket_address, Duration::from_secs(5)) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_nonblocking(true)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
