#!/usr/bin/env python3
"""Compares clusters: three Vetch servers on three NATS servers with three etcd servers, all on this machine.

    bench/compare/cluster.py [--rounds 5] [--seconds 3] [--page docs/benchmarks-cluster.md]

Everything syncs before it acknowledges (NATS with sync_interval: always). In every round each cluster is started afresh, measured by
`vetch bench` over all three addresses, and ended; rounds begin in turn with one and the other. Processor time is that of all servers of
a cluster together, NATS included. Nothing is pinned: six servers and the client share what processors there are.

VETCH_BIN names the vetch binary (default: target/release/vetch, which is built); BENCH_DATA where data lies.
"""
import argparse
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECRET = "benchmark"

# What, the measurement, the number in it, the goal as a ratio to etcd (> at least, < at most).
ROWS = [
    ("CAS/s, 64 clients", "cas", "64 clients: update, rate", ">2", "/s"),
    ("CAS/s, 512 clients", "cas", "512 clients: update, rate", ">2", "/s"),
    ("CPU of all servers for one CAS, 64 clients", "cas", "64 clients: server CPU per request", "", "us"),
    ("CPU of all servers for one CAS, 512 clients", "cas", "512 clients: server CPU per request", "", "us"),
    ("CAS p50 at half of etcd's rate", "offered", "update, p50", "", "ms"),
    ("CAS p99 at half of etcd's rate", "offered", "update, p99", "<1", "ms"),
    ("CPU of all servers for one CAS at that rate", "offered", "server CPU per request", "", "us"),
    ("linearizable reads/s over all servers, 64 clients", "read", "64 clients: linearizable read, rate", ">2", "/s"),
    ("linearizable reads/s over all servers, 512 clients", "read", "512 clients: linearizable read, rate", ">2", "/s"),
    ("CPU of all servers for one read, 512 clients", "read", "512 clients: server CPU per request", "", "us"),
    ("CPU of the leader, 500 writes/s, 10 watchers at other servers", "few", "share of a processor", "", "% of one"),
    ("CPU of the leader, 500 writes/s, 1,000 watchers there", "many", "share of a processor", "", "% of one"),
    ("write to event p99, 1,000 watchers at other servers", "many", "write to event, p99", "", "ms"),
]


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Cluster:
    """Processes with their data in one directory; ended with it."""

    def __init__(self, data):
        self.home = tempfile.mkdtemp(prefix="vetch-bench-", dir=data)
        self.processes = []
        self.clients = [f"http://127.0.0.1:{free_port()}" for _ in range(3)]
        self.peers = [f"http://127.0.0.1:{free_port()}" for _ in range(3)]

    def start(self, name, command):
        log = open(os.path.join(self.home, name + ".log"), "w")
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        log.close()
        self.processes.append(process)
        return process

    def pids(self):
        return ",".join(str(process.pid) for process in self.processes)

    def wait(self, etcdctl):
        """Until every server answers a linearizable read."""
        deadline = time.monotonic() + 120
        for client in self.clients:
            while subprocess.run([etcdctl, "--endpoints", client, "get", "/none"], capture_output=True).returncode != 0:
                if time.monotonic() > deadline:
                    raise SystemExit(f"a cluster does not answer; its logs are in {self.home}")
                time.sleep(0.2)

    def leader(self, etcdctl):
        told = subprocess.run([etcdctl, "--endpoints", ",".join(self.clients), "endpoint", "status", "-w", "json"],
                              capture_output=True, check=True).stdout
        for one in json.loads(told):
            status = one["Status"]
            if status["leader"] == status["header"]["member_id"]:
                return self.clients.index(one["Endpoint"])
        raise SystemExit("nobody leads")

    def end(self):
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
        for process in self.processes:
            process.wait()
        shutil.rmtree(self.home)


class Etcd(Cluster):
    name = "etcd"

    def __init__(self, data, tools):
        super().__init__(data)
        everyone = ",".join(f"s{at}={peer}" for at, peer in enumerate(self.peers))
        self.servers = [self.start(f"etcd-{at}", [
            tools["etcd"], "--name", f"s{at}", "--data-dir", os.path.join(self.home, f"data-{at}"),
            "--listen-client-urls", self.clients[at], "--advertise-client-urls", self.clients[at],
            "--listen-peer-urls", self.peers[at], "--initial-advertise-peer-urls", self.peers[at],
            "--initial-cluster", everyone, "--log-level", "error", "--quota-backend-bytes", str(8 << 30),
        ]) for at in range(3)]


class Vetch(Cluster):
    name = "vetch"

    def __init__(self, data, tools):
        super().__init__(data)
        ports = [free_port() for _ in range(3)]
        routes = [free_port() for _ in range(3)]
        for at in range(3):
            self.start(f"nats-{at}", [tools["nats"], "-c", self.journal(at, ports, routes)])
        logins = os.path.join(self.home, "logins")
        with open(os.open(logins, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(f"app:{SECRET}\nsys:{SECRET}\n")
        self.servers = [self.start(f"vetch-{at}", [
            tools["vetch"], "--name", f"s{at}", "--data-dir", os.path.join(self.home, f"data-{at}"),
            "--journal", ",".join(f"nats://127.0.0.1:{port}" for port in ports), "--journal-login-file", logins,
            "--listen-client-urls", self.clients[at], "--advertise-client-urls", self.clients[at],
            "--listen-peer-urls", self.peers[at], "--initial-advertise-peer-urls", self.peers[at],
            "--initial-cluster", f"s{at}={self.peers[at]}", "--log-level", "error", "--quota-backend-bytes", str(8 << 30),
        ]) for at in range(3)]

    def journal(self, at, ports, routes):
        path = os.path.join(self.home, f"nats-{at}.conf")
        store = os.path.join(self.home, f"nats-{at}")
        others = ", ".join(f"nats-route://127.0.0.1:{port}" for port in routes)
        with open(path, "w") as file:
            file.write(f"""server_name: n{at}
listen: 127.0.0.1:{ports[at]}
max_payload: 8MB
jetstream {{ store_dir: "{store}", sync_interval: always }}
accounts {{
  SYS {{ users: [{{user: sys, password: {SECRET}}}] }}
  APP {{ jetstream: enabled, users: [{{user: app, password: {SECRET}}}] }}
}}
system_account: SYS
cluster {{ name: vetch, listen: 127.0.0.1:{routes[at]}, routes: [{others}] }}
""")
        return path


def bench(vetch, cluster, pids, endpoints, *workload):
    path = os.path.join(cluster.home, "report.json")
    command = [vetch, "bench", *workload, "--endpoints", ",".join(endpoints), "--pid", pids, "--json", path, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not os.path.exists(path):
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    with open(path) as file:
        report = json.load(file)
    os.remove(path)
    found = {}
    for point in report["points"]:
        for one in point["classes"]:
            prefix = f"{point['label']}: {one['name']}"
            if one["errors"] + one["unanswered"]:
                say(f"{cluster.name}, {prefix}: {one['errors']} errors, {one['unanswered']} unanswered")
            found[f"{prefix}, rate"] = one["per_second"]
            for percentile in ("p50", "p99"):
                found[f"{prefix}, {percentile}"] = one["latency"][percentile] / 1000
        for figure in point["figures"]:
            found[f"{point['label']}: {figure['name']}"] = figure["value"]
            if figure["name"] == "server CPU":
                found[f"{point['label']}: share of a processor"] = 100 * figure["value"] / point["seconds"]
    return found


def measure(kind, data, tools, seconds, rate):
    cluster = kind(data, tools)
    try:
        cluster.wait(tools["etcdctl"])
        timed = ["--duration", f"{seconds}s", "--warmup", "1s"]
        vetch, pids, everyone = tools["vetch"], cluster.pids(), cluster.clients
        found = {"cas": bench(vetch, cluster, pids, everyone, "cas", "--clients", "64,512", "--value-size", "400", *timed)}
        if rate is None:
            rate = max(1, round(max(v for n, v in found["cas"].items() if n.endswith("update, rate")) / 2))
        found["offered"] = bench(vetch, cluster, pids, everyone, "cas", "--rate", str(rate), "--value-size", "400", *timed)
        found["read"] = bench(vetch, cluster, pids, everyone, "read", "--clients", "64,512", "--value-size", "400", *timed)
        leader = cluster.leader(tools["etcdctl"])
        writer = str(cluster.servers[leader].pid)
        others = [client for at, client in enumerate(cluster.clients) if at != leader]
        for name, watchers in (("few", 10), ("many", 1000)):
            found[name] = bench(vetch, cluster, writer, others, "watch", "--watchers", str(watchers), "--streams", "10",
                                "--rate", "500", *timed)
        return found, rate
    finally:
        cluster.end()


def pick(found, name):
    """The number of that name, whatever the label of its point if the name has none."""
    if name in found:
        return found[name]
    return next((value for key, value in found.items() if key.split(": ", 1)[-1] == name), None)


def number(value):
    return f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:.3g}"


def spread(values):
    return f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"


def row(rounds, what, group, name, goal, unit):
    values = {kind: [pick(one[kind][group], name) for one in rounds] for kind in ("etcd", "vetch")}
    values = {kind: [value for value in found if value is not None] for kind, found in values.items()}
    if not values["etcd"] or not values["vetch"]:
        return f"| {what} | no answer | | | | |"
    ratios = [v / e for e, v in zip(values["etcd"], values["vetch"]) if e]
    ratio, wanted, met = "", "", ""
    if ratios:
        middle = statistics.median(ratios)
        ratio = f"{middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        if goal:
            limit = float(goal[1:])
            wanted = f"{'>=' if goal[0] == '>' else '<='} {limit:g}x"
            met = "yes" if (middle >= limit if goal[0] == ">" else middle <= limit) else "**no**"
    return f"| {what} [{unit}] | {spread(values['etcd'])} | {spread(values['vetch'])} | {ratio} | {wanted} | {met} |"


def page(rounds, seconds, rate, versions):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    lines = [
        "# Benchmarks of clusters", "",
        "Written by `bench/compare/cluster.py`; do not edit.", "",
        f"* machine: {os.cpu_count()} processors, {memory:.0f} GiB, Linux {platform.release()}; all servers and the client share it",
        f"* versions: {'; '.join(versions)}",
        "* three Vetch servers on three NATS servers (replicas: 3, sync_interval: always), three etcd servers; values of 400 B, all addresses in use",
        f"* {len(rounds)} rounds, each cluster started afresh in each, {seconds} s for every measurement; half of etcd's rate: {rate}/s", "",
        "Medians of the rounds, with least and most; the ratio is the median of the rounds' ratios to etcd.", "",
        "| | three etcd | three Vetch, three NATS | ratio | goal | met |", "|---|---:|---:|---:|---:|---|",
    ]
    lines += [row(rounds, *one) for one in ROWS]
    return "\n".join(lines) + "\n"


def first_line(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0].strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "benchmarks-cluster.md"))
    options = parser.parse_args()
    vetch = os.environ.get("VETCH_BIN")
    if not vetch:
        subprocess.run(["cargo", "build", "--release", "-p", "vetch"], cwd=ROOT, check=True)
        vetch = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "vetch")
    def built(script):
        return subprocess.run([os.path.join(ROOT, "scripts", script)], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    peers, nats = built("peers.sh"), built("nats.sh")
    tools = {"vetch": os.path.abspath(vetch), "etcd": f"{peers}/etcd", "etcdctl": f"{peers}/etcdctl", "nats": f"{nats}/nats-server"}
    data = os.environ.get("BENCH_DATA", os.path.join(ROOT, "bench", "results", "data"))
    os.makedirs(data, exist_ok=True)
    rounds, rate = [], None
    for at in range(options.rounds):
        found = {}
        for kind in (Etcd, Vetch) if at % 2 == 0 else (Vetch, Etcd):
            say(f"round {at + 1} of {options.rounds}: {kind.name}")
            found[kind.name], rate = measure(kind, data, tools, options.seconds, rate)
        rounds.append(found)
        with open(os.path.join(os.path.dirname(data), "cluster.json"), "w") as file:
            json.dump({"rate": rate, "rounds": rounds}, file, indent=1)
    version = subprocess.run([vetch, "--version"], capture_output=True, text=True).stdout.splitlines()
    versions = [version[1].strip() if len(version) > 1 else "Vetch", first_line(tools["etcd"], "--version"), first_line(tools["nats"], "--version")]
    text = page(rounds, options.seconds, rate, versions)
    with open(options.page, "w") as file:
        file.write(text)
    print(text)


if __name__ == "__main__":
    main()
