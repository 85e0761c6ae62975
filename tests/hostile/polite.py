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
        self.calls = []  # when each began, and what it took
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

    def percentile(self, begun, ended, share=0.99):
        """Milliseconds; with the number of calls that were made in that time."""
        took = []
        for at, length in list(self.calls):
            # A call that takes long keeps others from being made, which would have waited as well.
            while begun <= at <= ended and length > 0:
                took.append(length)
                at, length = at + 1 / RATE, length - 1 / RATE
        took.sort()
        if not took:
            return float("inf"), 0
        return took[min(len(took) - 1, int(len(took) * share))] * 1000, len(took)

    def stop(self):
        self.process.terminate()
        self.process.join()


def serve(server, token, pipe):
    """The loop of the client. Its connection has to last, and every call to succeed."""
    try:
        connection = wire.Connection(server, token=token)
        n, batch, reported = 0, [], time.monotonic()
        while True:
            begun = time.monotonic()
            if n % 2:
                connection.unary(wire.RANGE, wire.range_of(b"polite"), 60)
            else:
                connection.unary(wire.PUT, wire.put_of(b"polite", b"%d" % n), 60)
            n += 1
            now = time.monotonic()
            batch.append((begun, now - begun))
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
