#!/usr/bin/env bash
# Builds the S3-compatible server that backups are tried against: versitygw, which checks real signatures.
#
# It is built from its published Go module and kept outside the tree, one directory per version, so a second call
# costs nothing. The last line of the output, and the only one on stdout, is the path of the binary. Two calls at
# once are safe: the second waits for the first.
set -euo pipefail

version=${VERSITYGW_VERSION:-1.8.0}
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
home=$cache/versitygw-$version

say() { printf 's3: %s\n' "$*" >&2; }

mkdir -p "$cache"
exec 9>"$cache/versitygw-$version.lock"
flock 9

if [[ ! -e $home/complete ]]; then
  command -v go >/dev/null ||
    { say "go is needed to build versitygw $version: install Go 1.21 or later (it fetches the version it needs)"; exit 1; }
  rm -rf "$home"
  mkdir -p "$home/bin"
  say "building versitygw $version"
  GOBIN=$home/bin go install -trimpath "github.com/versity/versitygw/cmd/versitygw@v$version" 2>"$home/build.log" ||
    { cat "$home/build.log" >&2; exit 1; }
  touch "$home/complete"
  say "done in ${SECONDS}s"
fi
echo "$home/bin/versitygw"
