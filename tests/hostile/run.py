#!/usr/bin/env python3
"""Attacks on a running server: what it must survive, in bounded memory, while others are served.

tests/hostile/run.py [ATTACK...]; the server's binary is in VETCH_BIN. Only Python's own library is needed.
"""

import os
import sys
import time

sys.dont_write_bytecode = True

from attacks import PLAIN, TLS  # noqa: E402
from server import Server  # noqa: E402


def attacked(scheme, attacks, wanted):
    """All attacks on one server. Gives the names of those it did not stand."""
    failed = []
    server = Server(os.environ["VETCH_BIN"], scheme=scheme)
    first = server.resident()
    for attack in attacks:
        name = f"{scheme} {attack.__name__}"
        if wanted and attack.__name__ not in wanted:
            continue
        start = time.monotonic()
        try:
            said = attack(server)
            print(f"hostile: {name:26} {said} ({time.monotonic() - start:.1f}s)", flush=True)
        except (AssertionError, OSError) as problem:
            failed.append(name)
            print(f"hostile: {name:26} FAILED: {problem!r}", flush=True)
            if server.process.poll() is not None:
                server = Server(os.environ["VETCH_BIN"], scheme=scheme)
    last = server.resident()
    if not server.stop():
        failed.append(f"{scheme} end")
    print(f"hostile: {scheme}: memory {first:.0f} MiB at first, {last:.0f} MiB at last", flush=True)
    return failed


def main():
    failed = attacked("http", PLAIN, sys.argv[1:]) + attacked("https", TLS, sys.argv[1:])
    if failed:
        sys.exit(f"hostile: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
