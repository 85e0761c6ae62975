#!/usr/bin/env python3
"""Attacks on a running server: what it must survive, in bounded memory, while others are served.

All attacks are functions. Those of attacks.py are in the lists at its end; those that are measured register themselves
(`measured.attack`), in a file for each topic, which is imported below.

tests/hostile/run.py [--strict] [--list] [ATTACK...]; the server's binary is in VETCH_BIN. Only Python's own library is needed.

--strict judges times: for a machine that has nothing else to do.
"""

import argparse
import os
import sys
import time

sys.dont_write_bytecode = True

import bounds  # noqa: E402, F401
import many_keys  # noqa: E402, F401
import measured  # noqa: E402
import shares  # noqa: E402, F401
import watching  # noqa: E402, F401
from attacks import PLAIN, TLS  # noqa: E402
from server import Server  # noqa: E402


def say(line):
    print(f"hostile: {line}", flush=True)


def attacked(scheme, attacks, wanted):
    """All attacks on one server. Gives the names of those it did not stand."""
    attacks = [attack for attack in attacks if not wanted or attack.__name__ in wanted]
    if not attacks:
        return []
    failed = []
    server = Server(os.environ["VETCH_BIN"], scheme=scheme)
    first = server.resident()
    for attack in attacks:
        name = f"{scheme} {attack.__name__}"
        start = time.monotonic()
        try:
            said = attack(server)
            say(f"{name:26} {said} ({time.monotonic() - start:.1f}s)")
        except (AssertionError, OSError) as problem:
            failed.append(name)
            say(f"{name:26} FAILED: {problem!r}")
            if server.process.poll() is not None:
                server = Server(os.environ["VETCH_BIN"], scheme=scheme)
    last = server.resident()
    if not server.stop():
        failed.append(f"{scheme} end")
    say(f"{scheme}: memory {first:.0f} MiB at first, {last:.0f} MiB at last")
    return failed


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--strict", action="store_true", help="judge times as on a machine that has nothing else to do")
    arguments.add_argument("--list", action="store_true", help="only list the attacks")
    arguments.add_argument("attacks", nargs="*", help="all if none is named")
    chosen = arguments.parse_args()
    known = {attack.__name__: attack for attack in [*PLAIN, *TLS, *measured.ATTACKS]}
    if chosen.list:
        for name, attack in known.items():
            print(f"{name:32} {(attack.__doc__ or '').strip().splitlines()[0] if attack.__doc__ else ''}")
        return
    for name in chosen.attacks:
        if name not in known:
            sys.exit(f"hostile: no such attack: {name}")
    failed = attacked("http", PLAIN, chosen.attacks) + attacked("https", TLS, chosen.attacks)
    failed += measured.run(os.environ["VETCH_BIN"], chosen.attacks, chosen.strict, say)
    if failed:
        sys.exit(f"hostile: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
