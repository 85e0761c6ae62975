"""Attacks on a server with 300,000 keys by an ordinary user, who may do everything with them and nothing else.

What a request costs by the number of keys shows only where there are many. One lease has 100,000 of them.
"""

import struct
import threading
import time

import h2
import measured
import wire
from bounds import ends
from measured import CPU_SECONDS, PASSWORD, USER, Field
from wire import message, number, text

KEYS, LEASED, LEASE = 300_000, 100_000, 7
FIRST, LAST = b"k", b"l"  # the range that they are in
PUTS_PER_TXN = 2000
FLAGS = [f"--max-txn-ops={PUTS_PER_TXN}"]
USER_NAME = "ordinary"
MOD, DESCEND = 3, 2  # sort target and order

ATTACKS = []


def attack(cpu=CPU_SECONDS, puts_wait=False):
    """Registers an attack. `puts_wait`: a single request takes so long that puts behind it have to wait for it; only reads are judged."""
    def register(function):
        function.cpu, function.per_mib, function.puts_wait = cpu, 4, puts_wait
        ATTACKS.append(function)
        return function
    return register


def put_op(key, lease=0):
    return text(2, text(2, text(1, key) + text(2, b"v" * 40) + (number(3, lease) if lease else b"")))


class ManyKeys(Field):
    """The server, loaded, with the ordinary user's token for attacks."""

    def __init__(self, binary):
        super().__init__(binary, "http", FLAGS)
        root = wire.Connection(self.server, token=self.token)
        auth = "/etcdserverpb.Auth/"
        root.unary(auth + "UserAdd", text(1, USER_NAME) + text(2, PASSWORD))
        root.unary(auth + "RoleAdd", text(1, USER_NAME))
        permission = number(1, 2) + text(2, FIRST) + text(3, LAST)
        root.unary(auth + "RoleGrantPermission", text(1, USER_NAME) + text(2, permission))
        root.unary(auth + "UserGrantRole", text(1, USER_NAME) + text(2, USER_NAME))
        self.polite.stop()
        # Tokens are of one state of users and roles.
        self.token = measured.log_in(root, "root")
        root.token = self.token
        root.unary(wire.GRANT, number(1, 9_000_000_000) + number(2, LEASE))
        for first in range(0, KEYS, PUTS_PER_TXN):
            puts = (put_op(b"k%07d" % n, LEASE if n < LEASED else 0) for n in range(first, first + PUTS_PER_TXN))
            root.unary(wire.TXN, b"".join(puts), 60)
        self.start_polite()
        self.token = measured.log_in(root, USER_NAME)
        root.close()


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
    nested = [text(2, text(4, put_op(b"k%07d" % n, LEASE))) for n in range(1000)]
    connection = t.open()
    for _ in range(5):
        connection.unary(wire.TXN, b"".join(nested), 60)
    for n in range(100):
        connection.unary(wire.PUT, text(1, b"k%07d" % n) + text(2, b"w") + number(3, LEASE), 60)
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
    return text(1, FIRST) + text(2, LAST) + b"".join(more)


# All versions differ from 9.
COMPARE = text(1, number(1, 3) + text(3, FIRST) + number(4, 9) + text(64, LAST))


@attack(cpu=12)
def sorted_ranges(t):
    """Everything is sorted for an answer of one key."""
    body = everything(number(3, 1), number(5, DESCEND), number(6, MOD))
    return at_once(t, 2, 16, lambda c, stream: c.call(wire.RANGE, body, stream))


@attack(cpu=12)
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
    body = COMPARE * 2 + sort + put_op(b"k0000001")
    return at_once(t, 1, 8, lambda c, stream: c.call(wire.TXN, body, stream))


@attack(cpu=6, puts_wait=True)
def delete_of_everything(t):
    """One request of ten bytes. The last attack: nothing is left."""
    t.open().unary("/etcdserverpb.KV/DeleteRange", everything(), 60)
    time.sleep(0.5)
    return f"{KEYS} keys"


def run(binary, wanted, strict, say):
    """All attacks, or those that are named. Gives those that the server did not stand."""
    chosen, failed, field = [attack for attack in ATTACKS if not wanted or attack.__name__ in wanted], [], None
    for attack in chosen:
        if field is None:
            field = ManyKeys(binary)
            say(f"{KEYS} keys: the polite client's p99 without an attack is {field.calm:.0f} ms; {field.first:.0f} MiB")
        said, wrong = field.suffer(attack, USER, strict)
        name = f"keys {attack.__name__}"
        say(f"{name:40} {said}")
        for line in wrong:
            say(f"{name:40} FAILED: {line}")
        if wrong:
            failed.append(name)
            field.stop()
            field = None
        elif field.is_worn():
            field = None if field.stop() else field
    if field is not None and not field.stop():
        failed.append("keys end")
    return failed
