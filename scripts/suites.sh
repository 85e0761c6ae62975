#!/usr/bin/env bash
# Runs published clients' own test suites against a server: suites.sh [etcd|vetch] [suite...]
#
#   etcd-client   the Rust crate's integration tests
#   aetcd         the Python package's tests (gRPC, asyncio)
#   etcd3gw       the Python package's tests (JSON gateway)
#
# Each suite is the published source package, unchanged, and gets a fresh server on localhost:2379 inside a network
# namespace of its own, because that address is written into the suites. What a suite needs is fetched and built
# once and kept outside the tree. VETCH_BIN names the vetch binary; target/fast/vetch is the default.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
kind=${1:-vetch}
shift || true
suites=("$@")
((${#suites[@]})) || suites=(etcd-client aetcd etcd3gw)

say() { printf 'suites: %s\n' "$*"; }

# Cases that are not run, each with its reason. They are matched as substrings of the test's name.
#   etcd-client's snapshot test waits for snapshots in etcd's format;
#   aetcd's snapshot test calls `etcdctl snapshot status`, which etcdctl no longer has since 3.6.
# Those of etcd-client about authentication are run apart, because they want a root user and tokens that die soon.
waiting_etcd_client=(test_auth)
waiting_aetcd=(test_snapshot)
if [[ $kind == vetch ]]; then
  waiting_etcd_client+=(test_snapshot)
fi

server_binary() {
  case $kind in
    etcd) echo "$("$root/scripts/peers.sh")/etcd" ;;
    vetch) echo "${VETCH_BIN:-${CARGO_TARGET_DIR:-$root/target}/fast/vetch}" ;;
    *) say "unknown server $kind"; exit 2 ;;
  esac
}

# --- what the suites need ---------------------------------------------------------------------------------------

install() { # Debian package
  say "installing $1"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >/dev/null 2>&1 ||
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >/dev/null; }
}

need() { # command, Debian package
  command -v "$1" >/dev/null || install "$2"
}

prepare_etcd_client() {
  local version=0.21.1
  etcd_client=$cache/etcd-client-$version
  [[ -e $etcd_client/complete ]] && return
  # The crate compiles its protobuf files with protoc.
  need protoc protobuf-compiler
  say "fetching etcd-client $version"
  rm -rf "$etcd_client"
  mkdir -p "$etcd_client/fetch/src"
  printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\netcd-client = "=%s"\n' \
    "$version" >"$etcd_client/fetch/Cargo.toml"
  touch "$etcd_client/fetch/src/lib.rs"
  local manifest
  manifest=$(cargo metadata --format-version 1 --manifest-path "$etcd_client/fetch/Cargo.toml" 2>/dev/null |
    python3 -c 'import json,sys; print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"]=="etcd-client"))')
  cp -r "$(dirname "$manifest")" "$etcd_client/source"
  chmod -R u+w "$etcd_client/source"
  say "building etcd-client's tests"
  (cd "$etcd_client/source" && CARGO_TARGET_DIR=$etcd_client/target cargo test --no-run --quiet --test client --test namespace)
  touch "$etcd_client/complete"
}

prepare_python() { # package, version, further packages
  local name=$1 version=$2
  shift 2
  local home=$cache/$name-$version
  [[ -e $home/complete ]] && return
  say "fetching $name $version"
  rm -rf "$home"
  mkdir -p "$home"
  python3 -m venv "$home/venv" 2>/dev/null ||
    { rm -rf "$home/venv"; install python3-venv; python3 -m venv "$home/venv"; }
  "$home/venv/bin/pip" install -q --disable-pip-version-check "$name==$version" "$@"
  "$home/venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary "$name" -d "$home" "$name==$version"
  tar -xzf "$home/$name-$version.tar.gz" -C "$home"
  touch "$home/complete"
}

# --- running ----------------------------------------------------------------------------------------------------

# Runs a command inside a fresh network namespace, beside a fresh server on port 2379 with the flags in server_flags.
server_flags=()
beside_server() {
  local scratch
  scratch=$(mktemp -d)
  local status=0
  unshare $( ((EUID == 0)) || echo --map-root-user) --net bash -c '
    set -u
    scratch=$1 server=$2 flags=$3
    shift 3
    ip link set lo up
    "$server" --data-dir "$scratch/data" --listen-client-urls http://localhost:2379 \
      --advertise-client-urls http://localhost:2379 $flags >"$scratch/log" 2>&1 &
    pid=$!
    for _ in $(seq 300); do
      grep -q "ready to serve client requests" "$scratch/log" && break
      kill -0 $pid 2>/dev/null || break
      sleep 0.1
    done
    status=0
    "$@" || status=$?
    kill $pid 2>/dev/null
    for _ in $(seq 100); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
    kill -9 $pid 2>/dev/null
    exit $status
  ' beside "$scratch" "$server" "${server_flags[*]-}" "$@" || status=$?
  ((status == 0)) || { say "the server's last words:"; tail -n 5 "$scratch/log" | cut -c1-300; }
  rm -rf "$scratch"
  return $status
}

run_etcd_client() {
  cd "$etcd_client/source"
  local skips=()
  for name in "${waiting_etcd_client[@]}"; do skips+=(--skip "$name"); done
  CARGO_TARGET_DIR=$etcd_client/target beside_server timeout 300 cargo test --offline --quiet --test client --test namespace \
    -- --test-threads 4 "${skips[@]}" || return
  # Ignored by default because they need 3.7, which is what we speak.
  CARGO_TARGET_DIR=$etcd_client/target beside_server timeout 120 cargo test --offline --quiet --test client \
    -- --ignored test_get_stream || return
  # As the crate's own continuous integration prepares a server.
  local server_flags=(--auth-token-ttl=2) etcdctl
  etcdctl=$("$root/scripts/peers.sh")/etcdctl
  CARGO_TARGET_DIR=$etcd_client/target beside_server timeout 300 bash -c '
    "$0" user add --new-user-password=rootpwd root >/dev/null && "$0" user grant-role root root >/dev/null &&
      cargo test --offline --quiet --test client -- --test-threads 1 test_auth' "$etcdctl"
}

run_aetcd() {
  cd "$cache/aetcd-1.0.0/aetcd-1.0.0"
  local filter
  filter=$(printf ' and not %s' "${waiting_aetcd[@]}")
  PATH=$("$root/scripts/peers.sh"):$PATH TEST_ETCD_HTTP_URL=http://localhost:2379 beside_server timeout 300 \
    ../venv/bin/python -m pytest -q --no-cov -p no:cacheprovider tests -k "${filter# and }"
}

run_etcd3gw() {
  cd "$cache/etcd3gw-2.7.0/etcd3gw-2.7.0"
  TOOZ_TEST_ETCD_PORT=2379 beside_server timeout 300 ../venv/bin/python -m pytest -q -p no:cacheprovider etcd3gw/tests
}

need unshare util-linux
need ip iproute2
need python3 python3
server=$(server_binary)
[[ -x $server ]] || { say "$server does not exist"; exit 1; }
failed=0
for suite in "${suites[@]}"; do
  case $suite in
    etcd-client) prepare_etcd_client ;;
    aetcd) prepare_python aetcd 1.0.0 pytest==9.0.3 pytest-asyncio==1.3.0 pytest-mock==3.15.1 pytest-cov==7.1.0 ;;
    etcd3gw) prepare_python etcd3gw 2.7.0 pytest==9.0.3 oslotest==6.0.0 ;;
    *) say "unknown suite $suite"; exit 2 ;;
  esac
  begun=$SECONDS
  say "$suite on $kind"
  if (case $suite in etcd-client) run_etcd_client ;; aetcd) run_aetcd ;; etcd3gw) run_etcd3gw ;; esac); then
    say "$suite passed on $kind ($((SECONDS - begun))s)"
  else
    say "$suite FAILED on $kind ($((SECONDS - begun))s)"
    failed=$((failed + 1))
  fi
done
exit $((failed > 0))
