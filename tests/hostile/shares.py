"""What one client could take from the share of all: calls, places in queues, permits. See measured.py for what each may cost."""

import threading
import time

import h2
import wire
from bounds import ends
from dataset import PREFIX
from h2 import frame
from measured import BY_AN_ORDINARY_USER, BY_USERS, COSTLY, CROSSWISE, PASSWORD, STRANGER, USER, attack
from wire import message, number, text

OBSERVE, LOCK, CAMPAIGN = "/v3electionpb.Election/Observe", "/v3lockpb.Lock/Lock", "/v3electionpb.Election/Campaign"


# --- calls ------------------------------------------------------------------------------------------------------------


@attack(items="2", of=CROSSWISE, cpu=5, per_mib=1)
def calls_of_strangers(t):
    """As many calls begun as there may be in all, on three connections: others may still call."""
    begun = 0
    for _ in range(3):
        connection = t.open()
        for _ in range(260):
            if not connection.try_send(b"".join(connection.headers(wire.RANGE) for _ in range(250))):
                break
            begun += 250
        connection.read()
        if not connection.closed:
            connection.sync(20)
    # The polite client has to be served meanwhile.
    time.sleep(0.5)
    return f"{begun} begun"


def streams(t, connections, calls, path, first=b""):
    """Streaming calls that are begun, with what is sent on each of them, and never ended. Gives how many are open."""
    begun = []
    for _ in range(connections):
        connection = t.open()
        for _ in range(calls // 100):
            batch = b""
            for _ in range(100):
                stream = connection.stream()
                batch += connection.headers(path, stream)
                batch += frame(h2.DATA, 0, stream, first) if first else b""
            if not connection.try_send(batch):
                break
            begun.append(100)
            connection.read()
        if not connection.closed:
            connection.sync(20)
    time.sleep(0.5)
    return f"{sum(begun)} streams begun"


@attack(items="14", of=CROSSWISE, cpu=8, per_mib=6)
def streaming_calls(t):
    """Watch streams on which nothing is watched, which needs no credentials."""
    return streams(t, 3, 40_000, wire.WATCH)


@attack(items="14", of=CROSSWISE, cpu=8, per_mib=6)
def keep_alive_streams(t):
    """Streams for renewals, with half a message on each."""
    return streams(t, 3, 40_000, wire.KEEP_ALIVE, b"\0\0\0\0\x0b\x08")


@attack(items="14", roles=(USER,), schemes=("http",), cpu=8, per_mib=2)
def buffers_of_streams(t):
    """Watch streams that each begin with a message of a megabyte, which means nothing."""
    taken = 0
    for _ in range(4):
        connection = t.open()
        connection.read(0.2)
        for _ in range(100):
            stream = connection.stream()
            connection.send(connection.headers(wire.WATCH, stream))
            # An unknown field.
            body = message(text(99, b"x" * 1_000_000))
            more = connection.data(stream, body)
            taken += more
            if more < len(body):
                break
    time.sleep(0.5)
    return f"{taken >> 20} MiB taken"


# --- queues -----------------------------------------------------------------------------------------------------------


@attack(items="10", roles=(USER,), cpu=8, per_mib=4)
def plain_puts(t):
    """Ten thousand puts at once on each of four connections: others may still write."""
    opened = [t.open(window=1 << 20, connection_window=1 << 28) for _ in range(4)]
    done = []

    def flood(connection):
        last, frames = 0, []
        for _ in range(100):
            batch = b""
            for _ in range(100):
                last = connection.stream()
                batch += connection.call(wire.PUT, wire.put_of(b"flood%d" % (last % 1000), b"x"), last)
            if not connection.try_send(batch):
                return
            frames = connection.read()
        # The last answer may have come with those before it.
        if not any(ends(last)(found) for found in frames):
            frames = connection.read(20, until=ends(last))
        done.append(any(ends(last)(found) for found in frames))

    threads = [threading.Thread(target=flood, args=(connection,)) for connection in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 4, f"a flood of puts was not answered: {done}, {[c.closed for c in opened]}"
    return "40000 puts"


@attack(items="10", roles=(USER,), schemes=("http",), cpu=6, per_mib=4)
def puts_and_compactions(t):
    """Puts, and a compaction of all but the last behind every hundred of them."""
    connection = t.open(window=1 << 20, connection_window=1 << 28)
    rounds, end = 0, time.monotonic() + 1.5
    revision = revision_of(connection.unary(wire.PUT, wire.put_of(b"compacted", b"x")))
    while time.monotonic() < end:
        batch, last = b"", 0
        for n in range(100):
            last = connection.stream()
            batch += connection.call(wire.PUT, wire.put_of(b"compacted%d" % (n % 10), b"x" * 100), last)
        revision += 50
        last = connection.stream()
        connection.send(batch + connection.call(wire.COMPACT, number(1, revision), last))
        assert connection.read(10, until=ends(last)), f"no answer: {connection.closed}"
        rounds += 1
    return f"{rounds} compactions"


def revision_of(answer):
    """That of the header in field 1, whose fields 1 to 3 are numbers."""
    at, found = 2, 0
    while at < 2 + answer[1]:
        field, value, shift, at = answer[at] >> 3, 0, 0, at + 1
        while True:
            byte, at = answer[at], at + 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        found = value if field == 3 else found
    return found


@attack(items="12", roles=(STRANGER,), schemes=("http",), cpu=14, per_mib=40)
def guessed_passwords(t):
    """Guesses of a password that costs as much as by default, on several connections: whoever knows it may log in."""
    guessing = [t.open(window=1 << 20, connection_window=1 << 28) for _ in range(6)]
    for connection in guessing:
        connection.send(b"".join(
            connection.call(wire.AUTHENTICATE, text(1, COSTLY) + text(2, "wrong%d" % n)) for n in range(40)))
    time.sleep(0.2)
    waited = []
    for _ in range(3):
        polite = t.open()
        begun = time.monotonic()
        answer = polite.unary(wire.AUTHENTICATE, text(1, COSTLY) + text(2, PASSWORD), 30)
        waited.append(time.monotonic() - begun)
        assert answer, f"a login with the right password was refused after {waited[-1]:.2f} s"
        polite.close()
    return f"logins took up to {max(waited):.2f} s"


# --- locks and elections ----------------------------------------------------------------------------------------------


@attack(items="6", roles=(USER,), schemes=("http",), cpu=14, per_mib=2)
def long_names(t):
    """Locks, campaigns and observers with names of a megabyte, which wait."""
    taken = 0
    for n, path in enumerate((OBSERVE, LOCK, CAMPAIGN, OBSERVE)):
        connection = t.open(window=1 << 24, connection_window=1 << 24)
        connection.read(0.2)
        for m in range(100):
            # Some names are alike, so that these wait for each other.
            name = b"%d-%d" % (n, m // 20) + b"x" * 1_000_000
            stream = connection.stream()
            connection.send(connection.headers(path, stream))
            body = message(text(1, name))
            more = connection.data(stream, body, end=True)
            taken += more
            if more < len(body):
                break
            connection.read()
    time.sleep(1)
    return f"{taken >> 20} MiB taken"


@attack(items="6, 10", roles=(USER,), schemes=("http",), cpu=10, per_mib=10)
def floods_of_locks(t):
    """Ten thousand locks at once on one connection, each of which is a write first: others may still write."""
    connection = t.open(window=1 << 20, connection_window=1 << 28)
    for first in range(0, 10_000, 100):
        batch = b"".join(connection.call(LOCK, text(1, b"lock%d" % n)) for n in range(first, first + 100))
        if not connection.try_send(batch):
            break
        connection.read()
    time.sleep(1)
    return "10000 locks"


@attack(items="6", of=BY_USERS, large=True, cpu=12, per_mib=20)
def observers_of_everything(t):
    """Elections with a name under which everything is: each observer looks through all keys."""
    connection = t.open(window=1 << 20, connection_window=1 << 28)
    connection.send(b"".join(connection.call(OBSERVE, text(1, PREFIX[:-1])) for _ in range(200)))
    time.sleep(2)
    connection.read()
    connection.close()
    return "200 observers"


@attack(items="6", of=BY_AN_ORDINARY_USER, large=True, cpu=12, per_mib=20)
def leaders_of_everything(t):
    """The same by calls that ask for the leader."""
    connection = t.open(window=1 << 20, connection_window=1 << 28)
    connection.send(b"".join(connection.call("/v3electionpb.Election/Leader", text(1, PREFIX[:-1])) for _ in range(100)))
    time.sleep(2)
    connection.read()
    connection.close()
    return "100 calls"
