#!/usr/bin/env bash
# Builds what the trials under Kubernetes need, all of it or what is named: build.sh [command...]
#
#   kube-apiserver kube-controller-manager kube-scheduler kubectl kubemark kubeadm kwok
#
# They are built from their published Go modules, at the versions in binaries/*/go.mod, and kept outside the tree,
# one directory per version of Kubernetes, so a second call costs nothing; the first takes 10 to 20 minutes. The last
# line of the output, and the only one on stdout, is the directory that holds the binaries. Two calls at once are safe:
# the second waits for the first.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${VETCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vetch}
kubernetes=$here/binaries/kubernetes
kwok=$here/binaries/kwok

say() { printf 'kubernetes: %s\n' "$*" >&2; }
required() { sed -nE "s|^(require )?\s*$2 v([^ ]*).*|\2|p" "$1/go.mod" | head -n1; }

version=$(required "$kubernetes" k8s.io/kubernetes)
kwok_version=$(required "$kwok" sigs.k8s.io/kwok)
[[ -n $version && -n $kwok_version ]] || { say "binaries/*/go.mod name no version"; exit 1; }
home=$cache/kubernetes-$version
# Whatever changes in what is built, or how, makes another mark.
complete=$home/complete-$(cd "$here" && find binaries build.sh -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16)
commands=("$@")
((${#commands[@]})) || commands=(kube-apiserver kube-controller-manager kube-scheduler kubectl kubemark kubeadm kwok)

mkdir -p "$home/bin"
exec 9>"$cache/kubernetes-$version.lock"
flock 9

missing=()
for command in "${commands[@]}"; do
  [[ -e $complete-$command ]] || missing+=("$command")
done
if ((${#missing[@]} == 0)); then
  echo "$home/bin"
  exit 0
fi
if ! command -v go >/dev/null; then
  say "go is needed to build Kubernetes $version: install Go 1.21 or later (it fetches the version it asks for)"
  exit 1
fi

# Without a stamp every component says v0.0.0-master, and kubectl, kubeadm and nodes disagree about versions.
stamp() {
  local package=k8s.io/component-base/version
  printf -- '-s -w -X %s.gitVersion=v%s -X %s.gitMajor=%s -X %s.gitMinor=%s' "$package" "$version" \
    "$package" "$(cut -d. -f1 <<<"$version")" "$package" "$(cut -d. -f2 <<<"$version")"
}

build() { # module, linker's flags, command, package
  (cd "$1" && go build -trimpath -buildvcs=false -ldflags "$2" -o "$home/bin/$3" "$4")
}

# How kwok's nodes and pods behave is a set of files beside its source.
kwok_stages() {
  local stages stage
  stages=$(cd "$kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  for stage in node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease \
    pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete; do
    cat "$stages/$stage.yaml"
    echo ---
  done
}

say "fetching Kubernetes $version and kwok $kwok_version"
(cd "$kubernetes" && go mod download k8s.io/kubernetes)
(cd "$kwok" && go mod download sigs.k8s.io/kwok)
for command in "${missing[@]}"; do
  say "building $command (${SECONDS}s so far)"
  rm -f "$home"/complete*-"$command"
  case $command in
    kube-apiserver) build "$kubernetes" "$(stamp)" "$command" ./kube-apiserver ;;
    kwok)
      build "$kwok" "-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=v$kwok_version" kwok sigs.k8s.io/kwok/cmd/kwok
      kwok_stages >"$home/bin/kwok-stages.yaml"
      ;;
    *) build "$kubernetes" "$(stamp)" "$command" "k8s.io/kubernetes/cmd/$command" ;;
  esac
  touch "$complete-$command"
done
say "done in ${SECONDS}s"
echo "$home/bin"
