"""Ports for servers under test, for trials that run beside others."""
import itertools
import os
import socket

# Above are the ports of trials that begin at a fixed one: clientv3 at 23000, robustness at 24400, Kubernetes at 26000.
FIRST, LAST = 13_000, 23_000
BLOCK = 100

_block = FIRST + os.getpid() * BLOCK % (LAST - FIRST)
_next = itertools.cycle(range(_block, _block + BLOCK))


def free_port():
    """A port that nobody listens on: below those that the kernel gives to outgoing connections, which could take it between
    this look and the server's start, and from a block that belongs to this process."""
    for port in itertools.islice(_next, BLOCK):
        with socket.socket() as probe:
            try:
                probe.bind(('127.0.0.1', port))
                return port
            except OSError:
                continue
    raise RuntimeError(f'no free port from {_block} on')
