"""gRPC and HTTP/2 by hand, over plain and TLS sockets, with every byte counted."""

import socket
import ssl
import struct
import time

import h2
from h2 import frame

WINDOW_MAX = (1 << 31) - 1
INITIAL_WINDOW_SIZE = 4


# --- protobuf ---------------------------------------------------------------------------------------------------------


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def message(body):
    """A gRPC message: a prefix, and the protobuf."""
    return struct.pack(">BI", 0, len(body)) + body


RANGE, PUT, TXN = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Put", "/etcdserverpb.KV/Txn"
RANGE_STREAM = "/etcdserverpb.KV/RangeStream"
WATCH = "/etcdserverpb.Watch/Watch"
GRANT, REVOKE = "/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.Lease/LeaseRevoke"
KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
LEASES = "/etcdserverpb.Lease/LeaseLeases"
SNAPSHOT = "/etcdserverpb.Maintenance/Snapshot"
COMPACT = "/etcdserverpb.KV/Compact"
AUTH = "/etcdserverpb.Auth/"
AUTHENTICATE = AUTH + "Authenticate"


def range_of(key, end=b""):
    return text(1, key) + (text(2, end) if end else b"")


def put_of(key, value):
    return text(1, key) + text(2, value)


# --- connections ------------------------------------------------------------------------------------------------------


class Hpack:
    """Header blocks that put each field into the peer's table once and refer to it afterwards."""

    def __init__(self):
        self.places = {}

    def block(self, fields):
        out = b""
        for field in fields:
            place = self.places.get(field)
            if place is None:
                self.places[field] = len(self.places)
                out += b"\x40" + h2._string(field[0]) + h2._string(field[1])
            else:
                index = 61 + len(self.places) - place
                out += bytes([0x80 | index]) if index < 127 else b"\xff" + varint(index - 127)
        return out


def connect(server, protocols=("h2",), room=None):
    """A socket, secured if the server wants that, which asks for HTTP/2."""
    raw = server.connect(room)
    if server.trust is None:
        return raw
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(raw, server_hostname="127.0.0.1")


class Connection:
    """One HTTP/2 connection. Nothing is read unless asked for."""

    def __init__(self, server, window=65535, token=None, connection_window=0, opened=None):
        self.socket = connect(server)
        self.socket.settimeout(10)
        self.secure = server.trust is not None
        self.token = token
        self.hpack = Hpack()
        self.sent = 0
        self.buffer = b""
        self.next = 1
        self.first_window = 65535
        self.room = 65535  # of the connection, for what is sent
        self.rooms = {}  # of its streams
        self.closed = None  # why, once it is
        if opened is not None:
            opened(self)
        self.send(h2.PREFACE + frame(h2.SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, window)))
        if connection_window:
            self.send(frame(h2.WINDOW_UPDATE, 0, 0, struct.pack(">I", connection_window)))

    def send(self, data):
        self.sent += len(data)
        self.socket.sendall(data)

    def try_send(self, data):
        """False: the server has hung up, or takes nothing more."""
        try:
            self.send(data)
            return True
        except OSError:
            return False

    def fields(self, path, method="POST", more=()):
        fields = [(":method", method), (":scheme", "https" if self.secure else "http"), (":path", path), (":authority", "x")]
        if method == "POST":
            fields += [("content-type", "application/grpc"), ("te", "trailers")]
        if self.token:
            fields.append(("authorization", self.token))
        return fields + list(more)

    def stream(self):
        stream, self.next = self.next, self.next + 2
        return stream

    def headers(self, path, stream=None, method="POST", end=False, more=()):
        """The frame that begins a call."""
        stream = self.stream() if stream is None else stream
        flags = h2.END_HEADERS | (h2.END_STREAM if end else 0)
        return frame(h2.HEADERS, flags, stream, self.hpack.block(self.fields(path, method, more)))

    def call(self, path, body, stream=None):
        """All frames of a call with one message."""
        stream = self.stream() if stream is None else stream
        return self.headers(path, stream) + frame(h2.DATA, h2.END_STREAM, stream, message(body))

    def get(self, path):
        return self.headers(path, method="GET", end=True)

    def read(self, seconds=0.0, until=None):
        """Frames that are there, or come in time. Acknowledges what has to be. Stops early when `until` says so of a frame."""
        frames, end = [], time.monotonic() + seconds
        while True:
            stop = False
            while (found := self._frame()) is not None:
                frames.append(found)
                self._heed(found)
                stop = stop or until is not None and until(found)
            left = end - time.monotonic()
            if stop or self.closed or left < 0 and seconds > 0:
                return frames
            self.socket.settimeout(max(left, 0.0005))
            try:
                more = self.socket.recv(1 << 18)
            except (TimeoutError, ssl.SSLWantReadError):
                if seconds == 0 or until is not None and time.monotonic() > end:
                    return frames
                continue
            except OSError as problem:
                self.closed = repr(problem)
                continue
            finally:
                self.socket.settimeout(10)
            if not more:
                self.closed = "by the server"
            self.buffer += more

    def _frame(self):
        if len(self.buffer) < 9:
            return None
        length = int.from_bytes(self.buffer[:3], "big")
        if len(self.buffer) < 9 + length:
            return None
        stream = int.from_bytes(self.buffer[5:9], "big") & WINDOW_MAX
        found = (self.buffer[3], self.buffer[4], stream, self.buffer[9:9 + length])
        self.buffer = self.buffer[9 + length:]
        return found

    def _heed(self, found):
        kind, flags, stream, payload = found
        if kind == h2.SETTINGS and not flags & h2.ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at:at + 6])
                if name == INITIAL_WINDOW_SIZE:
                    self.rooms = {stream: room + value - self.first_window for stream, room in self.rooms.items()}
                    self.first_window = value
            self.try_send(frame(h2.SETTINGS, h2.ACK))
        elif kind == h2.PING and not flags & h2.ACK:
            self.try_send(frame(h2.PING, h2.ACK, 0, payload))
        elif kind == h2.WINDOW_UPDATE:
            more = struct.unpack(">I", payload)[0]
            if stream == 0:
                self.room += more
            else:
                self.rooms[stream] = self.rooms.get(stream, self.first_window) + more
        elif kind == h2.GOAWAY:
            self.goaway = (struct.unpack(">I", payload[4:8])[0], payload[8:])

    goaway = None

    def data(self, stream, payload, end=False):
        """Sends a body as far as the server's windows allow; gives how much was sent."""
        done = 0
        while done < len(payload):
            size = min(16384, len(payload) - done, self.room, self.rooms.get(stream, self.first_window))
            if size <= 0:
                before = (self.room, self.rooms.get(stream))
                self.read(0.3, until=lambda found: found[0] in (h2.WINDOW_UPDATE, h2.SETTINGS))
                if self.closed or before == (self.room, self.rooms.get(stream)):
                    return done
                continue
            last = end and done + size == len(payload)
            if not self.try_send(frame(h2.DATA, h2.END_STREAM if last else 0, stream, payload[done:done + size])):
                return done
            self.room -= size
            self.rooms[stream] = self.rooms.get(stream, self.first_window) - size
            done += size
        return done

    def sync(self, seconds=5):
        """Waits until the server has read everything so far. False: it does not answer."""
        self.send(frame(h2.PING, 0, 0, b"in sync?"))
        frames = self.read(seconds, until=lambda found: found[0] == h2.PING and found[1] & h2.ACK)
        return any(kind == h2.PING and flags & h2.ACK for kind, flags, *_ in frames)

    def unary(self, path, body, seconds=10):
        """One call from beginning to end: the message, or a failed assertion."""
        stream = self.stream()
        if len(body) < 16000:
            self.send(self.call(path, body, stream))
        else:
            self.send(self.headers(path, stream))
            self.data(stream, message(body), end=True)
        frames = self.read(seconds, until=lambda found: found[2] == stream and (found[1] & h2.END_STREAM and found[0] < 2 or found[0] == h2.RST_STREAM))
        mine = [found for found in frames if found[2] == stream]
        assert mine and mine[-1][0] == h2.HEADERS and mine[-1][1] & h2.END_STREAM, (path, self.closed, self.goaway, mine[-1:])
        data = b"".join(payload for kind, _, _, payload in mine if kind == h2.DATA)
        if data:
            self.send(frame(h2.WINDOW_UPDATE, 0, 0, struct.pack(">I", len(data))))
        return data[5:]

    def close(self):
        self.socket.close()


def reset(stream):
    return frame(h2.RST_STREAM, 0, stream, struct.pack(">I", 8))
