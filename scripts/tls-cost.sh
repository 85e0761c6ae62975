#!/usr/bin/env bash
# What TLS costs the server: tls-cost.sh [rounds] [puts]
#
# Two servers, one plain and one that demands client certificates, get the same puts from etcd's benchmark tool, one after the
# other and again, so that whatever else the machine does falls on both. Printed is the processor time of the server for each
# put, as the median of the rounds and the smallest and the largest of them: where these overlap, the difference is noise.
# VETCH_BIN names the binary; target/fast/vetch is the default.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-7} puts=${2:-20000}
server=${VETCH_BIN:-${CARGO_TARGET_DIR:-$root/target}/fast/vetch}
benchmark=$("$root/scripts/peers.sh")/benchmark
scratch=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT

new=(openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2)
"${new[@]}" -x509 -subj /CN=authority -keyout "$scratch/ca.key" -out "$scratch/ca.crt" 2>/dev/null
"${new[@]}" -subj /O=cost -keyout "$scratch/one.key" -out "$scratch/one.csr" 2>/dev/null
openssl x509 -req -in "$scratch/one.csr" -CA "$scratch/ca.crt" -CAkey "$scratch/ca.key" -CAcreateserial -days 2 -out "$scratch/one.crt" \
  -extfile <(printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n') 2>/dev/null

start() { # name, url, flags
  local name=$1 url=$2
  shift 2
  "$server" --data-dir "$scratch/$name" --listen-client-urls "$url" --advertise-client-urls "$url" "$@" >"$scratch/$name.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 300); do
    grep -q "ready to serve client requests" "$scratch/$name.log" && return
    sleep 0.1
  done
  tail -n 5 "$scratch/$name.log"
  exit 1
}
start plain http://127.0.0.1:12379
start tls https://127.0.0.1:12380 --cert-file "$scratch/one.crt" --key-file "$scratch/one.key" --client-cert-auth --trusted-ca-file "$scratch/ca.crt"

ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }
measure() { # name, pid, flags of the benchmark tool
  local name=$1 pid=$2 before
  shift 2
  before=$(ticks "$pid")
  "$benchmark" "$@" --clients 64 --conns 16 put --total "$puts" --key-size 32 --val-size 1024 --key-space-size 10000 >"$scratch/$name.out" 2>&1
  awk -v ticks=$(($(ticks "$pid") - before)) -v hz="$(getconf CLK_TCK)" -v puts="$puts" 'BEGIN { printf "%.1f\n", ticks / hz / puts * 1e6 }' \
    >>"$scratch/$name.us"
}
secure=(--cacert "$scratch/ca.crt" --cert "$scratch/one.crt" --key "$scratch/one.key")
for round in $(seq 0 "$rounds"); do
  measure plain "${pids[0]}" --endpoints http://127.0.0.1:12379
  measure tls "${pids[1]}" --endpoints https://127.0.0.1:12380 "${secure[@]}"
  # The first round warms both up.
  ((round)) || rm "$scratch"/*.us
done
for name in plain tls; do
  sort -n "$scratch/$name.us" | awk -v name=$name '{ us[NR] = $1 } END {
    printf "%-6s %6.1f us of server CPU per put (median of %d; %.1f to %.1f)\n", name, us[int((NR + 1) / 2)], NR, us[1], us[NR] }'
done
