#!/usr/bin/env bash
# Plays scenarios on a control plane of Kubernetes whose store is Vetch: run.sh [--store vetch|etcd] [--fast] [scenario...]
#
#   --store etcd   the same on etcd, which tests the scenarios themselves
#   --fast         the subset that belongs to every change
#   --storm 25s    kill the store about so often during all scenarios
#   --tls          between API servers and store, with certificates on both sides
#   --aborts 10m   how long clients change their minds in the scenario of that name
#   --rounds 5     play all so many times on the same cluster
#   --members 3    a store of several servers, of which the one that writes is killed; Vetch's journal is then on three
#                  NATS servers
#   --lose recent  the store loses what it was told last (or all) when it is killed; what looks for it must fail
#   --list         what there is; --help shows the other options
#
# Everything runs on loopback, as processes. What is needed is built once and kept outside the tree (build.sh). VETCH_BIN names
# the vetch binary; target/fast/vetch is the default. Logs of a failed run are kept, and of any run if KEEP is set.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
kind=vetch
members=1
commands=(kube-apiserver kube-controller-manager kube-scheduler kubectl kwok)
kubelets=(kubemark)
arguments=("$@")
for ((n = 0; n < ${#arguments[@]}; n++)); do
  case ${arguments[n]} in
    --store=*) kind=${arguments[n]#*=} ;;
    --store) kind=${arguments[n + 1]:-} ;;
    --members=*) members=${arguments[n]#*=} ;;
    --members) members=${arguments[n + 1]:-} ;;
    --fast) kubelets=() ;;
  esac
done

case $kind in
  vetch) store=${VETCH_BIN:-${CARGO_TARGET_DIR:-$root/target}/fast/vetch} ;;
  etcd) store=$("$root/scripts/peers.sh")/etcd ;;
  *) echo "run.sh: unknown store $kind" >&2; exit 2 ;;
esac
[[ -x $store ]] || { echo "run.sh: $store does not exist; build it (cargo build --profile fast) or set VETCH_BIN" >&2; exit 1; }
journal=()
[[ $kind == vetch && $members != 1 ]] && journal=(-journal-binary "$("$root/scripts/nats.sh")/nats-server")
binaries=$("$here/build.sh" "${commands[@]}" "${kubelets[@]}")
mkdir -p "$cache/trials"
# The same flags as build.sh, so that most packages are compiled already.
(cd "$here" && go build -trimpath -buildvcs=false -o "$cache/trials/scenarios" ./scenarios)
exec "$cache/trials/scenarios" -binaries "$binaries" -store-binary "$(realpath "$store")" "${journal[@]}" "$@"
