#!/usr/bin/env bash
# Runs h2spec, the conformance tests of HTTP/2, against a fresh server: scripts/h2spec.sh [h2spec's arguments]
#
# The tool is built from its published Go module and kept outside the tree. VETCH_BIN names the vetch binary;
# target/fast/vetch is the default. The requests it sends are for the page /version.
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
"$home/h2spec" -h 127.0.0.1 -p "$port" -P /version -o 3 "$@"
