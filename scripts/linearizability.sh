#!/usr/bin/env bash
# Judges published histories, whose verdicts are known, with the checker's classical search: linearizability.sh
#
# The histories are those that the crate porcupine-rs carries: 102 that Jepsen recorded of an early etcd, and six of a
# key-value store. They are fetched once through cargo and kept outside the tree.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
version=0.3.0
home=$cache/porcupine-rs-$version

fetch() {
  printf 'linearizability: fetching porcupine-rs %s\n' "$version"
  rm -rf "$home"
  mkdir -p "$home/fetch/src"
  printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\nporcupine-rs = "=%s"\n' \
    "$version" >"$home/fetch/Cargo.toml"
  touch "$home/fetch/src/lib.rs"
  local manifest
  manifest=$(cargo metadata --format-version 1 --manifest-path "$home/fetch/Cargo.toml" 2>/dev/null |
    python3 -c 'import json,sys; print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"]=="porcupine-rs"))')
  cp -r "$(dirname "$manifest")/test_data" "$home/histories"
  touch "$home/complete"
}

[[ -e $home/complete ]] || fetch
cd "$root"
VETCH_PUBLISHED_HISTORIES=$home/histories cargo test --quiet -p vetch-check --test published "$@" -- --include-ignored
