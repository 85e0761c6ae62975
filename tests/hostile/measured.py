"""Attacks that are measured: memory and processor time of the server, and what a polite client notices.

Attacks come over plain and TLS connections, from a stranger without credentials and from root, who has logged in: all four ways, or two
of them if who it is plays no part. Some come from an ordinary user, whose permissions are checked, and some hit a server with a large
data set: see dataset.py. Authentication is on.
"""

import base64
import os
import subprocess
import threading
import time

import dataset
import wire
from polite import Polite, p99
from server import Server

# What all connections together may hold, watchers included, in MiB, which the server is told, and how much more the process may grow.
MEMORY_BUDGET = 256
MEMORY_MARGIN = 64
# Processor time that an attack may cost: so many seconds, and so many for each MiB that the attacker sent.
CPU_SECONDS = 1.5
CPU_SECONDS_PER_MIB = 0.5
# What the polite client may notice, in ms; and unless times are judged strictly, on machines that have other things to do, how
# much more, at least and as a multiple of what it notices without an attack, and of what a polite client of another server, which
# is not attacked, notices at the same time.
P99 = 50
P99_MARGIN, P99_FACTOR = 1000, 5
# A p99 that is judged strictly is of this many calls: a short attack is made again until there are.
STRICT_CALLS, STRICT_ROUNDS = 400, 12

# USER is root, ORDINARY may use the large data set and nothing else.
STRANGER, USER, ORDINARY = "stranger", "user", "ordinary"
PASSWORD = "a password"
LARGE, LARGE_SIZE = b"large", 300_000
HUGE, HUGE_SIZE = b"huge", 1_000_000
FLAGS = ["--bcrypt-cost=4", "--max-request-bytes=1572864"]
# A user whose password is PASSWORD and takes as long to check as by default: its hash is given, with cost 10.
COSTLY, COSTLY_HASH = "costly", b"$2a$10$abcdefghijklmnopqrstuu3vNumR3RWJ7JJolGiBKkMLEqUfVHJ0C"
# A part of the memory that is judged: what watchers may take beside it.
WATCH_BUDGET = 64

ATTACKS = []


EVERYWHERE = [(scheme, role) for scheme in ("http", "https") for role in (STRANGER, USER)]
# For what comes before anybody is asked who he is.
CROSSWISE = [("http", STRANGER), ("https", USER)]
# For what depends on what is stored.
BY_USERS = [("http", USER), ("http", ORDINARY)]
BY_AN_ORDINARY_USER = [("http", ORDINARY)]


def attack(items="", roles=(STRANGER, USER, ORDINARY), schemes=("http", "https"), of=EVERYWHERE, cpu=CPU_SECONDS,
           per_mib=CPU_SECONDS_PER_MIB, large=False, spoils=False, puts_wait=False):
    """Registers an attack: on which connections and for which roles it is made, and the processor time that it may cost. `large`: it is
    made on the server with the large data set; `spoils`: that is not what it was afterwards, so the next attack gets a new one. `puts_wait`:
    a single request takes so long that puts behind it have to wait for it; only reads are judged."""
    def register(function):
        function.runs = [(scheme, role) for scheme, role in of if scheme in schemes and role in roles]
        function.items, function.cpu, function.per_mib = items, cpu, per_mib
        function.large, function.spoils, function.puts_wait = large, spoils, puts_wait
        ATTACKS.append(function)
        return function
    return register


class Target:
    """The server as one attack sees it. Counts what is sent to it."""

    def __init__(self, server, role, token):
        self.server, self.role, self.token = server, role, token
        self.connections = []
        self.before = 0
        self.begin()

    def begin(self):
        """What was done so far only prepared the attack."""
        self.before = sum(connection.sent for connection in self.connections)
        self.begun, self.cpu = time.monotonic(), cpu_seconds(self.server)

    def open(self, **settings):
        return wire.Connection(self.server, token=self.token, opened=self.connections.append, **settings)

    def raw(self, protocols=("h2",), room=None):
        """A secured socket if need be, for whatever is not HTTP/2. `room` is what the kernel keeps of the answers."""
        socket = Raw(self.server, protocols=protocols, room=room)
        self.connections.append(socket)
        return socket

    def sent(self):
        return sum(connection.sent for connection in self.connections) - self.before

    def close(self):
        for connection in self.connections:
            try:
                connection.close()
            except OSError:
                pass


class Raw:
    """A socket that counts."""

    def __init__(self, server, secure=True, protocols=("h2",), room=None):
        self.socket = wire.connect(server, protocols, room) if secure else server.connect()
        self.socket.settimeout(10)
        self.sent = 0

    def send(self, data):
        self.sent += len(data)
        self.socket.sendall(data)

    def try_send(self, data):
        try:
            self.send(data)
            return True
        except OSError:
            return False

    def close(self):
        self.socket.close()


def cpu_seconds(server):
    with open(f"/proc/{server.process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Peak:
    """The most resident memory while it runs."""

    def __init__(self, server):
        self.server, self.most, self.over = server, server.resident(), False
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        while not self.over:
            try:
                self.most = max(self.most, self.server.resident())
            except (OSError, StopIteration):
                return
            time.sleep(0.02)

    def stop(self):
        self.over = True
        self.thread.join()
        return self.most


def flags(binary):
    """Those of the server. etcd knows no budget."""
    known = subprocess.run([binary, "--help"], capture_output=True, text=True, check=False)
    budget = "--max-client-bytes" in known.stdout + known.stderr
    ours = [f"--max-client-bytes={MEMORY_BUDGET - WATCH_BUDGET << 20}", f"--max-watch-bytes={WATCH_BUDGET << 20}"]
    return FLAGS + (ours if budget else [])


class Control:
    """A server that is not attacked, and its polite client. What other processes and the disk do, both servers feel."""

    def __init__(self, binary):
        self.server = Server(binary, FLAGS)
        self.polite = Polite(self.server, None)

    def stop(self):
        self.polite.stop()
        return self.server.stop()


class Field:
    """A server with users and some large values, and the polite client, for one attack after the other."""

    def __init__(self, binary, scheme, control, large=False):
        self.server, self.control = Server(binary, flags(binary), scheme=scheme), control
        connection = wire.Connection(self.server)
        connection.unary(wire.PUT, wire.put_of(LARGE, b"x" * LARGE_SIZE))
        connection.unary(wire.PUT, wire.put_of(HUGE, b"x" * HUGE_SIZE))
        if large:
            dataset.load(connection)
        self._add_users(connection)
        self.tokens = {STRANGER: None}
        for role, name in ((USER, "root"), (ORDINARY, ORDINARY)):
            answer = connection.unary(wire.AUTHENTICATE, wire.text(1, name) + wire.text(2, PASSWORD))
            self.tokens[role] = field_two(answer)
        connection.close()
        self.polite = Polite(self.server, self.tokens[USER])
        time.sleep(0.3)
        begun = time.monotonic()
        time.sleep(1)
        self.calm, calls = self.polite.percentile(begun, time.monotonic())
        assert calls > 3, f"the polite client made {calls} calls without any attack: {self.polite.problem}"
        self.first = self.server.resident()

    def _add_users(self, connection):
        for name in ("root", ORDINARY):
            connection.unary(wire.AUTH + "UserAdd", wire.text(1, name) + wire.text(2, PASSWORD))
            connection.unary(wire.AUTH + "RoleAdd", wire.text(1, name))
            connection.unary(wire.AUTH + "UserGrantRole", wire.text(1, name) + wire.text(2, name))
        connection.unary(wire.AUTH + "UserAdd", wire.text(1, COSTLY) + wire.text(2, PASSWORD))
        connection.unary(wire.AUTH + "UserChangePassword", wire.text(1, COSTLY) + wire.text(3, base64.b64encode(COSTLY_HASH)))
        everything = wire.number(1, 2) + wire.text(2, dataset.PREFIX) + wire.text(3, dataset.PREFIX_END)
        connection.unary(wire.AUTH + "RoleGrantPermission", wire.text(1, ORDINARY) + wire.text(2, everything))
        connection.unary(wire.AUTH + "AuthEnable", b"")

    def is_worn(self):
        """Whether memory that the allocator has not given back yet would be blamed on the next attack."""
        return self.server.resident() - self.first > MEMORY_MARGIN / 2

    def suffer(self, attack, role, strict):
        """One attack, as often as a strict judgement needs. Gives what was measured, and what is wrong with it."""
        said, wrong, latencies, beside = self._suffer_once(attack, role)
        rounds = 1
        while strict and not wrong and len(latencies) < STRICT_CALLS and rounds < STRICT_ROUNDS:
            again, wrong, more, _ = self._suffer_once(attack, role)
            said, latencies, rounds = f"{said} | {again}", latencies + more, rounds + 1
        found, calls = p99(latencies)
        elsewhere = p99(beside)[0] if beside else 0
        limit = P99 if strict else P99 + max(P99_MARGIN, P99_FACTOR * max(self.calm, elsewhere))
        if calls and found > limit:
            wrong.append(f"the polite client's p99 is {found:.0f} ms, more than {limit:.0f} ms")
        return f"p99 {found:.0f} ms of {calls} calls, elsewhere {elsewhere:.0f} ms; {said}", wrong

    def _suffer_once(self, attack, role):
        target, peak = Target(self.server, role, self.tokens[role]), Peak(self.server)
        wrong, said = [], ""
        try:
            said = attack(target) or ""
        except AssertionError as problem:
            wrong.append(str(problem)[:300])
        except OSError as problem:
            # The server hung up in the middle, which is its right; if it is gone, that is seen below.
            said = f"hung up: {problem}"
        ended = time.monotonic()
        self._await_polite(ended)
        most = peak.stop()
        latencies = self.polite.latencies(target.begun, ended, not attack.puts_wait)
        beside = self.control.polite.latencies(target.begun, ended, not attack.puts_wait)
        sent = target.sent()
        target.close()
        if self.server.process.poll() is not None:
            wrong.append("the server is gone: " + last_words(self.server))
            return f"{said}; sent {sent / 1024:.0f} KiB", wrong, latencies, beside
        cpu, grown = cpu_seconds(self.server) - target.cpu, most - self.first
        wrong += self._judged(attack, grown, cpu, sent)
        return (f"sent {sent / 1024:.0f} KiB; {grown:+.0f} MiB; {cpu:.2f} s of CPU in {ended - target.begun:.1f} s; "
                f"{self.polite.longest(target.begun, ended)}; {said}"), wrong, latencies, beside

    def _await_polite(self, ended, seconds=20):
        """Waits for the answer to a call that the polite client made after the attack."""
        for _ in range(seconds * 50):
            if self.polite.problem or self.server.process.poll() is not None or self.polite.calls and self.polite.calls[-1][0] > ended:
                return
            time.sleep(0.02)

    def _judged(self, attack, grown, cpu, sent):
        wrong = []
        if self.polite.problem:
            wrong.append(self.polite.problem)
        if grown > MEMORY_BUDGET + MEMORY_MARGIN:
            wrong.append(f"memory grew by {grown:.0f} MiB, more than {MEMORY_BUDGET + MEMORY_MARGIN}")
        allowed = attack.cpu + attack.per_mib * sent / (1 << 20)
        if cpu > allowed:
            wrong.append(f"it cost {cpu:.1f} s of CPU, more than {allowed:.1f}")
        return wrong

    def stop(self):
        self.polite.stop()
        return self.server.stop()


def last_words(server):
    lines = [line for line in server.text().splitlines() if "panicked" in line or "overflow" in line or "assert" in line]
    return " | ".join(lines[-2:])[:300] or f"exit code {server.process.returncode}"


def field_two(answer):
    """The string in field 2 of a message whose field 1 is a header."""
    assert answer[0] == 0x0A and answer[1] < 128, answer
    rest = answer[2 + answer[1]:]
    assert rest[0] == 0x12 and rest[1] < 128, rest
    return rest[2:2 + rest[1]].decode()


def run(binary, wanted, strict, say):
    """All attacks, or those that are named. Gives those that the server did not stand."""
    failed, control = [], Control(binary)
    for large in (False, True):
        for scheme in ("http", "https"):
            runs = [(role, attack) for role in (STRANGER, USER, ORDINARY) for attack in ATTACKS
                    if attack.large == large and (scheme, role) in attack.runs and (not wanted or attack.__name__ in wanted)]
            failed += run_on(binary, scheme, control, large, runs, strict, say)
    control.stop()
    return failed


def run_on(binary, scheme, control, large, runs, strict, say):
    """These attacks, by these roles, one after the other on one server as far as that goes."""
    failed, field = [], None
    for role, attack in runs:
        if field is not None and field.is_worn():
            failed += [] if field.stop() else [f"{scheme} end"]
            field = None
        if field is None:
            begun = time.monotonic()
            field = Field(binary, scheme, control, large)
            say(f"{scheme}: the polite client's p99 without an attack is {field.calm:.0f} ms; {field.first:.0f} MiB; "
                f"ready after {time.monotonic() - begun:.1f} s")
        said, wrong = field.suffer(attack, role, strict)
        name = f"{scheme} {role} {attack.__name__}"
        say(f"{name:40} {said}")
        for line in wrong:
            say(f"{name:40} FAILED: {line}")
        if wrong:
            failed.append(name)
        if wrong or attack.spoils:
            field.stop()
            field = None
    if field is not None and not field.stop():
        failed.append(f"{scheme} end")
    return failed
