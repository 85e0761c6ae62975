#!/usr/bin/env bash
# Runs the tests of Kubernetes' storage layer against a server: storage-suite.sh [vetch|etcd|embedded] [package...]
#
#   etcd3    the store through which kube-apiserver reads, writes and watches (the default)
#   cacher   the watch cache on top of it
#
# The tests are those of the published k8s.io/apiserver module, unchanged, at the version in storage-suite/go.mod.
# A build overlay replaces only the file by which they start etcd, so each test gets a fresh process of the server:
# vetch (VETCH_BIN, or target/fast/vetch), or etcd, which tests the replacement itself. `embedded` replaces nothing
# and is the suite as Kubernetes runs it. RUN selects tests by regular expression. The log stays outside the tree.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
kind=${1:-vetch}
shift || true
packages=("$@")
((${#packages[@]})) || packages=(etcd3)

say() { printf 'storage-suite: %s\n' "$*"; }

command -v go >/dev/null || { say "go is needed: install Go 1.26 or later"; exit 1; }
case $kind in
  vetch) server=${VETCH_BIN:-${CARGO_TARGET_DIR:-$root/target}/fast/vetch} ;;
  etcd) server=$("$root/scripts/peers.sh")/etcd ;;
  embedded) server= ;;
  *) say "unknown server $kind"; exit 2 ;;
esac
[[ -z $server || -x $server ]] || { say "$server does not exist"; exit 1; }

cd "$here/storage-suite"
go mod download k8s.io/apiserver
version=$(go list -m -f '{{.Version}}' k8s.io/apiserver)
published=$(go list -m -f '{{.Dir}}' k8s.io/apiserver)
home=$cache/storage-suite
source=$home/apiserver-$version
replaced=$source/pkg/storage/etcd3/testserver/test_server.go

# Go lets no overlay touch its own store of modules, so the module is copied out of it.
mkdir -p "$home"
exec 9>"$home/lock"
flock 9
if [[ ! -e $source ]]; then
  rm -rf "$source.part"
  cp -r --no-preserve=mode "$published" "$source.part"
  mv "$source.part" "$source"
fi
[[ -e $replaced ]] || { say "$replaced does not exist: this version starts etcd elsewhere"; exit 1; }
cp go.mod go.sum "$home/"
go mod edit -replace "k8s.io/apiserver=$source" "$home/go.mod"

log=$home/$kind.json
arguments=(-modfile="$home/go.mod" -json -count=1 -p=1 -vet=off -timeout=20m)
if [[ $kind != embedded ]]; then
  printf '{"Replace": {"%s": "%s"}}\n' "$replaced" "$PWD/testserver/server.go" >"$home/overlay.json"
  arguments+=(-overlay="$home/overlay.json")
  STORAGE_SUITE_SERVER=$(realpath "$server")
  export STORAGE_SUITE_SERVER
fi
[[ -z ${RUN:-} ]] || arguments+=(-run="$RUN")

say "k8s.io/apiserver $version, ${packages[*]} on $kind"
status=0
go test "${arguments[@]}" "${packages[@]/#/k8s.io/apiserver/pkg/storage/}" >"$log" || status=$?
python3 "$here/storage-suite/summary.py" "$log" || status=$?
say "$([[ $status == 0 ]] && echo passed || echo FAILED) on $kind (${SECONDS}s with the build); log: $log"
exit "$status"
