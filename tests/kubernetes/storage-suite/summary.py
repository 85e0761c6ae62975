"""Counts the results in the output of `go test -json`, and shows what the failed tests said.

Fails if a test failed, or if none ran: an empty run proves nothing.
"""

import json
import re
import statistics
import sys
from collections import Counter, defaultdict

SHOWN_LINES = 40


def main(path):
    results, elapsed, output = {}, {}, defaultdict(list)
    for line in open(path, encoding="utf-8"):
        if not line.startswith("{"):
            print(line, end="")
            continue
        event = json.loads(line)
        name = (event.get("Package", event.get("ImportPath", "")).rsplit("/", 1)[-1], event.get("Test"))
        if event["Action"] in ("output", "build-output"):
            output[name].append(event["Output"])
        elif event["Action"] in ("pass", "fail", "skip"):
            if name[1]:
                results[name] = event["Action"]
            else:
                elapsed[name[0]] = event.get("Elapsed", 0)
                if event["Action"] == "fail":
                    output[name].append("the package failed\n")
                    results[name] = "fail"

    for name in sorted((n for n, result in results.items() if result != "pass"), key=str):
        print(f"--- {results[name]}: {name[0]} {name[1] or ''}")
        if results[name] == "fail":
            print("".join(output[name][-SHOWN_LINES:]), end="")

    for package, seconds in elapsed.items():
        tests = {test: result for (owner, test), result in results.items() if owner == package and test}
        print(f"{package}: {seconds:.0f}s")
        print("  tests:   ", counts(result for test, result in tests.items() if "/" not in test))
        print("  subtests:", counts(result for test, result in tests.items() if "/" in test))
    starts = [float(ms) for lines in output.values() for ms in re.findall(r"server ready after ([\d.]+) ms", "".join(lines))]
    if starts:
        print(f"{len(starts)} servers, ready after {statistics.median(starts):.0f} ms (median), {max(starts):.0f} ms (slowest)")
    return 0 if results and "fail" not in results.values() else 1


def counts(results):
    count = Counter(results)
    return ", ".join(f"{count[kind]} {kind}" for kind in ("pass", "fail", "skip"))


sys.exit(main(sys.argv[1]))
