"""Attacks on the large data set by an ordinary user, who may do everything with its keys and nothing else.

What a request costs by the number of keys shows only where there are many. All of them are on one lease.
"""

import struct
import threading
import time

import h2
import measured
import wire
from bounds import ends
from dataset import KEYS, LEASE, PREFIX, PREFIX_END, key
from measured import BY_AN_ORDINARY_USER
from wire import message, number, text

MOD, DESCEND = 3, 2  # sort target and order


def attack(cpu, **more):
    return measured.attack(of=BY_AN_ORDINARY_USER, large=True, cpu=cpu, **more)


def put_op(key, lease=0):
    return text(2, text(2, text(1, key) + text(2, b"v" * 40) + (number(3, lease) if lease else b"")))


def at_once(t, connections, calls, make, seconds=60):
    """The same call many times at once, with answers that are read. Gives how many were answered."""
    done = []

    def ask():
        connection = t.open(window=1 << 20, connection_window=1 << 30)
        streams = {connection.stream() for _ in range(calls)}
        connection.send(b"".join(make(connection, stream) for stream in sorted(streams)))
        end = time.monotonic() + seconds
        while streams and not connection.closed and time.monotonic() < end:
            for kind, flags, stream, payload in connection.read(1, until=lambda found: found[0] in (h2.DATA, h2.HEADERS)):
                if kind == h2.DATA and payload:
                    connection.try_send(h2.frame(h2.WINDOW_UPDATE, 0, stream, struct.pack(">I", len(payload))))
                if ends(stream)((kind, flags, stream, payload)) and stream in streams:
                    streams.discard(stream)
                    done.append(stream)

    threads = [threading.Thread(target=ask) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == connections * calls, f"{len(done)} of {connections * calls} calls were answered in {seconds} s"
    return f"{len(done)} calls"


@attack(cpu=3)
def puts_on_a_large_lease(t):
    """Transactions of nested puts on it, and single puts: each of them asks whether all of its keys may be written."""
    puts = [text(2, text(4, put_op(key(n), LEASE))) for n in range(1000)]
    nested = [text(2, text(4, b"".join(puts[first:first + 100]))) for first in range(0, 1000, 100)]
    connection = t.open()
    for _ in range(5):
        assert connection.unary(wire.TXN, b"".join(nested), 60), "nested puts were refused"
    for n in range(100):
        assert connection.unary(wire.PUT, text(1, key(n)) + text(2, b"w") + number(3, LEASE), 60), "a put was refused"
    return "5000 nested puts, 100 puts"


@attack(cpu=4)
def renewals_of_a_large_lease(t):
    """Renewals of seven bytes on many streams; each of them asks whether all of its keys may be written."""
    connection = t.open(window=1 << 20, connection_window=1 << 24)
    streams = [connection.stream() for _ in range(100)]
    data = b""
    for stream in streams:
        data += connection.headers(wire.KEEP_ALIVE, stream)
        data += h2.frame(h2.DATA, h2.END_STREAM, stream, message(number(1, LEASE)) * 10)
    connection.send(data)
    waiting, end = set(streams), time.monotonic() + 60
    while waiting and time.monotonic() < end and not connection.closed:
        for kind, flags, stream, payload in connection.read(1, until=lambda found: found[0] == h2.HEADERS):
            if ends(stream)((kind, flags, stream, payload)):
                waiting.discard(stream)
    assert not waiting, f"{len(waiting)} streams of renewals are not answered"
    return f"{10 * len(streams)} renewals"


def everything(*more):
    return text(1, PREFIX) + text(2, PREFIX_END) + b"".join(more)


# No version is as large.
COMPARE = text(1, number(1, 3) + text(3, PREFIX) + number(4, 1 << 40) + text(64, PREFIX_END))


@attack(cpu=16)
def sorted_ranges(t):
    """Everything is sorted for an answer of one key."""
    body = everything(number(3, 1), number(5, DESCEND), number(6, MOD))
    return at_once(t, 2, 16, lambda c, stream: c.call(wire.RANGE, body, stream))


@attack(cpu=24)
def compares_of_everything(t):
    """Transactions that only read, and compare all keys."""
    return at_once(t, 4, 16, lambda c, stream: c.call(wire.TXN, COMPARE * 4, stream))


@attack(cpu=25)
def whole_lists(t):
    """Lists of everything on many connections, none of which is read."""
    for _ in range(20):
        connection = t.open(window=0)
        connection.send(b"".join(connection.call(wire.RANGE, everything()) for _ in range(16)))
    time.sleep(8)
    return "320 lists"


@attack(cpu=12, puts_wait=True)
def writes_that_read_everything(t):
    """Transactions of a put that compare and sort everything."""
    sort = text(2, text(1, everything(number(3, 1), number(5, DESCEND), number(6, MOD))))
    body = COMPARE * 2 + sort + put_op(key(1))
    return at_once(t, 1, 8, lambda c, stream: c.call(wire.TXN, body, stream))


@attack(cpu=6, puts_wait=True, spoils=True)
def delete_of_everything(t):
    """One request of thirty bytes."""
    t.open().unary("/etcdserverpb.KV/DeleteRange", everything(), 60)
    time.sleep(0.5)
    return f"{KEYS} keys"
