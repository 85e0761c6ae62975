#!/usr/bin/env bash
# Runs h2spec, the conformance tests of HTTP/2, against a fresh server.
#
# The tool is built from its published Go module and kept outside the tree. VETCH_BIN names the vetch binary;
# target/fast/vetch is the default.
#
# Its requests are for the page /version, which is answered as soon as the headers are there. Many cases send a request,
# then a mistake about it, and wait for the complaint; if the answer overtakes the mistake, there is nothing left to
# complain about. So a case has failed if it does in each of a few runs.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
version=v2.2.1+incompatible
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
home=$cache/h2spec-$version
server=${VETCH_BIN:-${CARGO_TARGET_DIR:-$root/target}/fast/vetch}

say() { printf 'h2spec: %s\n' "$*" >&2; }

mkdir -p "$cache"
exec 9>"$home.lock"
flock 9
if [[ ! -e $home/complete ]]; then
  say "building $version"
  rm -rf "$home"
  mkdir -p "$home"
  GOBIN=$home go install "github.com/summerwind/h2spec/cmd/h2spec@$version" 2>"$home/log" || { cat "$home/log" >&2; exit 1; }
  touch "$home/complete"
fi
flock -u 9

scratch=$(mktemp -d)
pid=
finish() {
  [[ -z $pid ]] || { kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; } || true
  rm -rf "$scratch"
}
trap finish EXIT
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$server" --data-dir "$scratch/data" --listen-client-urls "http://127.0.0.1:$port" \
  --advertise-client-urls "http://127.0.0.1:$port" >"$scratch/log" 2>&1 &
pid=$!
for _ in $(seq 300); do
  grep -q "ready to serve client requests" "$scratch/log" && break
  kill -0 $pid 2>/dev/null || { cat "$scratch/log" >&2; exit 1; }
  sleep 0.1
done
for run in 1 2 3; do
  # It counts failures by itself; what they are is looked at below.
  "$home/h2spec" -h 127.0.0.1 -p "$port" -P /version -o 3 -j "$scratch/$run.xml" >"$scratch/$run.txt" || true
done
python3 - "$scratch"/[1-3].xml <<'PYTHON'
import sys
import xml.etree.ElementTree as xml

# Cases that fail, each with its reason.
KNOWN = {
    # One port speaks both protocols: what is not the preface of HTTP/2 is HTTP/1, and is told off in HTTP/1.
    ("http2/3.5", "Sends invalid connection preface"),
}

failed, count = None, 0
for file in sys.argv[1:]:
    cases = [(case.get("package"), case.get("classname"), case) for case in xml.parse(file).iter("testcase")]
    bad = {(package, name) for package, name, case in cases if case.find("failure") is not None or case.find("error") is not None}
    failed, count = bad if failed is None else failed & bad, len(cases)
for package, name in sorted(failed - KNOWN):
    print(f"h2spec: {package}: {name}: FAILED")
for package, name in sorted(KNOWN - failed):
    print(f"h2spec: {package}: {name}: passes, and should not be in the list of those that do not")
print(f"h2spec: {count} cases, {count - len(failed)} passed, {len(failed & KNOWN)} known not to")
sys.exit(count < 140 or failed != KNOWN)
PYTHON
