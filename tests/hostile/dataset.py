"""The large data set: what Kubernetes keeps of three hundred thousand objects, on one lease."""

import h2
import wire
from wire import message, number, text

PREFIX, PREFIX_END = b"/registry/", b"/registry0"
KEYS = 300_000
LEASE = 77
# Of one transaction, and transactions under way.
TOGETHER, UNDER_WAY = 120, 64


def key(n):
    return b"/registry/pods/%03d/%06d" % (n % 100, n)


def transactions():
    """Puts of all keys with values of forty bytes, as many in each as there may be."""
    for first in range(0, KEYS, TOGETHER):
        puts = (wire.put_of(key(n), b"%040d" % n) + number(3, LEASE) for n in range(first, min(KEYS, first + TOGETHER)))
        yield b"".join(text(2, text(2, put)) for put in puts)


def load(connection):
    """Writes all of it over a connection without credentials."""
    connection.send(wire.frame(h2.WINDOW_UPDATE, 0, 0, b"\x10\0\0\0"))
    connection.unary(wire.GRANT, number(1, 36_000) + number(2, LEASE))
    under_way, failed = 0, 0

    def settle(most):
        nonlocal under_way, failed
        while under_way > most:
            frames = connection.read(30, until=lambda found: found[0] == h2.HEADERS and found[1] & h2.END_STREAM)
            ended = [payload for kind, flags, _, payload in frames if kind == h2.HEADERS and flags & h2.END_STREAM]
            assert ended, f"no answer to a transaction: {connection.closed} {connection.goaway}"
            under_way -= len(ended)
            failed += sum(kind == h2.RST_STREAM for kind, *_ in frames)

    for body in transactions():
        stream = connection.stream()
        connection.send(connection.headers(wire.TXN, stream))
        whole = message(body)
        assert connection.data(stream, whole, end=True) == len(whole), connection.closed
        under_way += 1
        settle(UNDER_WAY)
    settle(0)
    count = connection.unary(wire.RANGE, wire.range_of(PREFIX, PREFIX_END) + number(9, 1))
    assert wire.varint(KEYS) in count and not failed, f"{failed} transactions failed"
