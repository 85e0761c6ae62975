#!/usr/bin/env bash
# Follows docs/kubernetes.md as far as that is possible without containers: guides.sh [vetch|etcd]
#
# Files and commands are those that the page shows; certificates and manifests come from the real kubeadm. The commands in
# the manifests are started as they are, with their paths, addresses and ports, in namespaces of their own for mounts and
# network, so nothing of the machine is touched. That needs root. `etcd` follows the page with etcd, which tests the
# trial itself. VETCH_BIN names the vetch binary; target/fast/vetch is the default. The logs of a failed run are kept.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
page=$root/docs/kubernetes.md
kind=${1:-vetch}

# Prepares what is needed, and starts this script once more inside the namespaces.
outside() {
  local peers binaries server made=() place status=0
  peers=$("$root/scripts/peers.sh")
  binaries=$("$here/build.sh" kube-apiserver kubectl kubeadm)
  server=$peers/etcd
  [[ $kind == etcd ]] || server=${VETCH_BIN:-${CARGO_TARGET_DIR:-$root/target}/fast/vetch}
  [[ -x $server ]] || { echo "guides: no $server: build it (cargo build --profile fast) or set VETCH_BIN" >&2; exit 1; }
  type ip curl >/dev/null 2>&1 || { apt-get update -qq && apt-get install -qq -y iproute2 curl >/dev/null; }
  work=$(mktemp -d)
  mkdir "$work/bin"
  # A manifest says `etcd`, and means whatever is in the image.
  ln -s "$(realpath "$server")" "$work/bin/etcd"
  ln -s "$(realpath "$server")" "$work/bin/vetch"
  for place in /etc/kubernetes /etc/vetch; do [[ -d $place ]] || { mkdir "$place"; made+=("$place"); }; done
  GUIDES_WORK=$work GUIDES_PEERS=$peers PATH=$work/bin:$binaries:$peers:$PATH \
    unshare --mount --net --pid --fork --kill-child --mount-proc "$0" "$kind" || status=$?
  for place in "${made[@]}"; do rmdir "$place" || true; done
  if ((status)); then echo "guides: logs and files are in $work"; else rm -rf "$work"; fi
  exit "$status"
}

case $kind in
  vetch | etcd) ;;
  *) echo "guides: unknown server $kind" >&2; exit 2 ;;
esac
[[ -n ${GUIDES_WORK:-} ]] || outside
work=$GUIDES_WORK
cd "$work"

# ---- what the guides are followed with

failed=0
# What must be so: a sentence, and the command that shows it. What the command says is told only if it fails.
must() {
  local what=$1
  shift
  if "$@" >"$work/said" 2>&1; then
    echo "ok      $what"
  else
    echo "FAILED  $what"
    tail -n 20 "$work/said" | sed 's/^/        /'
    failed=$((failed + 1))
  fi
}
# As must, but without it there is no point in going on.
need() {
  local before=$failed
  must "$@"
  ((failed == before)) || finish
}
finish() {
  ((failed)) || { echo "guides: passed on $kind (${SECONDS}s)"; exit 0; }
  echo "guides: $failed failed on $kind (${SECONDS}s)"
  exit 1
}
says() { # text, command...: it works, and this is part of what it says
  local text=$1 said
  shift
  said=$("$@" 2>&1) && grep -qF -- "$text" <<<"$said" || { echo "not '$text' but: $said"; return 1; }
}
refused() { # text, command...: it fails, and says this
  local text=$1 said
  shift
  if said=$("$@" 2>&1); then echo "not refused: $said"; return 1; fi
  grep -qF -- "$text" <<<"$said" || { echo "not '$text' but: $said"; return 1; }
}
lacks() { # text, file
  ! grep -F -- "$1" "$2"
}
# What it says is what the last try said.
within() { # seconds, command...
  local end=$((SECONDS + $1)) said
  shift
  until said=$("$@" 2>&1); do ((SECONDS < end)) || { echo "$said"; return 1; }; sleep 0.2; done
}

# The block of the page whose first line is a comment with this name.
block() {
  awk -v name="# $1" '/^ *```/ { if (inside) exit; fresh = 1; next } fresh { inside = ($0 == name); fresh = 0 } inside' "$page"
}
# The command in the manifest of a static pod, one word a line.
command_of() { sed -n '/^  - command:$/,/^    image:/s/^    - //p' "/etc/kubernetes/manifests/$1.yaml"; }

start() { # log, command...: the process is $started then
  local log=$work/$1.log
  shift
  "$@" >>"$log" 2>&1 &
  started=$!
}
stop() {
  kill "$1"
  wait "$1" 2>/dev/null || true
}
answers() { [[ $(curl -s -o /dev/null -w '%{http_code}' "$@") == 200 ]]; }

pki=/etc/kubernetes/pki
# A machine that is busy with other things is no failure, so there is time.
secured() {
  etcdctl --command-timeout 60s --dial-timeout 20s --endpoints https://127.0.0.1:2379 --cacert $pki/etcd/ca.crt \
    --cert $pki/etcd/healthcheck-client.crt --key $pki/etcd/healthcheck-client.key "$@"
}
plain() { etcdctl --command-timeout 60s --dial-timeout 20s --endpoints http://127.0.0.1:2379 "$@"; }

# ---- the guides

the_page() {
  local name
  for name in certs.yaml external.yaml stacked.yaml; do
    block "$name" >"$name"
    must "page: kubeadm takes $name" kubeadm config validate --config "$name"
  done
  # kind merges its patches into a configuration of its own, which has these two lines.
  printf 'apiVersion: kubeadm.k8s.io/v1beta4\nkubernetesVersion: v1.37.0\n' >kind-patch.yaml
  block kind.yaml | sed -n '/^- |$/,$s/^  //p' >>kind-patch.yaml
  must "page: kubeadm takes the patch in kind.yaml" kubeadm config validate --config kind-patch.yaml
  block /etc/systemd/system/vetch.service >vetch.service
  if command -v systemd-analyze >/dev/null; then
    sed "s|/usr/local/bin/vetch|$work/bin/vetch|; s/^User=.*/User=root/" vetch.service >check.service
    must "page: systemd takes the unit" systemd-analyze verify --man=no "$work/check.service"
  fi
}

# kubeadm with an external store: its certificates, the unit's command, its own check, and its kube-apiserver.
external() {
  local phase unit store
  for phase in etcd-ca etcd-server etcd-healthcheck-client apiserver-etcd-client; do
    kubeadm init phase certs "$phase" --config certs.yaml >>kubeadm.log
  done
  cp $pki/etcd/{ca.crt,server.crt,server.key} /etc/vetch/
  kubeadm init phase preflight --dry-run --config external.yaml >preflight.log 2>&1 || true
  must "external: kubeadm's check sees that nobody is there" grep -q ExternalEtcdVersion preflight.log
  read -ra unit <<<"$(sed -n '/^ExecStart=/,/[^\\]$/p' vetch.service | sed 's/^ExecStart=//; s/\\$//' | tr '\n' ' ')"
  start external "${unit[0]##*/}" "${unit[@]:1}"
  store=$started
  need "external: the unit's command is ready" within 60 answers http://127.0.0.1:2381/readyz
  kubeadm init phase preflight --dry-run --config external.yaml >preflight.log 2>&1 || true
  must "external: kubeadm's check is content" lacks ExternalEtcdVersion preflight.log
  must "external: kubeadm's check was made" grep -q 'pre-flight checks' preflight.log
  must "external: a client without a certificate is turned away" refused "deadline exceeded" \
    etcdctl --endpoints https://10.0.0.5:2379 --cacert $pki/etcd/ca.crt --command-timeout 2s get a
  kube_apiserver
  k3s secured
  stop "$store"
}

kube_apiserver() {
  local api
  kubeadm init phase certs all --config external.yaml >>kubeadm.log
  kubeadm init phase kubeconfig super-admin --config external.yaml >>kubeadm.log
  kubeadm init phase control-plane apiserver --config external.yaml >>kubeadm.log
  mapfile -t api < <(command_of kube-apiserver)
  export KUBECONFIG=/etc/kubernetes/super-admin.conf
  start kube-apiserver "${api[@]}"
  need "external: kubeadm's kube-apiserver is ready" within 300 says ok kubectl get --raw /readyz
  must "external: it writes" kubectl create namespace trial
  must "external: it reads" kubectl get namespace trial
  stop "$started"
}

# What k3s itself asks of its store, before its kube-apiserver does.
k3s() { # how etcdctl is called
  local client=$1
  local key=/bootstrap/0123456789ab revision=0
  txn() { printf 'mod("%s") = "%s"\n\n%s\n\n%s\n\n' "$key" "$revision" "$1" "${2:-}"; }
  look() { revision=$("$client" get --prefix /bootstrap -w fields | sed -n 's/^"ModRevision" : //p'); }
  must "k3s, $client: no other server was here" says '"Count" : 0' "$client" get --prefix /bootstrap -w fields
  must "k3s, $client: an empty value locks" says SUCCESS "$client" txn < <(txn "put $key \"\"")
  must "k3s, $client: only once" says FAILURE "$client" txn < <(txn "put $key \"\"")
  look
  must "k3s, $client: the lock becomes the data" says SUCCESS "$client" txn < <(txn "put $key secret" "get $key")
  must "k3s, $client: a second writer is told what is there" says secret "$client" txn < <(txn "put $key other" "get $key")
  must "k3s, $client: nothing is deleted that has changed" says FAILURE "$client" txn < <(txn "del $key" "get $key")
  look
  must "k3s, $client: the old key is deleted" says SUCCESS "$client" txn < <(txn "del $key" "get $key")
}

# The command of the manifest that kubeadm writes for its own etcd, with another binary beneath; then to and fro.
stacked() {
  local pod revision
  rm -r /etc/kubernetes/*
  kubeadm init phase certs all --config stacked.yaml >>kubeadm.log
  kubeadm init phase etcd local --config stacked.yaml >>kubeadm.log
  mapfile -t pod < <(command_of etcd)
  start etcd "$GUIDES_PEERS/etcd" "${pod[@]:1}"
  need "stacked: etcd is ready" within 60 answers http://127.0.0.1:2381/readyz
  must "stacked: etcd takes a write" secured put greeting hello
  revision=$(secured endpoint status -w json | grep -o '"revision":[0-9]*')
  secured member list >members
  stop "$started"
  if [[ $kind == vetch ]]; then
    must "stacked: the directory of etcd is refused" refused "holds the data of an etcd" "${pod[@]}"
    need "stacked: the page's way from etcd to Vetch" bash -euo pipefail -c "$(block 'from etcd to Vetch')"
  fi
  start stacked "${pod[@]}"
  need "stacked: the manifest's command is ready" within 60 answers http://127.0.0.1:2381/readyz
  must "stacked: the probe for life" answers http://127.0.0.1:2381/livez
  must "stacked: the data is there" says hello secured get greeting
  must "stacked: so is the revision" says "$revision" secured endpoint status -w json
  must "stacked: and the member" says "$(<members)" secured member list
  must "stacked: no second member" member_add
  need "stacked: the page's way to back up" bash -euo pipefail -c "$(block 'backup')"
  secured put greeting again >/dev/null
  stop "$started"
  must "stacked: the page's way from Vetch to etcd" bash -euo pipefail -c "$(block 'from Vetch to etcd')"
  start etcd-again "$GUIDES_PEERS/etcd" "${pod[@]:1}"
  need "stacked: etcd is ready with it" within 60 answers http://127.0.0.1:2381/readyz
  must "stacked: the data of the backup is there" says hello secured get greeting
  stop "$started"
}

# What `kubeadm join --control-plane` would do first. Etcd takes it, and from then on waits for the newcomer.
member_add() {
  [[ $kind == vetch ]] || return 0
  refused "re-configuration failed" secured member add control-2 --learner --peer-urls https://10.0.0.12:2380
}

without_tls() {
  start plain vetch --data-dir "$work/plain" --listen-client-urls http://127.0.0.1:2379 \
    --advertise-client-urls http://127.0.0.1:2379
  need "k3s, plain: ready" within 60 answers http://127.0.0.1:2379/readyz
  k3s plain
  stop "$started"
}

ip link set lo up
ip address add 10.0.0.5/32 dev lo
ip address add 10.0.0.11/32 dev lo
mount -t tmpfs none /etc/kubernetes
mount -t tmpfs none /etc/vetch
mount -t tmpfs none /var/lib
mkdir -m 700 /var/lib/etcd /var/lib/vetch

the_page
external
stacked
without_tls
finish
