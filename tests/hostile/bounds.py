"""What a client could make the server hold or do with few bytes. See measured.py for what each may cost."""

import base64
import random
import re
import ssl
import struct
import threading
import time

import h2
import wire
from h2 import frame
from measured import CROSSWISE, HUGE, HUGE_SIZE, LARGE, LARGE_SIZE, STRANGER, USER, Raw, attack
from wire import message, number, reset, text

JSON = ("content-type", "application/json")
HTTP1 = ("http/1.1",)


def ends(stream):
    return lambda found: found[2] == stream and (found[0] == h2.RST_STREAM or found[0] < 2 and found[1] & h2.END_STREAM)


# --- answers ----------------------------------------------------------------------------------------------------------


@attack(items="1", cpu=3)
def cancelled_answers(t):
    """Answers are cancelled while they wait for the client's window; calls beside them on the connection get theirs."""
    rounds = 60
    closed = t.open(window=0)
    for _ in range(rounds):
        stream = closed.next
        closed.send(closed.get("/version"))
        closed.read(5, until=lambda found: found[:3:2] == (h2.HEADERS, stream))
        closed.send(reset(stream))
    assert closed.sync(), f"the connection is gone: {closed.closed} {closed.goaway}"
    if t.role == STRANGER:
        return f"{rounds} answers of /version at window 0"
    part = t.open(window=65535, connection_window=1 << 30)
    for n in range(rounds):
        stream = part.stream()
        part.send(part.call(wire.RANGE, wire.range_of(LARGE), stream))
        read = 0
        while read < 65535 and not part.closed:
            frames = part.read(5, until=lambda found: found[0] == h2.DATA)
            read += sum(len(payload) for kind, *_, payload in frames if kind == h2.DATA)
            assert frames, f"{read} bytes of an answer, then nothing"
        other = part.stream()
        if n % 2:
            part.send(part.call(wire.PUT, wire.put_of(b"beside", b"%d" % n), other) + reset(stream))
        else:
            part.send(reset(stream) + part.call(wire.RANGE, wire.range_of(b"polite"), other))
        frames = part.read(10, until=ends(other))
        assert any(ends(other)(found) for found in frames), f"a call that was not cancelled got no answer: {part.closed}"
    return f"{rounds} answers of /version at window 0, {rounds} of {LARGE_SIZE} bytes at 64 KiB"


@attack(items="1, 18", roles=(USER,), cpu=4)
def changes_of_mind(t):
    """Calls that did real work are cancelled, as ordinary clients do: the connection stays."""
    connection = t.open(window=65535, connection_window=wire.WINDOW_MAX - 65535)
    for n in range(50):
        streams = [connection.stream() for _ in range(20)]
        data = b"".join(connection.call(wire.RANGE, wire.range_of(LARGE), stream) for stream in streams)
        connection.send(data)
        waiting = set(streams)
        while waiting and not connection.closed:
            frames = connection.read(10, until=lambda found: found[0] == h2.DATA)
            assert frames, "no answer"
            for kind, _, stream, payload in frames:
                if kind == h2.DATA and stream in waiting:
                    waiting.discard(stream)
                    connection.try_send(reset(stream))
        assert not connection.closed and connection.goaway is None, \
            f"sent away after {20 * n} cancelled calls: {connection.goaway} {connection.closed}"
        if n % 10 == 0:
            connection.send(frame(h2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 20)))
    connection.unary(wire.RANGE, wire.range_of(b"polite"))
    return "1000 large answers cancelled on one connection, which was still served"


@attack(items="1, 18", of=CROSSWISE, cpu=4, per_mib=2)
def complete_and_reset(t):
    """Calls that are complete and cancelled in the same packet, on several connections."""
    done, hung_up = 0, 0
    end = time.monotonic() + 1
    while time.monotonic() < end:
        connection = t.open()
        for _ in range(200):
            batch = b""
            for _ in range(50):
                stream = connection.stream()
                batch += connection.call(wire.RANGE, wire.range_of(b"polite"), stream) + reset(stream)
            if time.monotonic() > end or not connection.try_send(batch):
                break
            done += 50
            connection.read()
            if connection.closed:
                break
        hung_up += connection.closed is not None
        connection.close()
    return f"{done} resets, hung up {hung_up} times"


def unread(t, connections, calls, make, rest=0.6, **settings):
    """Calls whose answers are not read."""
    opened = [t.open(**settings) for _ in range(connections)]
    taken = 0
    for connection in opened:
        connection.socket.settimeout(1)
        for first in range(0, calls, 50):
            if not connection.try_send(b"".join(make(connection) for _ in range(min(50, calls - first)))):
                break
            taken += min(50, calls - first)
    time.sleep(rest)
    return f"{taken} of {connections * calls} calls taken"


@attack(items="4", roles=(USER,), cpu=4)
def unread_ranges(t):
    """Ranges of a megabyte at window 0."""
    return unread(t, 4, 400, lambda c: c.call(wire.RANGE, wire.range_of(HUGE)), window=0)


@attack(items="4", roles=(USER,), cpu=4)
def unread_sockets(t):
    """Ranges of a megabyte with windows of 2 GiB, and nothing is read from the socket."""
    return unread(t, 4, 400, lambda c: c.call(wire.RANGE, wire.range_of(HUGE)), window=wire.WINDOW_MAX,
                  connection_window=wire.WINDOW_MAX - 65535)


@attack(items="4", roles=(USER,), cpu=4)
def unread_range_streams(t):
    """Streams of ranges at window 0."""
    return unread(t, 4, 400, lambda c: c.call(wire.RANGE_STREAM, wire.range_of(b"\0", b"\0")), window=0)


@attack(items="4", cpu=20, per_mib=4)
def unread_lists_of_leases(t):
    """Lists of 30,000 leases at window 0: they are not made by the fast path of calls on keys."""
    if t.role == USER:
        writer = t.open(window=1 << 24, connection_window=1 << 28)
        for first in range(0, 30_000, 500):
            streams = [writer.stream() for _ in range(500)]
            writer.send(b"".join(writer.call(wire.GRANT, number(1, 3600) + number(2, (1 << 40) + first + n), stream)
                                 for n, stream in enumerate(streams)))
            waiting = set(streams)
            while waiting and not writer.closed:
                frames = writer.read(10, until=lambda found: found[0] == h2.HEADERS and found[1] & h2.END_STREAM)
                assert frames, "no answer to a grant"
                waiting -= {stream for kind, flags, stream, _ in frames if kind == h2.HEADERS and flags & h2.END_STREAM}
        t.begin()
    return unread(t, 4, 400, lambda c: c.call(wire.LEASES, b""), window=0)


@attack(items="4", roles=(USER,), cpu=8, per_mib=4)
def unread_ranges_of_two_messages(t):
    """Ranges of 100 MB with a second message behind the first, which no fast path takes, and the answers are not read."""
    writer = t.open()
    for n in range(100):
        writer.unary(wire.PUT, wire.put_of(b"two/%02d" % n, b"x" * 1_000_000))
    t.begin()

    def make(connection):
        stream = connection.stream()
        body = message(wire.range_of(b"two/", b"two0")) + message(b"")
        return connection.headers(wire.RANGE, stream) + frame(h2.DATA, h2.END_STREAM, stream, body)
    return unread(t, 4, 8, make, rest=1.5, window=65535, connection_window=wire.WINDOW_MAX - 65535)


@attack(items="4", roles=(USER,), cpu=8, per_mib=4)
def hogged_snapshots(t):
    """Both snapshots that may be under way are read a byte at a time; others who want one get it."""
    greedy = [t.open(window=0, connection_window=1 << 28) for _ in range(4)]
    streams = []
    for connection in greedy:
        for _ in range(3):
            streams.append((connection, connection.next))
            connection.send(connection.call(wire.SNAPSHOT, b""))
    for connection in greedy[:2]:
        assert connection.read(10, until=lambda found: found[0] == h2.HEADERS), "no snapshot is begun"
    over = threading.Event()

    def trickle():
        while not over.wait(1):
            for connection, stream in streams:
                connection.try_send(frame(h2.WINDOW_UPDATE, 0, stream, b"\0\0\0\1"))

    reading = threading.Thread(target=trickle)
    reading.start()
    begun = time.monotonic()
    try:
        polite = t.open(window=1 << 26, connection_window=1 << 28)
        polite.send(polite.call(wire.SNAPSHOT, b""))
        frames = polite.read(60, until=ends(1))
    finally:
        over.set()
        reading.join()
    size = sum(len(payload) for kind, *_, payload in frames if kind == h2.DATA)
    took = time.monotonic() - begun
    assert size > LARGE_SIZE + HUGE_SIZE, f"a client that reads got {size} bytes of a snapshot in {took:.0f} s"
    return f"a client that reads got {size} bytes after {took:.0f} s"


@attack(items="4", cpu=6)
def unread_metrics(t):
    """The page of metrics at window 0, which needs no credentials."""
    return unread(t, 4, 1000, lambda c: c.get("/metrics"), window=0)


@attack(items="4", of=CROSSWISE, cpu=4, per_mib=3)
def unread_versions(t):
    """Small answers at window 0, as many as there may be."""
    return unread(t, 2, 20_000, lambda c: c.get("/version"), window=0)


@attack(items="4", of=CROSSWISE, cpu=4, per_mib=3)
def unread_refusals(t):
    """Calls of methods that do not exist, and no answer is read."""
    return unread(t, 2, 20_000, lambda c: c.call("/etcdserverpb.KV/None", b""), window=0)


@attack(items="4", schemes=("http",), cpu=6)
def unread_http1(t):
    """Pipelined requests for the page of metrics over HTTP/1, and nothing is read."""
    taken = 0
    for _ in range(4):
        raw = t.raw()
        raw.socket.settimeout(0.5)
        for _ in range(100):
            if not raw.try_send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 100):
                break
            taken += 100
    time.sleep(0.5)
    return f"{taken} requests taken"


@attack(items="4", roles=(USER,), cpu=4)
def unread_watches(t):
    """Watches whose events of half a megabyte are not read."""
    connection = t.open(window=0)
    for _ in range(200):
        connection.send(connection.headers(wire.WATCH, connection.next))
        create = text(1, text(1, b"watched"))
        connection.send(frame(h2.DATA, 0, connection.stream(), message(create)))
    connection.sync()
    writer = t.open()
    t.begin()
    for n in range(10):
        stream = writer.stream()
        writer.send(writer.headers(wire.PUT, stream))
        writer.data(stream, message(wire.put_of(b"watched", b"%d" % n + b"x" * 500_000)), end=True)
        writer.read(5, until=ends(stream))
    return "200 watches, 10 events of 500 kB"


@attack(items="4", roles=(USER,), cpu=4, per_mib=2)
def unread_keep_alives(t):
    """Keep-alives on one stream whose answers are not read."""
    connection = t.open(window=0)
    stream = connection.stream()
    connection.send(connection.headers(wire.KEEP_ALIVE, stream))
    connection.read(0.2)
    piece = message(number(1, 77)) * 2000
    sent = 0
    for _ in range(100):
        sent += connection.data(stream, piece)
    return f"{sent // 7} keep-alives taken"


@attack(items="4, 7", cpu=4, per_mib=1)
def half_open(t):
    """Calls that are begun and never finished: as many as there may be, on several connections."""
    begun = 0
    for _ in range(2):
        connection = t.open()
        for _ in range(260):
            if not connection.try_send(b"".join(connection.headers(wire.RANGE) for _ in range(250))):
                break
            begun += 250
        connection.read()
    time.sleep(0.3)
    return f"{begun} begun"


@attack(items="4, 7", of=CROSSWISE, cpu=4, per_mib=4)
def header_references(t):
    """Calls that are begun with 60 KB of headers each, which the peer's table makes of 20 bytes."""
    connection = t.open()
    more = [("x-large", "y" * 3900)]
    # The second block evicts everything but the large field, to which the others refer.
    first = b"\x40" + h2._string("x-large") + h2._string("y" * 3900)
    connection.send(frame(h2.HEADERS, h2.END_HEADERS, 1, h2.grpc_headers() + first))
    begun = 0
    for batch in range(160):
        data = b"".join(frame(h2.HEADERS, h2.END_HEADERS, stream, h2.grpc_headers() + b"\xbe" * 15)
                        for stream in range(3 + batch * 200, 203 + batch * 200, 2))
        if not connection.try_send(data):
            break
        begun += 100
        connection.read()
        if connection.closed:
            break
    time.sleep(0.3)
    return f"{begun} begun with {len(more)} field of {len(more[0][1])} bytes 15 times; closed: {connection.closed}"


# --- control frames ---------------------------------------------------------------------------------------------------


@attack(items="5")
def settings_with_half_open_calls(t):
    """48 KiB of changed windows on connections that hold many calls."""
    connections = []
    for _ in range(2):
        connection = t.open()
        for _ in range(240):
            if not connection.try_send(b"".join(connection.headers(wire.RANGE) for _ in range(250))):
                break
        connection.read()
        if not connection.closed:
            connection.sync(10)
        connections.append(connection)
    entries = b"".join(struct.pack(">HI", 4, 65535 + n % 2) for n in range(2700))
    t.begin()
    for connection in connections:
        for _ in range(3):
            connection.try_send(frame(h2.SETTINGS, 0, 0, entries))
    answered = sum(connection.closed is None and connection.try_send(b"") and quiet_sync(connection) for connection in connections)
    return f"{answered} connections still answer"


def quiet_sync(connection, seconds=6):
    try:
        return connection.sync(seconds)
    except OSError:
        return False


def flood(t, piece, times, opening=lambda connection: b""):
    """The same bytes again and again, without reading."""
    connection = t.open()
    connection.socket.settimeout(1)
    connection.try_send(opening(connection))
    sent = 0
    while sent < times and connection.try_send(piece * 1000):
        sent += 1000
    return f"{sent} sent"


@attack(items="5", of=CROSSWISE, per_mib=2)
def pings(t):
    return flood(t, frame(h2.PING, 0, 0, b"12345678"), 200_000)


@attack(items="5", of=CROSSWISE, per_mib=2)
def empty_settings(t):
    return flood(t, frame(h2.SETTINGS), 200_000)


@attack(items="5", of=CROSSWISE, per_mib=2)
def full_settings(t):
    """Settings of 2,700 entries."""
    return flood(t, frame(h2.SETTINGS, 0, 0, struct.pack(">HI", 3, 100) * 2700), 2000)


@attack(items="7", of=CROSSWISE, per_mib=2)
def empty_data(t):
    return flood(t, frame(h2.DATA, 0, 1), 200_000, lambda c: c.headers(wire.RANGE))


@attack(items="7", of=CROSSWISE, per_mib=2)
def padded_data(t):
    """Data that is padding only."""
    return flood(t, frame(h2.DATA, 8, 1, b"\x40" + bytes(64)), 30_000, lambda c: c.headers(wire.RANGE))


@attack(items="5", of=CROSSWISE, per_mib=2)
def unknown_frames(t):
    return flood(t, frame(0x42, 0xFF, 5), 200_000)


@attack(items="5", of=CROSSWISE, per_mib=2)
def window_updates(t):
    return flood(t, frame(h2.WINDOW_UPDATE, 0, 1, b"\0\0\0\1"), 200_000, lambda c: c.headers(wire.RANGE))


@attack(items="5", of=CROSSWISE, per_mib=2)
def priorities(t):
    return flood(t, frame(h2.PRIORITY, 0, 3, b"\0\0\0\0\x10"), 200_000)


@attack(items="5", of=CROSSWISE, per_mib=2)
def resets_of_ended_calls(t):
    return flood(t, reset(1), 100_000, lambda c: c.get("/version"))


@attack(items="5", of=CROSSWISE, per_mib=4)
def table_sizes(t):
    """Header blocks that change the size of the table, and headers in many small frames."""
    connection = t.open()
    done = 0
    for n in range(300):
        stream = connection.stream()
        block = b"\x20\x3f\xe1\x1f" * 2 + h2.grpc_headers()
        pieces = [block[at:at + 3] for at in range(0, len(block), 3)][:60]
        data = frame(h2.HEADERS, h2.END_STREAM, stream, pieces[0])
        data += b"".join(frame(h2.CONTINUATION, 0, stream, piece) for piece in pieces[1:])
        if not connection.try_send(data + frame(h2.CONTINUATION, h2.END_HEADERS, stream)):
            break
        connection.read()
        if connection.closed:
            break
        done = n + 1
    return f"{done} blocks; closed: {connection.closed}"


@attack(items="5", of=CROSSWISE, per_mib=4)
def trailers(t):
    """Headers behind the data: many, long, and again."""
    connection = t.open()
    done = 0
    for n in range(500):
        stream = connection.stream()
        data = connection.headers(wire.RANGE, stream) + frame(h2.DATA, 0, stream, message(b""))
        more = b"".join(h2.literal(f"x-{n}", "y" * 100) for n in range(100))
        if not connection.try_send(data + frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM * (n % 2), stream, more)):
            break
        connection.read()
        if connection.closed:
            break
        done = n + 1
    return f"{done} calls; closed: {connection.closed}"


# --- requests that are not whole --------------------------------------------------------------------------------------


@attack(items="7", cpu=6, per_mib=0.1)
def pinned_buffers(t):
    """A message that arrives byte by byte, each byte in front of 60 KB that are ignored: it may pin what it was read into."""
    connection = t.open()
    stream = connection.stream()
    connection.send(connection.headers(wire.PUT, stream) + frame(h2.DATA, 0, stream, struct.pack(">BI", 0, 1_000_000)))
    ignored = frame(0x42, 0, 0, bytes(15_000)) * 4
    held, end = 0, time.monotonic() + 4
    while held < 6500 and time.monotonic() < end:
        if not connection.try_send(frame(h2.DATA, 0, stream, b"x") + ignored) or not quiet_sync(connection):
            break
        held += 1
    return f"{held} bytes, each read alone"


@attack(items="7", of=CROSSWISE, per_mib=30)
def single_bytes(t):
    """Messages that arrive byte by byte, on many calls."""
    connection = t.open()
    done, end = 0, time.monotonic() + 0.8
    while time.monotonic() < end:
        stream = connection.stream()
        connection.send(connection.headers(wire.PUT, stream) + frame(h2.DATA, 0, stream, b"\0"))
        if not quiet_sync(connection):
            break
        done += 1
    return f"{done} bytes, each read alone"


@attack(items="7", cpu=6, per_mib=0.1)
def incomplete_messages(t):
    """Messages that lack their end, on several connections and many calls."""
    taken = 0
    body = struct.pack(">BI", 0, 1_500_000) + bytes(1_400_000)
    for _ in range(8):
        connection = t.open()
        connection.read(0.1, until=lambda found: found[0] == h2.WINDOW_UPDATE)
        for _ in range(60):
            stream = connection.stream()
            connection.try_send(connection.headers(wire.PUT, stream))
            more = connection.data(stream, body)
            taken += more
            if more < len(body):
                break
    return f"{taken >> 20} MiB taken"


@attack(items="7", cpu=6, per_mib=0.1)
def incomplete_gateway_bodies(t):
    """Bodies of the JSON gateway that lack their end."""
    taken = 0
    body = b'{"key":"eA==","value":"' + b"A" * 1_300_000
    for _ in range(300):
        if t.server.trust is not None:
            break  # only HTTP/2 is spoken there
        raw = t.raw()
        raw.socket.settimeout(1)
        if raw.try_send(b"POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nContent-Length: 1400000\r\n\r\n" + body):
            taken += len(body)
    for _ in range(4 if t.server.trust is not None else 0):
        connection = t.open()
        connection.read(0.1, until=lambda found: found[0] == h2.WINDOW_UPDATE)
        for _ in range(80):
            stream = connection.stream()
            fields = [(":method", "POST"), (":scheme", "https"), (":path", "/v3/kv/put"), (":authority", "x"), JSON]
            connection.try_send(frame(h2.HEADERS, h2.END_HEADERS, stream, connection.hpack.block(fields)))
            more = connection.data(stream, body)
            taken += more
            if more < len(body):
                break
    return f"{taken >> 20} MiB taken"


def post(t, path, body, length=None):
    """A request of HTTP/1, whose body may be shorter than it says."""
    who = f"Authorization: {t.token}\r\n" if t.token else ""
    length = len(body) if length is None else length
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{who}Content-Length: {length}\r\n\r\n".encode() + body


def plain(t):
    """A connection of HTTP/1, secured if need be."""
    raw = t.raw(("http/1.1",))
    raw.socket.settimeout(1)
    return raw


@attack(items="7", cpu=6, per_mib=0.1)
def endless_gateway_bodies(t):
    """Bodies of the JSON gateway over HTTP/1 that lack their end, on as many connections as there may be."""
    taken = 0
    body = b'{"key":"eA==","value":"' + b"A" * 1_300_000
    for _ in range(400):
        taken += len(body) * plain(t).try_send(post(t, "/v3/kv/put", body, 1_400_000))
    return f"{taken >> 20} MiB taken"


@attack(items="7", cpu=8, per_mib=0.1)
def endless_json_messages(t):
    """Messages of JSON streams and of WebSockets that lack their end."""
    taken = 0
    body = endless_json(1_300_000)
    who = f"Sec-WebSocket-Protocol: Bearer, {t.token}\r\n" if t.token else ""
    for n in range(400):
        raw = plain(t)
        if n % 2:
            taken += len(body) * raw.try_send(post(t, "/v3/watch", body, 1_400_000))
            continue
        raw.send(f"GET /v3/watch HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                 f"Sec-WebSocket-Key: {'A' * 22}==\r\n{who}\r\n".encode())
        answered(raw)
        raw.socket.settimeout(1)
        taken += len(body) * raw.try_send(b"\x81\xff" + struct.pack(">Q", 1_400_000) + bytes(4) + body)
    return f"{taken >> 20} MiB taken"


@attack(items="4", roles=(USER,), cpu=12, per_mib=20)
def unread_gateway_answers(t):
    """Ranges of a megabyte over the gateway, on as many connections as there may be, and none is read."""
    body = b'{"key":"' + base64.b64encode(HUGE) + b'"}'
    taken = 0
    for _ in range(400):
        raw = t.raw(("http/1.1",), room=4096)
        raw.socket.settimeout(1)
        # The second is not begun before the first is taken.
        taken += raw.try_send(post(t, "/v3/kv/range", body) * 2)
    time.sleep(1)
    return f"{taken} requests taken"


@attack(items="2", roles=(USER,), cpu=6, per_mib=4)
def abandoned_json_watches(t):
    """Watches of the gateway whose clients leave with their bodies open, or with another request behind them."""
    create = b'{"create_request":{"key":"bGVmdA=="}}'
    made = 0
    for n in range(300):
        raw = plain(t)
        if not raw.try_send(post(t, "/v3/watch", create, len(create) + 50 * (n % 2)) + b"GET" * (1 - n % 2)):
            continue
        made += b'"created":true' in answered(raw)
        raw.close()
    end = time.monotonic() + 60
    while watchers(t) > 0 and time.monotonic() < end:
        time.sleep(0.5)
    left = watchers(t)
    assert made > 250 and left == 0, f"{left} of {made} watches are left of clients that have gone"
    return f"{made} watches"


def watchers(t):
    """How many the server knows."""
    raw = plain(t)
    raw.socket.settimeout(10)
    raw.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    page = b""
    while part := raw.socket.recv(65536):
        page += part
    raw.close()
    return int(float(re.search(rb"^etcd_debugging_mvcc_watcher_total (\S+)", page, re.MULTILINE)[1]))


@attack(items="7", of=CROSSWISE, per_mib=2)
def lying_lengths(t):
    """Prefixes that promise a megabyte, or 4 GiB, and nothing behind them."""
    return unread(t, 4, 5000, lambda c: promise(c), rest=0.3)


def promise(connection):
    stream = connection.stream()
    length = 1_500_000 if stream % 4 == 1 else 0xFFFFFFFF
    return connection.headers(wire.PUT, stream) + frame(h2.DATA, 0, stream, struct.pack(">BI", 0, length))


@attack(items="7", of=CROSSWISE, per_mib=2)
def compressed_messages(t):
    """Messages that say they are compressed, with nothing that was agreed upon."""
    def make(connection):
        stream = connection.stream()
        return connection.headers(wire.PUT, stream) + frame(h2.DATA, h2.END_STREAM, stream, struct.pack(">BI", 1, 4) + b"abcd")
    return unread(t, 2, 10_000, make, rest=0.3)


def endless_json(size):
    """The beginning of a message for a stream."""
    return (b'{"create_request":{"key":"eA==","filters":[' + b"0," * size)[:size]


@attack(items="9")
def json_in_chunks(t):
    """JSON of streams in chunks of one byte."""
    chunks = 0
    who = f"Authorization: {t.token}\r\n" if t.token else ""
    raw = t.raw(HTTP1)
    raw.socket.settimeout(1)
    raw.send(f"POST /v3/watch HTTP/1.1\r\nHost: x\r\n{who}Transfer-Encoding: chunked\r\n\r\n".encode())
    for byte in endless_json(16_000):
        chunks += raw.try_send(b"1\r\n%c\r\n" % byte)
        time.sleep(0.00001)
    time.sleep(0.3)
    return f"{chunks} chunks"


@attack(items="9")
def json_in_frames(t):
    """The same over HTTP/2, in frames of one byte."""
    connection, sent = t.open(), 0
    connection.read(0.1)
    who = [("authorization", t.token)] if t.token else []
    for path in ("/v3/watch", "/v3/lease/keepalive"):
        stream = connection.stream()
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), JSON, *who]
        connection.send(frame(h2.HEADERS, h2.END_HEADERS, stream, connection.hpack.block(fields)))
        body = endless_json(30_000)
        for at in range(0, len(body), 100):
            if not connection.try_send(b"".join(frame(h2.DATA, 0, stream, bytes([byte])) for byte in body[at:at + 100])):
                break
            sent += 100
        connection.read()
    time.sleep(0.5)
    return f"{sent} frames"


@attack(items="9")
def json_in_websocket(t):
    """The same in messages of one byte of a WebSocket."""
    who = f"Sec-WebSocket-Protocol: Bearer, {t.token}\r\n" if t.token else ""
    raw = t.raw(HTTP1)
    raw.send(f"GET /v3/watch HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
             f"Sec-WebSocket-Key: {'A' * 22}==\r\n{who}\r\n".encode())
    said = answered(raw)[:12].decode(errors="replace")
    raw.socket.settimeout(1)
    body, sent = endless_json(30_000), 0
    for at in range(0, len(body), 100):
        # A final text frame of one byte, masked with zeros.
        sent += 100 * raw.try_send(b"".join(b"\x81\x81\0\0\0\0%c" % byte for byte in body[at:at + 100]))
    time.sleep(0.3)
    return f"{said}: {sent} messages"


@attack(items="6", of=CROSSWISE)
def deep_json(t):
    """JSON of a hundred thousand brackets."""
    for body in (b"[" * 100_000, b'{"a":' * 100_000, b'{"compare":[' * 50_000, b'{"success":[{"request_txn":' * 30_000):
        raw = t.raw(HTTP1)
        raw.try_send(b"POST /v3/kv/txn HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answered(raw)
    return "4 kinds"


def answered(raw, seconds=5):
    raw.socket.settimeout(seconds)
    try:
        return raw.socket.recv(65536)
    except OSError:
        return b""


@attack(items="7", of=CROSSWISE)
def huge_content_lengths(t):
    """Bodies that are announced and never come."""
    for n in range(300):
        raw = t.raw(HTTP1)
        length = (10**15, 1_500_000, 2**63 - 1)[n % 3]
        raw.try_send(b"POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{" % length)
    time.sleep(0.3)
    return "300 announced"


@attack(items="7", of=CROSSWISE)
def slow_headers(t):
    """Headers that come byte by byte, over HTTP/1 and in frames of one byte."""
    held = []
    for n in range(200):
        if t.server.trust is None and n % 2:
            raw = t.raw()
            raw.try_send(b"GET /version HTTP/1.1\r\nX: ")
            held.append(lambda raw=raw: raw.try_send(b"y"))
        else:
            connection = t.open()
            block = connection.hpack.block(connection.fields(wire.RANGE))
            connection.try_send(frame(h2.HEADERS, 0, 1, block[:1]))
            held.append(lambda c=connection: c.try_send(frame(h2.CONTINUATION, 0, 1, b"\0\1x\1y")))
    for _ in range(5):
        for more in held:
            more()
        time.sleep(0.05)
    return f"{len(held)} connections"


# --- requests that cost -----------------------------------------------------------------------------------------------


@attack(items="6", roles=(USER,))
def nested_transactions(t):
    """Transactions within transactions, each within the limits: 3,844 ranges of 300 kB in a message of 42 kB."""
    connection = t.open(window=wire.WINDOW_MAX, connection_window=wire.WINDOW_MAX - 65535)
    connection.read(0.2)
    one = text(1, wire.range_of(LARGE))
    inner = b"".join(text(2, one) for _ in range(62))
    outer = b"".join(text(2, text(4, inner)) for _ in range(62))
    stream = connection.stream()
    connection.send(connection.headers(wire.TXN, stream))
    connection.data(stream, message(outer), end=True)
    frames = connection.read(15, until=lambda found: found[2] == stream and found[0] in (h2.HEADERS, h2.RST_STREAM))
    refused = any(b"grpc-status" in payload for kind, _, _, payload in frames if kind == h2.HEADERS)
    return f"a message of {len(outer)} bytes: " + ("refused" if refused else "answered" if frames else "no answer")


@attack(items="6", roles=(USER,))
def deep_transactions(t):
    """Transactions 20,000 deep, and as deep as a message allows."""
    connection = t.open()
    connection.read(0.2)
    for depth in (20_000, 200_000):
        body = bytearray()
        # From the inside out: each level is an operation (2) with a transaction (4). Lengths are computed first.
        lengths, length = [], 0
        for _ in range(depth):
            inner = 1 + len(wire.varint(length)) + length
            outer = 1 + len(wire.varint(inner)) + inner
            lengths.append((length, inner))
            length = outer
            if length > 1_500_000:
                break
        for length, inner in reversed(lengths):
            body += b"\x12" + wire.varint(inner) + b"\x22" + wire.varint(length)
        stream = connection.stream()
        connection.send(connection.headers(wire.TXN, stream))
        connection.data(stream, message(bytes(body)), end=True)
        frames = connection.read(10, until=ends(stream))
        assert any(ends(stream)(found) for found in frames), f"no answer to {depth} levels: {connection.closed}"
    return "refused or answered"


@attack(items="6", roles=(USER,), cpu=4)
def wide_transactions(t):
    """Transactions of 128 ranges of a megabyte, several at once."""
    one = text(2, text(1, wire.range_of(HUGE)))
    return unread(t, 2, 20, lambda c: c.call(wire.TXN, one * 128), window=0)


def scatter(n):
    """The finaliser of splitmix64, as a tree whose balance hangs on a counter would use it."""
    mask = (1 << 64) - 1
    x = n * 0x9E3779B97F4A7C15 & mask
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
    return x ^ x >> 31


def watch_requests(connection, requests, seconds=12):
    """Sends requests on a new watch stream and reads all answers. Gives how many came, at least in part."""
    stream = connection.stream()
    connection.send(connection.headers(wire.WATCH, stream))
    body = b"".join(message(request) for request in requests)
    done, answers, tail, end = 0, 0, b"", time.monotonic() + seconds
    while answers < len(requests) and time.monotonic() < end and not connection.closed:
        if done < len(body):
            done += connection.data(stream, body[done:done + (64 << 10)])
        frames = connection.read(0.05, until=lambda found: found[0] == h2.DATA)
        data = b"".join(payload for kind, *_, payload in frames if kind == h2.DATA)
        if data:
            more = struct.pack(">I", len(data))
            connection.try_send(frame(h2.WINDOW_UPDATE, 0, 0, more) + frame(h2.WINDOW_UPDATE, 0, stream, more))
        # Every answer begins with a prefix of a length below 256, which may come in two parts.
        data = tail + data
        answers, tail = answers + data.count(b"\0\0\0\0"), data[-3:]
    return answers


@attack(items="2", roles=(USER,), cpu=8, per_mib=2)
def watches_along_a_path(t):
    """Watches in the order that makes a tree a path if its balance can be foretold; then a write below all of them."""
    connection = t.open(window=1 << 24, connection_window=1 << 24)
    connection.read(0.2)
    keys = [struct.pack(">Q", scatter(n)) for n in range(1, 30_001)]
    made = watch_requests(connection, [text(1, text(1, b"path" + key) + text(2, b"path" + key + b"\1")) for key in keys])
    other = t.open()
    other.unary(wire.PUT, wire.put_of(b"path" + min(keys), b"x"))
    assert made >= len(keys), f"{made} of {len(keys)} watches in 12 s"
    return f"{made} watches"


@attack(items="2", roles=(USER,), cpu=10, per_mib=2)
def watches_of_long_keys(t):
    """Watches of keys of a megabyte each, on several connections: they take what their keys take, and some are refused."""
    taken = 0
    for _ in range(4):
        connection = t.open(window=1 << 24, connection_window=1 << 24)
        connection.read(0.2)
        stream = connection.stream()
        connection.send(connection.headers(wire.WATCH, stream))
        for n in range(100):
            body = message(text(1, text(1, b"%d-%d" % (id(connection), n) + b"x" * 1_000_000)))
            more = connection.data(stream, body)
            taken += more
            if more < len(body):
                break
    return f"{taken >> 20} MiB taken"


@attack(items="2", roles=(USER,), cpu=14, per_mib=4)
def very_many_watches(t):
    """More watches than there may be, on one stream."""
    connection = t.open(window=1 << 26, connection_window=1 << 26)
    connection.read(0.2)
    requests = [text(1, text(1, b"many%07d" % n)) for n in range(120_000)]
    answers = watch_requests(connection, requests)
    return f"{answers} answers to {len(requests)} watches"


@attack(items="2", roles=(USER,), cpu=8, per_mib=2)
def watch_storm(t):
    """Watches made and cancelled again and again, of the same and of overlapping ranges."""
    connection = t.open(window=1 << 24, connection_window=1 << 24)
    connection.read(0.2)
    requests = []
    for n in range(15_000):
        requests.append(text(1, text(1, b"storm%05d" % (n % 100)) + text(2, b"stormz") + number(7, n + 1)))
        requests.append(text(2, number(1, n + 1)))
    answers = watch_requests(connection, requests)
    assert answers >= len(requests), f"{answers} answers to {len(requests)} requests in 12 s"
    return f"{answers} answers"


@attack(items="11", roles=(USER,), cpu=8, per_mib=4)
def progress_beside_watches(t):
    """Requests for progress between watches that are made, on a stream that is not read."""
    connection = t.open(window=0)
    connection.read(0.2)
    stream = connection.stream()
    connection.send(connection.headers(wire.WATCH, stream))
    requests = []
    for n in range(10_000):
        requests += [text(1, text(1, b"p%05d" % n)), text(3, b"")]
    body = b"".join(message(request) for request in requests)
    taken = connection.data(stream, body)
    return f"{taken} of {len(body)} bytes taken"


@attack(items="10", roles=(USER,), cpu=8, per_mib=4)
def leases(t):
    """Leases with the longest time there is: many that stay, and many that come and go."""
    connection = t.open(window=1 << 24, connection_window=1 << 28)
    end, granted = time.monotonic() + 1, 0
    identity = random.Random(1).randrange(1 << 40) << 16
    while time.monotonic() < end:
        data, last = b"", 0
        for n in range(200):
            identity += 1
            last = connection.stream()
            data += connection.call(wire.GRANT, number(1, 9_000_000_000) + number(2, identity), last)
            granted += 1
            if n % 2:
                last = connection.stream()
                data += connection.call(wire.REVOKE, number(1, identity), last)
        connection.send(data)
        frames = connection.read(10, until=ends(last))
        assert frames, f"no answer: {connection.closed}"
    return f"{granted} granted, half of them revoked"


@attack(items="4", roles=(USER,), cpu=6, per_mib=4)
def waiting_locks(t):
    """Calls that wait for a lock, and are cancelled."""
    connection = t.open(window=1 << 20, connection_window=1 << 28)
    body = text(1, b"lock")
    streams = []
    for _ in range(20):
        data = b""
        for _ in range(50):
            streams.append(connection.stream())
            data += connection.call("/v3lockpb.Lock/Lock", body, streams[-1])
        connection.send(data)
    time.sleep(0.3)
    connection.read()
    connection.try_send(b"".join(reset(stream) for stream in streams))
    return f"{len(streams)} calls"


@attack(items="", of=CROSSWISE, cpu=6, per_mib=40)
def wrong_passwords(t):
    """Logins that cost a hash each."""
    connection = t.open(window=1 << 20, connection_window=1 << 28)
    last, done = 0, 0
    end = time.monotonic() + 1
    while time.monotonic() < end:
        data = b""
        for _ in range(50):
            last = connection.stream()
            data += connection.call(wire.AUTHENTICATE, text(1, "root") + text(2, "x" * 70), last)
        connection.send(data)
        if not connection.read(10, until=ends(last)):
            break
        done += 50
    return f"{done} logins"


@attack(items="", roles=(STRANGER,), schemes=("https",), cpu=8, per_mib=20)
def handshakes_left_midway(t):
    """Handshakes whose first message is right, left before, in and after the server's answer."""
    done, end = [], time.monotonic() + 1.5

    def leave(how):
        while time.monotonic() < end:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = context.wrap_bio(incoming, outgoing)
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                pass
            hello = outgoing.read()
            try:
                raw = Raw(t.server, secure=False)
                t.connections.append(raw)
                raw.send(hello[:len(hello) // 2] if how == 0 else hello)
                if how == 2:
                    raw.socket.recv(100)
                raw.close()
            except OSError:
                pass
            done.append(how)

    threads = [threading.Thread(target=leave, args=(how,)) for how in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return f"{len(done)} handshakes"

