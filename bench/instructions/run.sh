#!/usr/bin/env bash
# Counts the instructions of the hot paths with valgrind and compares them with budgets.txt: run.sh [--record]
#
# The number does not depend on how busy the machine is. Every path runs twice, with few and with many repetitions; the
# difference divided by the repetitions is the cost of one. A path that costs more than its budget and the tolerance fails; one
# that costs much less is told, so that the budget can be lowered. --record writes the budgets anew.
set -euo pipefail

cd "$(dirname "$0")/../.."
budgets=bench/instructions/budgets.txt
few=500 many=1500 tolerance=10

command -v valgrind >/dev/null ||
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq valgrind >/dev/null; }
# The whole workspace, so that what other stages have built is of use.
cargo build --quiet --profile fast --workspace --example instructions
program=${CARGO_TARGET_DIR:-$PWD/target}/fast/examples/instructions
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# instructions PATH TIMES: all that a run takes.
instructions() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" "$2" 2>"$scratch/$1.$2" ||
    { cat "$scratch/$1.$2" >&2; return 1; }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$scratch/$1.$2"
}

recorded=()
failed=0
while read -r path budget; do
  low=$(instructions "$path" "$few")
  high=$(instructions "$path" "$many")
  each=$(((high - low) / (many - few)))
  recorded+=("$path $each")
  change=$((budget > 0 ? (each - budget) * 100 / budget : 0))
  verdict=ok
  if [[ ${1:-} == --record ]]; then verdict=recorded
  elif ((each > budget + budget * tolerance / 100)); then verdict="TOO MANY" failed=1
  elif ((each < budget - budget * tolerance / 100)); then verdict="fewer: lower the budget"; fi
  printf '%-6s %9d instructions, budget %9d (%+d%%) %s\n' "$path" "$each" "$budget" "$change" "$verdict"
done < <(grep -v '^#' "$budgets")

if [[ ${1:-} == --record ]]; then
  { grep '^#' "$budgets"; printf '%s\n' "${recorded[@]}"; } >"$scratch/new"
  cp "$scratch/new" "$budgets"
fi
exit "$failed"
