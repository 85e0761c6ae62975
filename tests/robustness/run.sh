#!/usr/bin/env bash
# Runs the traffic and the validators of etcd's own robustness tests against a server:
#
#   run.sh [vetch|etcd] [--seconds N] [--profile P] [--fault F] [--rounds N] [--prove]
#   run.sh --again DIRECTORY --profile P        judges the history of a failed run once more
#
#   P   etcd, etcd-delete-lease, etcd-delete, kubernetes, kubernetes-create, or all
#   F   none, kill, pause, both (one or the other, by chance), or all
#
# Without profile and fault, the short selection that belongs to every change runs. The server is vetch (VETCH_BIN, or
# target/fast/vetch) or etcd, which is the control: it must pass as well. --prove falsifies a history that passed, and
# every falsification must be found. The program is built outside the tree; Go's cache makes the second time cheap.
# What belongs to a failed run is kept, and the run says where. README.md tells what is judged, and how.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
all_profiles=(etcd etcd-delete-lease etcd-delete kubernetes kubernetes-create)
all_faults=(none kill pause both)

say() { printf 'robustness: %s\n' "$*"; }

kind=vetch seconds=15 profile='' fault='' rounds=1 again='' prove=()
while (($#)); do
  case $1 in
    vetch | etcd) kind=$1 ;;
    --seconds) seconds=$2; shift ;;
    --profile) profile=$2; shift ;;
    --fault) fault=$2; shift ;;
    --rounds) rounds=$2; shift ;;
    --again) again=$2; shift ;;
    --prove) prove=(-prove) ;;
    *) say "unknown argument $1"; exit 2 ;;
  esac
  shift
done

command -v go >/dev/null || { say "go is needed: install Go 1.26 or later"; exit 1; }
case $kind in
  vetch) server=${VETCH_BIN:-${CARGO_TARGET_DIR:-$root/target}/fast/vetch} ;;
  etcd) server=${ETCD_BIN:-$("$root/scripts/peers.sh")/etcd} ;;
esac
[[ -x $server ]] || { say "$server does not exist"; exit 1; }

# Where the tests' module is fetched from decides its version, so that is where the version is read.
version=$(cd "$here" && go list -m -f '{{.Version}}' go.etcd.io/etcd/tests/v3)
home=$cache/robustness-$version
mkdir -p "$home"
begun=$SECONDS
(cd "$here" && go build -trimpath -o "$home/robustness" .)
say "etcd's robustness tests $version, built in $((SECONDS - begun))s"

[[ -z $again ]] || exec "$home/robustness" -again -home "$again" -profile "${profile:-etcd}"

passed=0
failed=()
# A run in which too little happened, or whose judgement did not end, is undecided (3), as it may be on a busy machine.
# It is repeated; the third time it counts as failed.
trial() { # profile, fault, and arguments
  local name="$kind $1 $2" work code attempt begun=$SECONDS
  for attempt in 1 2 3; do
    work=$(mktemp -d "${TMPDIR:-/tmp}/vetch-robustness-XXXXXX")
    say "$name"
    code=0
    "$home/robustness" -server "$kind" -binary "$server" -home "$work" -length "${seconds}s" \
      -profile "$1" -fault "$2" "${@:3}" || code=$?
    [[ -e $work/history ]] || rm -rf "$work"
    ((code == 3)) || break
  done
  if ((code == 0)); then passed=$((passed + 1)); else failed+=("$name"); fi
  say "$name took $((SECONDS - begun))s"
}

if [[ -z $profile && -z $fault ]]; then
  seconds=10
  trial etcd-delete-lease none -length 5s -prove
  trial etcd kill
  trial etcd-delete-lease both
  trial kubernetes both
else
  profiles=("${profile:-etcd}") faults=("${fault:-kill}")
  [[ $profile != all ]] || profiles=("${all_profiles[@]}")
  [[ $fault != all ]] || faults=("${all_faults[@]}")
  for ((round = 1; round <= rounds; round++)); do
    for p in "${profiles[@]}"; do
      for f in "${faults[@]}"; do
        trial "$p" "$f" "${prove[@]}"
      done
    done
  done
fi

for name in "${failed[@]}"; do say "FAILED: $name"; done
say "$passed passed, ${#failed[@]} failed"
((${#failed[@]} == 0))
