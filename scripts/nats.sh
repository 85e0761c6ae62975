#!/usr/bin/env bash
# Builds nats-server, on which the trials of the replicated journal run.
#
# It is built from its published Go module and kept outside the tree, one directory per version, so a second call
# costs nothing. The last line of the output, and the only one on stdout, is the directory that holds the binary. Two
# calls at once are safe: the second waits for the first.
set -euo pipefail

version=${NATS_VERSION:-2.15.2}
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
home=$cache/nats-$version

say() { printf 'nats: %s\n' "$*" >&2; }

mkdir -p "$cache"
exec 9>"$cache/nats-$version.lock"
flock 9

if [[ -e $home/complete ]]; then
  echo "$home/bin"
  exit 0
fi
if ! command -v go >/dev/null; then
  say "go is needed to build nats-server $version: install Go 1.21 or later (it fetches the version it asks for)"
  exit 1
fi

# A wrapper module: the server's own one need not be writable, and its version is fixed by the wrapper's go.mod.
work=$home/module
rm -rf "$home"
mkdir -p "$work" "$home/bin"
cd "$work"
say "resolving nats-server $version"
go mod init vetch.invalid/nats 2>/dev/null
go get "github.com/nats-io/nats-server/v2@v$version" 2>"$home/resolve.log" ||
  { cat "$home/resolve.log" >&2; exit 1; }
say "building nats-server $version"
go build -trimpath -o "$home/bin/nats-server" github.com/nats-io/nats-server/v2
"$home/bin/nats-server" --version >&2
touch "$home/complete"
say "done in ${SECONDS}s"
echo "$home/bin"
