#!/usr/bin/env bash
# Trials with etcd's own Go client, clientv3 3.7.1:
#
#   run.sh cancel [vetch|etcd] [-calls 1000000] [-seed 7] [-tls] ...   calls cancelled at random beside traffic that is not
#   run.sh delay [-rounds 20] [-report] ...                            watches beside large reads, on etcd and Vetch by turns
#
# Each prints what its options are with -help. VETCH_BIN names the vetch binary; target/fast/vetch is the default. The
# programs are built outside the tree; Go's cache makes the second time cheap.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
home=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}/clientv3
vetch=${VETCH_BIN:-${CARGO_TARGET_DIR:-$root/target}/fast/vetch}

say() { printf 'clientv3: %s\n' "$*" >&2; }

command -v go >/dev/null || { say "go is needed: install Go 1.26 or later"; exit 1; }
trial=${1:-}
shift || true
case $trial in
  cancel)
    kind=vetch
    case ${1:-} in vetch | etcd) kind=$1; shift ;; esac
    case $kind in
      vetch) arguments=(-binary "$vetch") ;;
      etcd) arguments=(-binary "${ETCD_BIN:-$("$root/scripts/peers.sh")/etcd}") ;;
    esac
    ;;
  delay) arguments=(-vetch "$vetch" -etcd "${ETCD_BIN:-$("$root/scripts/peers.sh")/etcd}") ;;
  *) say "which trial: cancel or delay?"; exit 2 ;;
esac
mkdir -p "$home"
(cd "$here" && go build -trimpath -buildvcs=false -o "$home/$trial" "./$trial")
exec "$home/$trial" "${arguments[@]}" "$@"
