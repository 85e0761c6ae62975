#!/usr/bin/env bash
# Builds the peers that Vetch is compared with: etcd, etcdctl, etcdutl and etcd's benchmark tool.
#
# They are built from their published Go modules and kept outside the tree, one directory per version, so a
# second call costs nothing. The last line of the output, and the only one on stdout, is the directory that
# holds the binaries. Two calls at once are safe: the second waits for the first.
set -euo pipefail

version=${ETCD_VERSION:-3.7.1}
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
home=$cache/etcd-$version

say() { printf 'peers: %s\n' "$*" >&2; }

mkdir -p "$cache"
exec 9>"$cache/etcd-$version.lock"
flock 9

if [[ -e $home/complete ]]; then
  echo "$home/bin"
  exit 0
fi
if ! command -v go >/dev/null; then
  say "go is needed to build etcd $version: install Go 1.21 or later (it fetches the version etcd asks for)"
  exit 1
fi

# Every etcd module carries local `replace` lines, which `go install module@version` refuses. A wrapper module
# that merely requires them has no such lines.
work=$home/module
rm -rf "$home"
mkdir -p "$work" "$home/bin"
cd "$work"
say "resolving etcd $version"
go mod init vetch.invalid/peers 2>/dev/null
go get "go.etcd.io/etcd/server/v3@v$version" "go.etcd.io/etcd/etcdctl/v3@v$version" \
  "go.etcd.io/etcd/etcdutl/v3@v$version" "go.etcd.io/etcd/v3@v$version" 2>"$home/resolve.log" ||
  { cat "$home/resolve.log" >&2; exit 1; }
build() {
  say "building $1"
  go build -trimpath -o "$home/bin/$1" "$2"
}
build etcd go.etcd.io/etcd/server/v3
build etcdctl go.etcd.io/etcd/etcdctl/v3
build etcdutl go.etcd.io/etcd/etcdutl/v3
build benchmark go.etcd.io/etcd/v3/tools/benchmark
"$home/bin/etcd" --version | head -n1 >&2
touch "$home/complete"
say "done in ${SECONDS}s"
echo "$home/bin"
