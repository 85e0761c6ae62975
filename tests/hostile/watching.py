"""What a client could make the server do by the ranges it watches. See measured.py for what each attack may cost."""

import time

import bounds
import h2
import wire
from h2 import frame
from measured import USER, attack
from wire import message, number, text

DELETE_RANGE = "/etcdserverpb.KV/DeleteRange"


def load(t, prefix, count):
    """Keys in transactions of as many puts as are allowed."""
    connection = t.open(window=1 << 24, connection_window=1 << 28)
    last = 0
    for first in range(0, count, 128):
        puts = [text(2, text(2, wire.put_of(prefix + b"%07d" % n, b"x"))) for n in range(first, min(first + 128, count))]
        last = connection.stream()
        connection.send(connection.call(wire.TXN, b"".join(puts), last))
        if first // 128 % 64 == 63:
            assert connection.read(30, until=bounds.ends(last)), f"no answer: {connection.closed}"
    assert connection.read(30, until=bounds.ends(last)), f"no answer: {connection.closed}"


def watch(connection, creates):
    """A stream that reads the answers to its requests and nothing else."""
    made = bounds.watch_requests(connection, [text(1, create) for create in creates], seconds=30)
    assert made >= len(creates), f"{made} of {len(creates)} watches were answered"


@attack(items="1", roles=(USER,), cpu=8, per_mib=4)
def watches_over_everything(t):
    """Hundreds of ranges that overlap in most of very many keys, each without some; then all keys are deleted at once."""
    keys, ranges = 100_000, 300
    load(t, b"everything", keys)
    connection = t.open(window=1 << 20, connection_window=1 << 24)
    connection.read(0.2)
    watch(connection, [text(1, b"everything%07d" % n) + text(2, b"everything%07d" % (keys - n)) for n in range(ranges)])
    t.begin()
    other = t.open()
    other.unary(DELETE_RANGE, text(1, b"everything") + text(2, b"everythinh"), 60)
    time.sleep(2)
    return f"{ranges} ranges, {keys} keys deleted"


@attack(items="3", roles=(USER,), cpu=20, per_mib=4)
def watches_over_one_key(t):
    """Tens of thousands of ranges around one key, which is written many times."""
    ranges, puts = 40_000, 256
    connection = t.open(window=1 << 24, connection_window=1 << 26)
    connection.read(0.2)
    watch(connection, [text(1, b"one%07d" % n) + text(2, b"onf") for n in range(ranges)])
    t.begin()
    other = t.open(window=1 << 20, connection_window=1 << 26)
    streams = [other.stream() for _ in range(puts)]
    other.send(b"".join(other.call(wire.PUT, wire.put_of(b"one%07d" % ranges, b"x"), stream) for stream in streams))
    assert other.read(60, until=bounds.ends(streams[-1])), f"no answer: {other.closed}"
    time.sleep(2)
    return f"{ranges} ranges, {puts} puts"


@attack(items="13", roles=(USER,), cpu=8, per_mib=4)
def chosen_watch_ids(t):
    """Watches with the ids that the server would choose next, then one whose id it chooses; cancelled, and again."""
    connection = t.open(window=1 << 24, connection_window=1 << 26)
    connection.read(0.2)
    ids = 40_000
    t.begin()
    watch(connection, [text(1, b"id") + number(7, n) for n in range(1, ids + 1)] + [text(1, b"id")] * 2)
    for _ in range(20):
        stream = connection.stream()
        connection.send(connection.headers(wire.WATCH, stream))
        connection.data(stream, message(text(1, text(1, b"id"))))
        connection.send(frame(h2.DATA, h2.END_STREAM, stream, b""))
    return f"{ids} ids"
