#!/usr/bin/env bash
# Fetches what the metrics trial needs: Debian's Prometheus with promtool, jsonnet, and etcd's mixin.
#
# They are kept outside the tree, like the peers, so a second call costs nothing. Nothing is installed on the system:
# the package is only unpacked, so that no Prometheus of its own starts. The one line on stdout is the directory.
set -euo pipefail

jsonnet=${JSONNET_VERSION:-0.21.0}
etcd=${ETCD_VERSION:-3.7.1}
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
home=$cache/metrics-tools-1

say() { printf 'metrics-tools: %s\n' "$*" >&2; }

mkdir -p "$home/bin"
exec 9>"$home/lock"
flock 9

if [[ ! -x $home/bin/promtool ]]; then
  say "fetching Debian's prometheus"
  work=$(mktemp -d)
  (
    cd "$work"
    apt-get download -qq prometheus 2>/dev/null || { apt-get update -qq && apt-get download -qq prometheus; } 2>/dev/null
    dpkg -x prometheus_*.deb .
  ) >&2 || { say "apt-get download prometheus failed: this needs a Debian-like system with package lists"; exit 1; }
  install "$work"/usr/bin/prometheus "$work"/usr/bin/promtool "$home/bin"
  rm -rf "$work"
fi
if [[ ! -x $home/bin/jsonnet ]]; then
  command -v go >/dev/null || { say "go is needed to build jsonnet"; exit 1; }
  say "building jsonnet $jsonnet"
  GOBIN=$home/bin go install "github.com/google/go-jsonnet/cmd/jsonnet@v$jsonnet" >&2
fi
if [[ ! -e $home/mixin-$etcd/mixin.libsonnet ]]; then
  say "fetching etcd's mixin"
  module=$(cd / && go mod download -json "go.etcd.io/etcd/v3@v$etcd" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  cp -r --no-preserve=mode "$module/contrib/mixin" "$home/mixin-$etcd"
fi
echo "$home"
