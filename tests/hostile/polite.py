"""A polite client in a process of its own: small puts and gets at a modest rate, on one connection."""

import multiprocessing
import sys
import threading
import time

import wire

RATE = 150  # calls a second


class Polite:
    """Starts the client and collects how long each of its calls took."""

    def __init__(self, server, token):
        self.calls = []  # of each: when it began, what it took, whether it was a put
        self.problem = None
        ours, theirs = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(target=serve, args=(server, token, theirs), daemon=True)
        self.process.start()
        theirs.close()
        threading.Thread(target=self._collect, args=(ours,), daemon=True).start()

    def _collect(self, pipe):
        try:
            while True:
                batch = pipe.recv()
                if isinstance(batch, str):
                    self.problem = batch
                    return
                self.calls += batch
        except (EOFError, OSError):
            self.problem = self.problem or "it ended"

    def percentile(self, begun, ended):
        """The p99 in milliseconds, with the number of calls that were made in that time."""
        return p99(self.latencies(begun, ended))

    def latencies(self, begun, ended, puts=True):
        """In seconds, of the calls that were made in that time; of gets only, if puts do not count."""
        took = []
        for at, length, is_put in list(self.calls):
            # A call that takes long keeps others from being made, which would have waited as well.
            while begun <= at <= ended and length > 0 and (puts or not is_put):
                took.append(length)
                at, length = at + 1 / RATE, length - 1 / RATE
        return took

    def longest(self, begun, ended):
        """The longest put and the longest get in milliseconds: only a put waits for the disk."""
        calls = [(is_put, took) for at, took, is_put in list(self.calls) if begun <= at <= ended]
        longest = [max((took for is_put, took in calls if is_put == kind), default=0) for kind in (True, False)]
        return "longest put %.0f and get %.0f ms" % tuple(took * 1000 for took in longest)

    def stop(self):
        self.process.terminate()
        self.process.join()


def p99(latencies):
    """In milliseconds, with the number of samples."""
    if not latencies:
        return float("inf"), 0
    return sorted(latencies)[min(len(latencies) - 1, int(len(latencies) * 0.99))] * 1000, len(latencies)


def serve(server, token, pipe):
    """The loop of the client. Its connection has to last, and every call to succeed."""
    try:
        connection = wire.Connection(server, token=token)
        n, batch, reported = 0, [], time.monotonic()
        while True:
            begun, is_put = time.monotonic(), n % 2 == 0
            if is_put:
                answer = connection.unary(wire.PUT, wire.put_of(b"polite", b"%d" % n), 60)
            else:
                answer = connection.unary(wire.RANGE, wire.range_of(b"polite"), 60)
            # One that is refused ends well, too, and has no message.
            assert answer, "a call was refused"
            n += 1
            now = time.monotonic()
            batch.append((begun, now - begun, is_put))
            if now - reported > 0.05:
                pipe.send(batch)
                batch, reported = [], now
            time.sleep(max(0.0, 1 / RATE - (now - begun)))
    except (AssertionError, OSError) as problem:
        try:
            pipe.send(f"the polite client failed: {problem!r}"[:300])
        except OSError:
            pass
        sys.exit(0)
