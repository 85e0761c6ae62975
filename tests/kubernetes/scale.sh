#!/usr/bin/env bash
# Runs thousands of nodes and tens of thousands of pods on vetch and on etcd and sets them side by side:
#
#   tests/kubernetes/scale.sh [--nodes 5000] [--pods 50000] [--rounds 1] [--stores vetch,etcd] [--out DIR] [...]
#
# --help lists all options. Each run of a store leaves a JSON file in DIR, and table.md is made of all that lie there.
# The vetch is VETCH_BIN, or target/release/vetch, which is built if it is not there. On two processors the full size
# takes about 14 minutes for each store and 8 GiB of memory; nothing else should run meanwhile.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

binaries=$("$here/build.sh" kube-apiserver kube-controller-manager kube-scheduler kwok)
etcd=$("$root/scripts/peers.sh")/etcd
vetch=${VETCH_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/vetch}
if [[ ! -x $vetch && -z ${VETCH_BIN:-} ]]; then
  (cd "$root" && cargo build --release -p vetch)
fi
[[ -x $vetch ]] || { echo "scale: $vetch does not exist" >&2; exit 1; }

program=$(mktemp -d)
trap 'rm -rf "$program"' EXIT
(cd "$here" && go build -o "$program/scale" ./scale)
"$program/scale" --binaries "$binaries" --etcd "$etcd" --vetch "$(realpath "$vetch")" "$@"
