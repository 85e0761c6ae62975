"""HTTP/2 frames made by hand, so that they can be wrong."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    length = len(payload) if length is None else length
    return struct.pack(">I", length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header field that is not remembered, with lengths below 127 or in the long form."""
    return b"\x00" + _string(name) + _string(value)


def _string(text):
    text = text.encode() if isinstance(text, str) else text
    length = len(text)
    if length < 127:
        return bytes([length]) + text
    out, rest = [127], length - 127
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes(out + [rest]) + text


def grpc_headers(path="/etcdserverpb.KV/Range", more=()):
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"),
              ("content-type", "application/grpc"), ("te", "trailers"), *more]
    return b"".join(literal(name, value) for name, value in fields)


def opening():
    return PREFACE + frame(SETTINGS)


def read_frames(connection, seconds=2.0):
    """All frames until the peer closes or stays silent: (kind, flags, stream, payload) each. Last, how it ended."""
    connection.settimeout(seconds)
    buffer, frames = b"", []
    while True:
        try:
            more = connection.recv(65536)
        except TimeoutError:
            return frames, "open"
        except (ConnectionResetError, BrokenPipeError):
            return frames, "closed"
        if not more:
            return frames, "closed"
        buffer += more
        while len(buffer) >= 9 and len(buffer) >= 9 + int.from_bytes(buffer[:3], "big"):
            length = int.from_bytes(buffer[:3], "big")
            stream = struct.unpack(">I", buffer[5:9])[0] & 0x7FFFFFFF
            frames.append((buffer[3], buffer[4], stream, buffer[9:9 + length]))
            buffer = buffer[9 + length:]


def goaway_code(frames):
    codes = [struct.unpack(">I", payload[4:8])[0] for kind, _, _, payload in frames if kind == GOAWAY]
    return codes[-1] if codes else None
