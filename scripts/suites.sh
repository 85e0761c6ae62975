#!/usr/bin/env bash
# Runs published clients' own test suites against a server: suites.sh [etcd|vetch] [--tls] [suite...]
#
#   etcd-client   the Rust crate's integration tests
#   aetcd         the Python package's tests (gRPC, asyncio)
#   etcd3gw       the Python package's tests (JSON gateway)
#   names         our own: certificates whose common name is a user's, by etcdctl, on etcd and on the server; needs --tls
#
# With --tls the server speaks nothing but TLS and demands client certificates. None of the suites can be told to, so they
# reach it over scripts/tls-bridge.py.
#
# Each suite is the published source package, unchanged, and gets a fresh server on localhost:2379 inside a network
# namespace of its own, because that address is written into the suites. What a suite needs is fetched and built
# once and kept outside the tree. VETCH_BIN names the vetch binary; target/fast/vetch is the default.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
kind=${1:-vetch}
shift || true
tls=false
[[ ${1:-} == --tls ]] && tls=true && shift
suites=("$@")
((${#suites[@]})) || suites=(etcd-client aetcd etcd3gw)
((${#})) || { $tls && suites+=(names); }

say() { printf 'suites: %s\n' "$*"; }

# Nothing is left out but what the suites skip by themselves: cases that need a cluster of several members.
# Those of etcd-client about authentication are run apart, because they want a root user and tokens that die soon. aetcd's
# about snapshots calls `etcdctl snapshot status`, which is etcdutl's since 3.6; `old_etcdctl` makes a command that knows both.

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

# A directory with an etcdctl that still has `snapshot status`.
old_etcdctl() {
  local peers=$1 dir=$2
  mkdir -p "$dir"
  printf '#!/bin/sh\ncase "$*" in *"snapshot status "*) for file; do :; done; exec %q -w json snapshot status "$file" ;; esac\nexec %q "$@"\n' \
    "$peers/etcdutl" "$peers/etcdctl" >"$dir/etcdctl"
  chmod +x "$dir/etcdctl"
}

# An authority, the server's certificate, and a client's for each name; "-" for one without a common name.
certificates() { # directory, names
  local dir=$1 name subject
  shift
  mkdir -p "$dir"
  local new=(openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2)
  "${new[@]}" -x509 -subj "/CN=authority" -keyout "$dir/ca.key" -out "$dir/ca.crt" 2>/dev/null
  for name in server "$@"; do
    subject=/CN=$name
    [[ $name == - ]] && subject=/O=suites
    "${new[@]}" -subj "$subject" -keyout "$dir/$name.key" -out "$dir/$name.csr" 2>/dev/null
    openssl x509 -req -in "$dir/$name.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -days 2 -out "$dir/$name.crt" \
      -extfile <(printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n') 2>/dev/null
  done
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

# Runs a command inside a fresh network namespace, beside a fresh server with the flags in server_flags: on port 2379, or with
# --tls on port 2378, and a bridge to it on port 2379.
server_flags=()
beside_server() {
  local scratch
  scratch=$(mktemp -d)
  local status=0 url=http://localhost:2379 secure=()
  if $tls; then
    url=https://localhost:2378
    certificates "$scratch/pki" -
    secure=(--cert-file "$scratch/pki/server.crt" --key-file "$scratch/pki/server.key" --client-cert-auth
      --trusted-ca-file "$scratch/pki/ca.crt")
  fi
  unshare $( ((EUID == 0)) || echo --map-root-user) --net bash -c '
    set -u
    scratch=$1 server=$2 flags=$3 url=$4 bridge=$5
    shift 5
    ip link set lo up
    "$server" --data-dir "$scratch/data" --listen-client-urls $url --advertise-client-urls $url $flags >"$scratch/log" 2>&1 &
    pid=$!
    bridged=
    if [[ $url == https:* ]]; then
      "$bridge" 2379 2378 "$scratch/pki/ca.crt" "$scratch/pki/-.crt" "$scratch/pki/-.key" &
      bridged=$!
    fi
    for _ in $(seq 300); do
      grep -q "ready to serve client requests" "$scratch/log" && break
      kill -0 $pid 2>/dev/null || break
      sleep 0.1
    done
    for _ in $(seq 100); do (exec 3<>/dev/tcp/localhost/2379) 2>/dev/null && break; sleep 0.1; done
    status=0
    "$@" || status=$?
    kill $pid $bridged 2>/dev/null
    for _ in $(seq 100); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
    kill -9 $pid 2>/dev/null
    exit $status
  ' beside "$scratch" "$server" "${server_flags[*]-} ${secure[*]-}" "$url" "$root/scripts/tls-bridge.py" "$@" || status=$?
  ((status == 0)) || { say "the server's last words:"; tail -n 5 "$scratch/log" | cut -c1-300; }
  rm -rf "$scratch"
  return $status
}

run_etcd_client() {
  cd "$etcd_client/source"
  CARGO_TARGET_DIR=$etcd_client/target beside_server timeout 300 cargo test --offline --quiet --test client --test namespace \
    -- --test-threads 4 --skip test_auth || return
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
  local shim status=0
  shim=$(mktemp -d)
  old_etcdctl "$("$root/scripts/peers.sh")" "$shim"
  PATH=$shim:$PATH TEST_ETCD_HTTP_URL=http://localhost:2379 beside_server timeout 300 \
    ../venv/bin/python -m pytest -q --no-cov -p no:cacheprovider tests || status=$?
  rm -rf "$shim"
  return $status
}

run_etcd3gw() {
  cd "$cache/etcd3gw-2.7.0/etcd3gw-2.7.0"
  TOOZ_TEST_ETCD_PORT=2379 beside_server timeout 300 ../venv/bin/python -m pytest -q -p no:cacheprovider etcd3gw/tests
}

# Who may do what by the name in a certificate, with and without a token beside it, and on the gateway: every answer of a
# conversation, as etcdctl and curl tell it. It must be the same on etcd.
converse() { # etcdctl, directory of certificates
  local etcdctl=$1 pki=$2 who
  by() {
    local who=$1
    shift
    echo "--- $who: $*"
    "$etcdctl" --endpoints https://localhost:2378 --cacert "$pki/ca.crt" --cert "$pki/$who.crt" --key "$pki/$who.key" \
      --command-timeout 20s "$@" 2>&1 | sed -E 's/^\{.*"error":"([^"]*)".*/\1/'
  }
  by root user add root:secret
  by root user add alice --no-password
  by root user add bob:pass
  by root user grant-role root root
  by root role add keys
  by root role grant-permission keys readwrite a b
  by root user grant-role alice keys
  by - put a/before one
  by root auth enable
  for who in root alice bob mallory -; do
    by $who put a/1 "$who"
    by $who put c "$who"
    by $who get a --prefix
    by $who user list
    by $who compact 2
    by $who lease grant 100 -w fields | grep -v ID
    # A token counts more than a certificate.
    by $who --user bob:pass get a/1
    by $who --user root:secret get c
    by $who --user root:wrong get c
    by $who --user alice:pass get a/1
    # On the gateway, a certificate is nobody.
    echo "--- $who on the gateway"
    curl -s --http1.1 --cacert "$pki/ca.crt" --cert "$pki/$who.crt" --key "$pki/$who.key" https://localhost:2378/v3/kv/range -d '{"key":"YS8x"}' |
      sed -E 's/"(cluster_id|member_id|raft_term)":"[0-9]*"//g'
    echo
  done
  by root user delete alice
  by alice get a/1
  by root auth disable
  by - get a --prefix
}
export -f converse

run_names() {
  local peers names
  peers=$("$root/scripts/peers.sh")
  names=$(mktemp -d)
  certificates "$names/pki" root alice bob mallory -
  local which answers=() flags=(--bcrypt-cost=4 --cert-file "$names/pki/server.crt" --key-file "$names/pki/server.key" --client-cert-auth
    --trusted-ca-file "$names/pki/ca.crt")
  for which in "$peers/etcd" "$server"; do
    answers+=("$names/${#answers[@]}")
    unshare $( ((EUID == 0)) || echo --map-root-user) --net bash -c '
      ip link set lo up
      server=$1 data=$2 out=$3 etcdctl=$4 pki=$5
      shift 5
      "$server" --data-dir "$data" --listen-client-urls https://localhost:2378 --advertise-client-urls https://localhost:2378 "$@" >"$data.log" 2>&1 &
      pid=$!
      for _ in $(seq 300); do grep -q "ready to serve client requests" "$data.log" && break; sleep 0.1; done
      converse "$etcdctl" "$pki" >"$out"
      kill $pid
      wait $pid 2>/dev/null
    ' names "$which" "$names/data-${#answers[@]}" "${answers[-1]}" "$peers/etcdctl" "$names/pki" "${flags[@]}"
  done
  local status=0
  diff "${answers[@]}" || status=1
  say "names: $(grep -c ^--- "${answers[1]}") answers compared, $(grep -c denied "${answers[1]}") of them refusals"
  (($(grep -c denied "${answers[1]}") > 5)) || status=1
  rm -rf "$names"
  return $status
}

need unshare util-linux
need ip iproute2
need python3 python3
if $tls; then need openssl openssl; need curl curl; fi
server=$(server_binary)
[[ -x $server ]] || { say "$server does not exist"; exit 1; }
failed=0
for suite in "${suites[@]}"; do
  case $suite in
    etcd-client) prepare_etcd_client ;;
    aetcd) prepare_python aetcd 1.0.0 pytest==9.0.3 pytest-asyncio==1.3.0 pytest-mock==3.15.1 pytest-cov==7.1.0 ;;
    etcd3gw) prepare_python etcd3gw 2.7.0 pytest==9.0.3 oslotest==6.0.0 ;;
    names) $tls || { say "names needs --tls"; exit 2; } ;;
    *) say "unknown suite $suite"; exit 2 ;;
  esac
  begun=$SECONDS
  over=$($tls && echo ", over TLS with client certificates" || true)
  say "$suite on $kind$over"
  if (case $suite in etcd-client) run_etcd_client ;; aetcd) run_aetcd ;; etcd3gw) run_etcd3gw ;; names) run_names ;; esac); then
    say "$suite passed on $kind ($((SECONDS - begun))s)"
  else
    say "$suite FAILED on $kind ($((SECONDS - begun))s)"
    failed=$((failed + 1))
  fi
done
exit $((failed > 0))
