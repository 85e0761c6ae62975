#!/usr/bin/env bash
# Builds kine, the second server that Vetch is compared with: etcd's API on SQLite. etcd comes from scripts/peers.sh.
#
# It is built from its published Go module and kept outside the tree, one directory per version; a second call
# costs nothing. The only line on stdout is the path of the binary. A C compiler is needed for SQLite.
set -euo pipefail

version=${KINE_VERSION:-0.14.16}
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
home=$cache/kine-$version

say() { printf 'kine: %s\n' "$*" >&2; }

mkdir -p "$cache"
exec 9>"$cache/kine-$version.lock"
flock 9
if [[ -e $home/complete ]]; then
  echo "$home/kine"
  exit 0
fi
command -v go >/dev/null || { say "go is needed to build kine $version"; exit 1; }
command -v cc >/dev/null || { say "a C compiler is needed for SQLite"; exit 1; }

# A wrapper module, so that the replace lines of kine's own module are not in the way.
rm -rf "$home"
mkdir -p "$home/module"
cd "$home/module"
go mod init vetch.invalid/kine 2>/dev/null
say "resolving kine $version"
go get "github.com/k3s-io/kine@v$version" 2>"$home/resolve.log" || { cat "$home/resolve.log" >&2; exit 1; }
say "building"
CGO_ENABLED=1 go build -trimpath -o "$home/kine" github.com/k3s-io/kine 2>"$home/build.log" ||
  { cat "$home/build.log" >&2; exit 1; }
touch "$home/complete"
say "done in ${SECONDS}s"
echo "$home/kine"
