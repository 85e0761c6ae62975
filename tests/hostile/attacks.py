"""What is tried. Each attack is a function of a server; it says in a line what happened, or fails."""

import socket
import struct
import threading
import time

import h2
from h2 import frame
from intruders import auth_bypass


def send_quietly(connection, data):
    """The server may well have hung up; then the attack is over. True: all of it was taken."""
    try:
        connection.sendall(data)
        return True
    except OSError:
        return False


def malformed_frames(server):
    """Each is a connection error of its own kind; the server must close that connection, and nothing else."""
    bad = {
        "no preface": b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + b"\x00" * 64,
        "data on stream 0": h2.opening() + frame(h2.DATA, 0, 0, b"x"),
        "headers on stream 0": h2.opening() + frame(h2.HEADERS, h2.END_HEADERS, 0, h2.grpc_headers()),
        "an even stream": h2.opening() + frame(h2.HEADERS, h2.END_HEADERS, 2, h2.grpc_headers()),
        "a pushed promise": h2.opening() + frame(h2.PUSH_PROMISE, h2.END_HEADERS, 1, b"\0\0\0\2" + h2.grpc_headers()),
        "continuation of nothing": h2.opening() + frame(h2.CONTINUATION, h2.END_HEADERS, 1, b""),
        "a frame of 16 MiB": h2.opening() + frame(h2.DATA, 0, 1, b"", length=0xFFFFFF),
        "settings of 5 bytes": h2.opening() + frame(h2.SETTINGS, 0, 0, b"12345"),
        "a ping of 7 bytes": h2.opening() + frame(h2.PING, 0, 0, b"1234567"),
        "a window beyond 2^31": h2.opening() + frame(h2.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 2,
        "a window of nothing": h2.opening() + frame(h2.WINDOW_UPDATE, 0, 0, b"\0\0\0\0"),
        "an index nobody set": h2.opening() + frame(h2.HEADERS, h2.END_HEADERS, 1, b"\xff\xff\xff\x7f"),
        "a huge header table": h2.opening() + frame(h2.SETTINGS, 0, 0, b"\0\1\xff\xff\xff\xff\0\5\0\0\0\1"),
        "padding longer than the frame": h2.opening() + frame(h2.HEADERS, h2.END_HEADERS | 8, 1, b"\xff\x00"),
    }
    for name, data in bad.items():
        connection = server.connect()
        send_quietly(connection, data)
        _, ending = h2.read_frames(connection, 5)
        assert ending == "closed" or name in ("a frame of 16 MiB",), f"{name}: still open"
        connection.close()
        server.polite()
    return f"{len(bad)} kinds: each ended its own connection"


def oversized_headers(server):
    """One field of a megabyte, ten thousand small fields, and a small table entry used ten thousand times."""
    fields = b"".join(h2.literal(f"x-{n}", "y" * 50) for n in range(10_000))
    bomb = b"\x40" + h2._string("x-b") + h2._string("y" * 4000) + b"\xbe" * 10_000
    told = []
    for block in (h2.grpc_headers(more=[("x-long", "y" * (1 << 20))]), h2.grpc_headers() + fields,
                  h2.grpc_headers() + bomb):
        connection = server.connect()
        pieces = [block[i:i + 16384] for i in range(0, len(block), 16384)]
        data = h2.opening() + frame(h2.HEADERS, 0, 1, pieces[0])
        data += b"".join(frame(h2.CONTINUATION, 0, 1, piece) for piece in pieces[1:])
        send_quietly(connection, data + frame(h2.CONTINUATION, h2.END_HEADERS, 1))
        frames, ending = h2.read_frames(connection, 2)
        served = any(kind == h2.DATA for kind, *_ in frames)
        assert not served, "a request with such headers was served"
        told.append(ending)
        connection.close()
    server.polite()
    return f"refused, connections {'/'.join(told)}"


def continuation_flood(server):
    """A header that never ends."""
    connection = server.connect()
    send_quietly(connection, h2.opening() + frame(h2.HEADERS, 0, 1, h2.grpc_headers()))
    piece = frame(h2.CONTINUATION, 0, 1, h2.literal("x", "y" * 100) * 10)
    sent = 0
    while sent < 200_000 and send_quietly(connection, piece * 50):
        sent += 50
    assert sent < 200_000, "the server listens to a header for ever"
    server.polite()
    return f"closed after about {sent} frames"


def rapid_reset(server, seconds=4):
    """Requests cancelled as soon as they are made (CVE-2023-44487), on several connections."""
    counts, stop = [], time.monotonic() + seconds

    def attack():
        count = 0
        while time.monotonic() < stop:
            connection = server.connect()
            if not send_quietly(connection, h2.opening()):
                continue
            for stream in range(1, 2_000_000, 200):
                batch = b"".join(
                    frame(h2.HEADERS, h2.END_HEADERS, s, h2.grpc_headers()) + frame(h2.RST_STREAM, 0, s, b"\0\0\0\x08")
                    for s in range(stream, stream + 200, 2))
                if time.monotonic() > stop or not send_quietly(connection, batch):
                    break
                count += 100
            connection.close()
        counts.append(count)

    threads = [threading.Thread(target=attack) for _ in range(4)]
    before = server.resident()
    for thread in threads:
        thread.start()
    slowest = 0.0
    while any(thread.is_alive() for thread in threads):
        slowest = max(slowest, server.polite(10))
        time.sleep(0.1)
    grown = server.resident() - before
    assert grown < 200, f"memory grew by {grown:.0f} MiB"
    return f"{sum(counts)} resets; a polite client waited {slowest * 1000:.0f} ms at most; {grown:+.0f} MiB"


def many_streams(server, streams=20_000):
    """Requests that are begun and never finished, on one connection."""
    connection = server.connect()
    connection.settimeout(10)
    before = server.resident()
    send_quietly(connection, h2.opening())
    begun = 0
    for first in range(1, 2 * streams, 400):
        batch = b"".join(frame(h2.HEADERS, h2.END_HEADERS, s, h2.grpc_headers()) for s in range(first, first + 400, 2))
        if not send_quietly(connection, batch):
            break
        begun += 200
    server.polite()
    grown = server.resident() - before
    connection.close()
    assert grown < 200, f"memory grew by {grown:.0f} MiB"
    return f"{begun} begun: {grown:+.0f} MiB"


def control_floods(server):
    """Pings, settings and empty data, without reading an answer."""
    told = []
    for name, piece in (("pings", frame(h2.PING, 0, 0, b"12345678")), ("settings", frame(h2.SETTINGS)),
                        ("priorities", frame(h2.PRIORITY, 0, 3, b"\0\0\0\0\x10"))):
        before = server.resident()
        connection = server.connect()
        connection.settimeout(2)
        send_quietly(connection, h2.opening())
        sent = 0
        while sent < 500_000 and send_quietly(connection, piece * 1000):
            sent += 1000
        server.polite()
        grown = server.resident() - before
        connection.close()
        assert grown < 100, f"{name}: memory grew by {grown:.0f} MiB"
        told.append(f"{sent} {name} {grown:+.0f} MiB")
    return "; ".join(told)


def unread_answers(server):
    """A client asks for much and reads nothing."""
    before = server.resident()
    connections = []
    body = struct.pack(">BI", 0, 0)
    for _ in range(20):
        connection = server.connect()
        connection.settimeout(2)
        data = h2.opening()
        for stream in range(1, 401, 2):
            data += frame(h2.HEADERS, h2.END_HEADERS, stream, h2.grpc_headers("/etcdserverpb.Maintenance/Snapshot"))
            data += frame(h2.DATA, h2.END_STREAM, stream, body)
        send_quietly(connection, data)
        connections.append(connection)
    time.sleep(1)
    server.polite(10)
    grown = server.resident() - before
    for connection in connections:
        connection.close()
    assert grown < 800, f"memory grew by {grown:.0f} MiB"
    return f"4000 streams: {grown:+.0f} MiB"


def grpc_nonsense(server):
    """Messages that claim more than they have, are compressed with nothing, or are no protobuf."""
    bodies = {
        "a message of 4 GiB": struct.pack(">BI", 0, 0xFFFFFFFF) + b"x" * 100,
        "an unknown compression": struct.pack(">BI", 1, 4) + b"abcd",
        "no protobuf": struct.pack(">BI", 0, 4) + b"\xff\xff\xff\xff",
        "half a prefix": b"\0\0\0",
    }
    for name, body in bodies.items():
        connection = server.connect()
        data = h2.opening() + frame(h2.HEADERS, h2.END_HEADERS, 1, h2.grpc_headers())
        send_quietly(connection, data + frame(h2.DATA, h2.END_STREAM, 1, body))
        frames, _ = h2.read_frames(connection, 1)
        assert any(kind in (h2.HEADERS, h2.RST_STREAM) for kind, *_ in frames), f"{name}: no answer"
        connection.close()
    server.polite()
    return f"{len(bodies)} kinds: each answered with an error"


def http1_nonsense(server):
    """Headers without end, two lengths, chunks of nonsense, and bytes that are no text."""
    bad = {
        "a header of 10 MiB": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * (10 << 20),
        "two lengths": b"POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "a chunk of 2^64": b"POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "no text": bytes(range(128, 256)) * 10 + b"\r\n\r\n",
        "a body beyond every limit": b"POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
                                     + b" " * (8 << 20),
    }
    for name, data in bad.items():
        connection = server.connect()
        send_quietly(connection, data)
        connection.settimeout(5)
        answer = b""
        try:
            answer = connection.recv(65536)
        except TimeoutError:
            raise AssertionError(f"{name}: neither answered nor closed") from None
        except OSError:
            pass
        assert not answer.startswith(b"HTTP/1.1 200"), f"{name}: {answer[:80]}"
        connection.close()
    smuggled = server.connect()
    send_quietly(smuggled, b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
                           b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    smuggled.settimeout(2)
    answer = b""
    try:
        while more := smuggled.recv(65536):
            answer += more
    except OSError:
        pass
    smuggled.close()
    server.polite()
    kind = "refused" if b" 400 " in answer else f"{answer.count(b'HTTP/1.1 ')} answers"
    return f"{len(bad)} kinds refused; both a length and chunks: {kind}"


def slow_loris(server):
    """More connections than there are descriptors: some silent, some with half a request, kept alive byte by byte."""
    held = []
    openings = [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n", h2.PREFACE[:10], h2.opening(), b"\x16\x03\x01"]
    slowest = 0.0
    for n in range(1500):
        try:
            connection = server.connect()
        except OSError:
            break
        send_quietly(connection, openings[n % len(openings)])
        held.append(connection)
        if n % 100 == 99:
            slowest = max(slowest, server.polite(10))
    # They go on dripping.
    for connection in held:
        send_quietly(connection, b"X")
    slowest = max(slowest, server.polite(10))
    used = server.descriptors()
    for connection in held:
        connection.close()
    assert used < 900, f"{used} descriptors are in use"
    return f"{len(held)} opened, {used} descriptors in use; a polite client waited {slowest * 1000:.0f} ms at most"


def abrupt_ends(server):
    """Connections reset at every point of a request."""
    whole = h2.opening() + frame(h2.HEADERS, h2.END_HEADERS, 1, h2.grpc_headers()) + frame(h2.DATA, 0, 1, b"\0" * 5)
    for length in range(0, len(whole), 3):
        connection = server.connect()
        send_quietly(connection, whole[:length])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    server.polite()
    return f"{len(whole) // 3} ends"


def hello(version=0x0303, length=None, body=None):
    """A record with the beginning of a handshake in it."""
    body = b"\x01\x00\x02\x00" + struct.pack(">H", version) + bytes(100) if body is None else body
    return b"\x16" + struct.pack(">HH", 0x0301, len(body) if length is None else length) + body


def tls_nonsense(server):
    """Records that are too long, empty, of an unknown kind, or that claim a handshake of 16 MiB."""
    bad = {
        "plain text": b"\x00\x01\x02\x03\x04\x05\x06",
        "a record of 64 KiB": hello(length=0xFFFF) + bytes(0xFFFF),
        "a handshake of 16 MiB": hello(body=b"\x01\xff\xff\xff" + bytes(1000)) * 100,
        "not a hello": hello(body=b"\x0b\x00\x00\x04abcd"),
        "a hello of zeros": hello(),
        "data first": b"\x17\x03\x03\x00\x05hello",
        "an alert first": b"\x15\x03\x03\x00\x02\x02\x28",
        "a heartbeat": hello(body=b"") + b"\x18\x03\x03\x00\x03\x01\xff\xff",
        "empty records": hello(body=b"") * 5000,
    }
    for name, data in bad.items():
        connection = server.connect()
        send_quietly(connection, data)
        connection.settimeout(13)
        try:
            while connection.recv(65536):
                pass
        except TimeoutError:
            raise AssertionError(f"{name}: still open after the time for a handshake") from None
        except OSError:
            pass
        connection.close()
        server.polite()
    return f"{len(bad)} kinds: each ended its own connection"


def tls_handshake_flood(server, seconds=4):
    """Handshakes begun and left, on several connections at once, faster than the processors can answer them: a polite
    client may be sent away, but has to get in when it comes again."""
    stop, counts = time.monotonic() + seconds, []

    def attack():
        count = 0
        while time.monotonic() < stop:
            try:
                connection = server.connect()
            except OSError:
                continue
            send_quietly(connection, hello())
            connection.close()
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=attack) for _ in range(4)]
    for thread in threads:
        thread.start()
    slowest = 0.0
    while any(thread.is_alive() for thread in threads):
        slowest = max(slowest, server.persistent(10))
        time.sleep(0.1)
    # What is still queued is worked off before the next attack.
    server.persistent(10)
    lines = server.text().count("rejected connection on client endpoint")
    assert lines < 200, f"the log has {lines} lines about it"
    return f"{sum(counts)} handshakes; a polite client waited {slowest * 1000:.0f} ms at most; {lines} lines logged"


PLAIN = [malformed_frames, oversized_headers, continuation_flood, rapid_reset, many_streams, control_floods,
         unread_answers, grpc_nonsense, http1_nonsense, slow_loris, abrupt_ends, auth_bypass]

TLS = [tls_nonsense, tls_handshake_flood, slow_loris, abrupt_ends]
