#!/usr/bin/env python3
"""Writes the page of benchmarks from the results that run.sh left: report.py page DIRECTORY MODE VERSION..., and
report.py half FILE: half of the most updates a second that etcd was measured to do."""
import json
import os
import platform
import statistics
import sys

# Quiet and busy are of different servers here: the quiet one takes no checkpoint meanwhile. See checkpoints().
CHECKPOINTS = ("the same with a checkpoint every second as well", "interference", "checkpoints", "=2")

# What, the file, the row in it, the goal as a ratio to etcd (> at least, < at most).
ROWS = [
    ("CAS/s, 1 client, 400 B", "cas-400", "1 clients: update, rate", ">1.3"),
    ("CAS/s, 64 clients, 400 B", "cas-400", "64 clients: update, rate", ">3"),
    ("CAS/s, 512 clients, 400 B", "cas-400", "512 clients: update, rate", ">5"),
    ("CAS/s, 1 client, 2 KiB", "cas-2048", "1 clients: update, rate", ">1.3"),
    ("CAS/s, 64 clients, 2 KiB", "cas-2048", "64 clients: update, rate", ">3"),
    ("CAS/s, 512 clients, 2 KiB", "cas-2048", "512 clients: update, rate", ">5"),
    ("server CPU of one CAS, 1 client, 400 B", "cas-400", "1 clients: server CPU per request", "<0.25"),
    ("server CPU of one CAS, 64 clients, 400 B", "cas-400", "64 clients: server CPU per request", "<0.25"),
    ("server CPU of one CAS, 512 clients, 400 B", "cas-400", "512 clients: server CPU per request", "<0.25"),
    ("the same by an ordinary gRPC client: CAS/s, 64 clients", "ordinary-cas", "64 clients: update, rate", ""),
    ("the same by an ordinary gRPC client: server CPU of one CAS", "ordinary-cas", "64 clients: server CPU per request", ""),
    ("CAS p50 at half of etcd's maximum", "offered", "*: update, p50", ""),
    ("CAS p99 at half of etcd's maximum", "offered", "*: update, p99", "<0.4"),
    ("server CPU of one CAS at half of etcd's maximum", "offered", "*: server CPU per request", "<0.25"),
    ("*floor*: calls/s that read nothing, 64 clients", "call", "64 clients: serializable read of nothing, rate", ""),
    ("*floor*: calls/s that read nothing, 512 clients", "call", "512 clients: serializable read of nothing, rate", ""),
    ("*floor*: server CPU of such a call, 512 clients", "call", "512 clients: server CPU per request", ""),
    ("linearizable reads/s, 64 clients", "read", "64 clients: linearizable read, rate", ">3"),
    ("linearizable reads/s, 512 clients", "read", "512 clients: linearizable read, rate", ">3"),
    ("the same by an ordinary gRPC client: reads/s, 64 clients", "ordinary-read", "64 clients: linearizable read, rate", ""),
    ("list of 10,000 keys of 1 KiB", "large", "10000 keys*: list, data", ">3"),
    ("list of 10,000: memory, peak less start", "large", "10000 keys*: server memory, peak less start", "=64"),
    ("RangeStream of all keys", "large", "*: list of everything by stream", ">3"),
    ("RangeStream of all: memory, peak less before", "large", "*: memory during that list, peak less before", "=64"),
    ("page of 500 of 10,000 keys, p50", "pages", "*: page in between, p50", ""),
    ("page of 500 of 1,000,000, first tenth, p50", "large", "pages*: page of the first tenth, p50", ""),
    ("page of 500 of 1,000,000, last tenth, p50", "large", "pages*: page of the last tenth, p50", ""),
    ("memory after restart and one full list", "large", "*: memory after restart and list", "<0.6"),
    ("restart to first read", "large", "*: restart to first read", "<0.2"),
    ("events per server CPU second, few streams", "watch-few", "*: events per server CPU second", ">4"),
    ("events per server CPU second, a stream each", "watch-many", "*: events per server CPU second", ">4"),
    ("write to event p99 at 50 writes/s, few streams", "watch-few-50", "*: write to event, p99", ""),
    ("write to event p99 at 50 writes/s, a stream each", "watch-many-50", "*: write to event, p99", ""),
    ("write to event p99 at 500 writes/s, few streams", "watch-few-500", "*: write to event, p99", "<0.1"),
    ("write to event p99 at 500 writes/s, a stream each", "watch-many-500", "*: write to event, p99", "<0.1"),
    ("write p99.9, quiet", "interference", "quiet: update, p99.9", ""),
    ("write p99.9 while all is listed and compacted", "interference", "while*: update, p99.9", ""),
    ("times that all was listed meanwhile", "interference", "while*: lists of everything meanwhile", ""),
    ("write p99.9 while all is listed and compacted / quiet", "interference", "*: p99.9 busy / quiet", "=2"),
    CHECKPOINTS,
    ("lease renewals/s", "keepalive", "*: renewal, rate", ">3"),
    ("expiry of all leases: last due to last gone", "expiry", "*: last due to last gone", "<0.2"),
    ("expiry of all leases: first due to last gone", "expiry", "*: first due to last gone", ""),
    ("largest cluster that is fast enough, nodes", "kube-calm", "largest*: nodes", ">5"),
    ("the same with an API server that restarts every 12 s, nodes", "kube", "largest*: nodes", ">5"),
]


def load(path):
    with open(path) as file:
        return json.load(file)


def find(results, name):
    """The row with that name; a * stands for anything before the colon."""
    for row in results["rows"]:
        if "*" not in name and row["name"] == name:
            return row
        if "*" in name:
            begin, end = name.split("*", 1)
            if row["name"].startswith(begin) and row["name"].endswith(end):
                return row
    return None


def checkpoints(results):
    """Busy of the server that takes checkpoints all the time, over quiet of the one that takes none, by rounds."""
    p999 = {}
    for one in results["reports"]:
        for label, point in zip(("quiet", "busy"), one["report"]["points"]):
            p999[one["round"], one["target"], label] = point["classes"][0]["latency"]["p999"]
    rounds = sorted({key[0] for key in p999})
    ratios = [p999[r, "checkpoints", "busy"] / p999[r, "vetch", "quiet"] for r in rounds
              if (r, "checkpoints", "busy") in p999 and (r, "vetch", "quiet") in p999]
    if not ratios:
        return None
    cell = {"target": "vetch", "median": statistics.median(ratios), "least": min(ratios), "most": max(ratios), "ratio": None}
    return {"unit": "", "cells": [cell]}


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:.3g}"


def verdict(meets, spread):
    """By the median; it is said if some round would have been judged otherwise."""
    met, rounds = meets(spread["median"]), {meets(spread["least"]), meets(spread["most"])}
    text = "yes" if met else "**no**"
    return text if rounds == {met} else f"{text}, but not in every round" if met else f"{text}, but in some rounds"


def judge(goal, vetch):
    """The goal in words, and whether it was met."""
    if not goal or vetch is None:
        return "", ""
    kind, limit = goal[0], float(goal[1:])
    if kind == "=":
        return f"<= {limit:g}, absolute", verdict(lambda x: x <= limit, vetch)
    ratio = (vetch["ratio"] or {}).get("median")
    if ratio is None:
        return f"{'>=' if kind == '>' else '<='} {limit:g}x", ""
    meets = (lambda x: x >= limit) if kind == ">" else (lambda x: x <= limit)
    return f"{'>=' if kind == '>' else '<='} {limit:g}x", verdict(meets, vetch["ratio"])


def row(directory, what, file, name, goal):
    path = os.path.join(directory, file + ".json")
    if not os.path.exists(path):
        return f"| {what} | not measured | | | | | |"
    results = load(path)
    found = checkpoints(results) if name == CHECKPOINTS[2] else find(results, name)
    if found is None:
        return f"| {what} | no answer | | | | | |"
    cells = {cell["target"]: cell for cell in found["cells"]}
    text = {}
    for target in ("etcd", "vetch", "kine"):
        cell = cells.get(target)
        spread = f" ({number(cell['least'])} to {number(cell['most'])})" if cell else ""
        text[target] = number(cell["median"]) + spread if cell else ""
    vetch = cells.get("vetch")
    ratio = (vetch or {}).get("ratio")
    ratio = f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})" if ratio else ""
    wanted, met = judge(goal, vetch)
    unit = f" [{found['unit']}]" if found["unit"] else ""
    return f"| {what}{unit} | {text['etcd']} | {text['vetch']} | {ratio} | {wanted} | {met} | {text['kine']} |"


def machine(directory):
    path = os.path.join(directory, "machine.json")
    if not os.path.exists(path):
        return []
    point = load(path)["points"][0]
    # It belongs to no server, so it stands in front.
    return [f"| *machine*: {f['name']}: {number(f['value'])} {f['unit']} | | | | | | |" for f in point["figures"]]


def busy_clients(directory):
    """How busy the load generator was. Where it was all the time, a server could have done more."""
    lines = []
    for what, file, clients in (("CAS", "cas-400", 512), ("linearizable reads", "read", 512), ("calls that read nothing", "call", 512)):
        path = os.path.join(directory, file + ".json")
        if not os.path.exists(path):
            continue
        results = load(path)
        rate = next((r for r in results["rows"] if r["name"].startswith(f"{clients} clients: ") and r["name"].endswith(", rate")), None)
        cost = find(results, f"{clients} clients: client CPU per request")
        if rate is None or cost is None:
            continue
        costs = {cell["target"]: cell["median"] for cell in cost["cells"]}
        share = {cell["target"]: cell["median"] * costs.get(cell["target"], 0) / 1e4 for cell in rate["cells"]}
        lines.append(f"| {what}, {clients} clients [%] | {number(share.get('etcd'))} | {number(share.get('vetch'))} |")
    return lines


def commits(directory):
    """What each comparison measured, by its name: a run that was continued may have several."""
    found = {}
    for name in sorted(os.listdir(directory)):
        if name.endswith(".commit"):
            with open(os.path.join(directory, name)) as file:
                found[name.removesuffix(".commit")] = file.read().strip()
    return found


def commands(directory):
    names = sorted(name[:-5] for name in os.listdir(directory) if name.endswith(".json") and name != "machine.json")
    measured = commits(directory)
    of_many = len(set(measured.values())) > 1
    lines, failures = [], []
    for name in names:
        results = load(os.path.join(directory, name + ".json"))
        ran = " ".join(w for w in results["command"].split() if not w.startswith("/"))
        of = f" ({measured.get(name, 'unknown')})" if of_many else ""
        lines.append(f"* `{name}`{of}: {results['rounds']} rounds of `vetch bench {ran.replace(' --data-root', '')}`")
        failures += [f"* `{name}`: {failure.splitlines()[0][:200]}" for failure in results["failures"]]
        failures += errors(name, results)
    return lines, failures


def errors(name, results):
    told = []
    for one in results["reports"]:
        for point in one["report"]["points"]:
            wrong = sum(c["errors"] + c["unanswered"] for c in point["classes"])
            unsent = point.get("unsent") or 0
            where = f"* `{name}`, round {one['round'] + 1}, {one['target']}, {point['label']}"
            if wrong:
                told.append(f"{where}: {wrong} errors")
            # A search ends with a cluster that is too large.
            if unsent and name != "kube":
                told.append(f"{where}: {unsent} requests that were due could not be sent")
    return told


def facts(directory):
    path = os.path.join(directory, "cas-400.json")
    if not os.path.exists(path):
        return "client and pinning: not measured"
    report = load(path)["reports"][0]["report"]
    return f"client: {report['client']}; {report['pinned']}"


def page(directory, mode, versions):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print("# Benchmarks\n")
    print("Written by `bench/compare/run.sh`; do not edit. How it measures is in [bench.md](bench.md).\n")
    if mode != "full":
        print("**A quick run: it shows that everything works. Its figures mean nothing.**\n")
    print(f"* machine: {os.cpu_count()} processors, {memory:.0f} GiB, Linux {platform.release()}")
    measured = sorted(set(commits(directory).values()))
    if measured:
        versions = [f"{versions[0]} ({', '.join(measured)})", *versions[1:]]
    print(f"* versions: {'; '.join(v for v in versions if v)}")
    print(f"* {facts(directory)}")
    print("* single servers, all syncing every write, data on the same file system, started afresh in every round\n")
    print("Medians of the rounds, with least and most; the ratio is the median of the rounds' ratios to etcd.\n")
    print("| | etcd | Vetch | ratio | goal | met | kine |\n|---|---:|---:|---:|---:|---|---:|")
    for line in machine(directory):
        print(line)
    for what, file, name, goal in ROWS:
        print(row(directory, what, file, name, goal))
    print("\n## How busy the client's processor was\n\n| | etcd | Vetch |\n|---|---:|---:|")
    print("\n".join(busy_clients(directory)))
    notes = os.path.join(os.path.dirname(os.path.abspath(__file__)), "notes.md")
    if mode == "full" and os.path.exists(notes):
        with open(notes) as file:
            print("\n" + file.read().rstrip())
    lines, failures = commands(directory)
    print("\n## Commands\n")
    print("\n".join(lines))
    if failures:
        print("\n## What failed\n")
        print("\n".join(failures))


def half(path):
    rates = [c["median"] for r in load(path)["rows"] if r["name"].endswith("update, rate")
             for c in r["cells"] if c["target"] == "etcd"]
    print(max(1, round(max(rates) / 2)))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "half":
        half(sys.argv[2])
    elif len(sys.argv) > 3 and sys.argv[1] == "page":
        page(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        sys.exit(__doc__)
