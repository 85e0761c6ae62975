#!/usr/bin/env bash
# Compares Vetch with etcd 3.7.1 and, where it can take part, with kine on SQLite: run.sh quick|full [group...]
#
# Each group of rows leaves its results in bench/results/quick or bench/results/full and is skipped if they are there, so
# a run can be interrupted and continued; --again before the groups repeats them. In the end docs/benchmarks.md is
# written from the full results, or bench/results/quick/benchmarks.md from the quick ones.
#
# All servers are single, sync every write, and keep their data below $BENCH_DATA (default: a temporary directory here), so
# on one file system. With two processors or more the client is pinned to the first and the server to the second. full takes
# about an hour and needs a quiet machine, 8 GiB of memory and 10 GB of disk; quick shows that everything works, nothing else.
set -euo pipefail

cd "$(dirname "$0")/../.."
mode=${1:-}
[[ $mode == quick || $mode == full ]] || { sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 2; }
shift
again=
[[ ${1:-} == --again ]] && { again=yes; shift; }

all=(machine cas ordinary offered read watch lease large interference kube)
groups=("$@")
((${#groups[@]})) || groups=("${all[@]}")

results=$PWD/bench/results/$mode
data=${BENCH_DATA:-$PWD/bench/results/data}
mkdir -p "$results" "$data"

vetch=${VETCH_BIN:-}
if [[ -z $vetch ]]; then
  cargo build --release -p vetch
  vetch=${CARGO_TARGET_DIR:-$PWD/target}/release/vetch
fi
commit=$(git describe --always --dirty 2>/dev/null || true)
etcd=${ETCD_BIN:-$(scripts/peers.sh)/etcd}
kine=${KINE_BIN:-$(bench/compare/peers.sh)}

flags='--data-dir {data} --listen-client-urls {client} --advertise-client-urls {client} --listen-peer-urls {peer}'
flags+=' --initial-advertise-peer-urls {peer} --initial-cluster default={peer} --log-level error'
flags+=' --quota-backend-bytes 8589934592'
on_etcd="etcd=$etcd $flags"
on_vetch="vetch=$vetch $flags"
# SQLite in WAL mode syncs every transaction if told so.
database='sqlite://{data}/state.db?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate&_synchronous=FULL'
on_kine="kine=sh -c 'mkdir -p {data} && exec $kine --listen-address {client} --metrics-bind-address 0 --endpoint \"$database\"'"

pin=()
(($(nproc) >= 2)) && pin=(--pin 0,1)

if [[ $mode == full ]]; then
  rounds=5 seconds=3s long=15s calm=8s disturbed=8s warm=1s million=1000000 pages=3s leases=100000 ttl=45 nodes=500 most=40000 pods=3 probe=12s watchers=1000
else
  rounds=1 seconds=1s long=1s calm=2s disturbed=1s warm=300ms million=20000 pages=1s leases=300 ttl=5 nodes=20 most=40 pods=3 probe=2s watchers=50
fi

say() { printf '== %s\n' "$*" >&2; }

# measure NAME TARGET... -- WORKLOAD...: one comparison, unless it is there already.
measure() {
  local name=$1 targets=()
  shift
  while [[ $1 != -- ]]; do targets+=(--target "$1"); shift; done
  shift
  local file=$results/$name.json
  [[ -e $file && -z $again ]] && { say "$name is there already"; return; }
  say "$name"
  local begun=$SECONDS
  # A target that fails is told in the results; only a run without results ends the script.
  "$vetch" bench compare --rounds "$rounds" --json "$file.part" "${targets[@]}" \
    -- "$@" --data-root "$data" --quiet "${pin[@]}" >"$results/$name.txt" 2>"$results/$name.log" || true
  [[ -s $file.part ]] || { tail -n 5 "$results/$name.log" >&2; return 1; }
  mv "$file.part" "$file"
  echo "$commit" >"$results/$name.commit"
  say "$name took $((SECONDS - begun)) s"
}

both=("$on_etcd" "$on_vetch")
three=("$on_etcd" "$on_vetch" "$on_kine")
timed=(--duration "$seconds" --warmup "$warm")

group_machine() {
  [[ -e $results/machine.json && -z $again ]] && return
  "$vetch" bench machine --dir "$data" --json "$results/machine.json" >"$results/machine.txt"
}
group_cas() {
  for size in 400 2048; do
    measure "cas-$size" "${three[@]}" -- cas --create --clients 1,64,512 --value-size "$size" "${timed[@]}"
  done
}
# The same by an ordinary gRPC client, which is what programs have.
group_ordinary() {
  measure ordinary-cas "${both[@]}" -- cas --client tonic --create --clients 64 --value-size 400 "${timed[@]}"
  measure ordinary-read "${both[@]}" -- read --client tonic --create --clients 64 --value-size 400 "${timed[@]}"
}
# Half of the most that etcd was measured to do, for long enough that checkpoints fall into it.
group_offered() {
  [[ -e $results/cas-400.json ]] || group_cas
  local rate
  rate=$(python3 bench/compare/report.py half "$results/cas-400.json")
  measure offered "${both[@]}" -- cas --rate "$rate" --value-size 400 --duration "$long" --warmup "$warm"
}
# And calls that read nothing: what is left when the store has nothing to do.
group_read() {
  measure read "${three[@]}" -- read --create --clients 64,512 --value-size 400 "${timed[@]}"
  measure call "${both[@]}" -- read --serializable --absent --clients 64,512 --keys 1000 "${timed[@]}"
}
# 500 writes a second to 1,000 watchers are more events than etcd delivers with one processor; 50 are not.
group_watch() {
  local many=$watchers few=$((watchers / 50)) streams name rate
  for streams in "$few" "$many"; do
    name=watch-$([[ $streams == "$many" ]] && echo many || echo few)
    measure "$name" "${both[@]}" -- watch --watchers "$watchers" --streams "$streams" --writers 16 "${timed[@]}"
    for rate in 50 500; do
      measure "$name-$rate" "${both[@]}" -- watch --watchers "$watchers" --streams "$streams" --rate "$rate" "${timed[@]}"
    done
  done
}
group_lease() {
  measure keepalive "${both[@]}" -- keepalive --clients 64 --leases 1000 "${timed[@]}"
  measure expiry "${both[@]}" -- expiry --leases "$leases" --ttl "$ttl"
}
# Pages of few keys beside pages of many.
group_large() {
  measure pages "${both[@]}" -- pages --clients 1 --keys $((million / 100)) --value-size 1024 "${timed[@]}"
  measure large "${both[@]}" -- restart --keys "$million" --value-size 1024 --lists "$pages" --warmup 500ms
}
# The third target takes a checkpoint every second, which it would otherwise do after 32 MiB of writes or five minutes.
group_interference() {
  measure interference "${both[@]}" "checkpoints=${on_vetch#*=} --checkpoint-interval 1s" -- \
    interference --keys $((million / 10)) --value-size 1024 --rate 500 --duration "$disturbed" --warmup "$warm"
}
# A restart of an API server holds everything up for a moment. In a time as short as this that alone decides about the 99th percentile,
# so the largest cluster is also searched for without.
group_kube() {
  measure kube-calm "${both[@]}" -- kube --search --nodes "$((nodes * 4))" --most-nodes "$most" --pods-per-node "$pods" \
    --duration "$calm" --warmup 1s --precision 0.25 --restarts 0 --compaction 5s
  measure kube "${both[@]}" -- kube --search --nodes "$nodes" --most-nodes "$most" --pods-per-node "$pods" \
    --duration "$probe" --warmup 1s --precision 0.25
}

for group in "${groups[@]}"; do
  declare -F "group_$group" >/dev/null || { echo "no such group: $group (${all[*]})"; exit 2; }
  "group_$group"
done
rm -rf "$data"/vetch-bench-*

page=$results/benchmarks.md
[[ $mode == full ]] && page=docs/benchmarks.md
python3 bench/compare/report.py page "$results" "$mode" "$("$vetch" --version | sed -n 2p)" "$("$etcd" --version | head -n1)" "$(basename "$(dirname "$kine")")" >"$page.part"
mv "$page.part" "$page"
say "$page is written, ${SECONDS} s in all"
