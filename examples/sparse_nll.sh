#!/bin/sh
# The effect of budgets on the output of the byte model, for the figure of lab/docs/sparse.md: 512 steps after a prompt of 1,024 bytes. Usage,
# from the repository's root (some minutes):
#   sh examples/sparse_nll.sh [FOLDER_OF_RESULTS [FOLDER_OF_FIGURES]]
# l3sim must be on the PATH (go install ./cmd/l3sim). A byte model of six layers shows what a policy does, not how well it does it.
set -eu
out=${1:-out/sparse}
figures=${2:-lab/docs/figures}
mkdir -p "$out"
echo policy,attended_tokens,nll_nats > "$out/nll.csv"

# number NAME FILE prints the number of a key; mean NAME FILE that of an array, over layers.
number() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" "$2"; }
mean() { awk -v key="\"$1\":" '$1 == key { on = 1; next } on && /\]/ { print sum / n; exit } on { sum += $1; n++ }' "$2"; }

row() { # POLICY [KEY=VALUE]..., keys of the policy
  policy=$1
  shift
  sets=
  for set in "$@"; do sets="$sets --set policy.$policy.$set"; done
  # shellcheck disable=SC2086 # settings are words
  l3lab eval --quiet --json --reference --prompt 1024 --steps 512 --policy "$policy" $sets > "$out/eval.json"
  echo "$policy,$(mean attended_tokens "$out/eval.json"),$(number nll_nats_mean "$out/eval.json")" >> "$out/nll.csv"
}

row window # all tokens
for budget in 128 256 512 1024; do
  row quest "budget=$budget" skip_layers=0
  row lserve "budget=$budget" page=32 static_sparsity=0
  row streaming "window=$((budget - 4))"
done
for share in 0.03125 0.0625 0.125 0.25; do
  row h2o "heavy=$share" "recent=$share"
  row csattention "select_share=$share" "recent_tokens=64"
done
for beta in 0.25 0.5 1 2; do row hgca window=128 block=32 "beta=$beta"; done

l3sim plot "$out/nll.csv" --kind line --x attended_tokens --y nll_nats --group policy \
  --title "Byte model, 512 steps after 1,024 bytes: mechanism, not accuracy" --out "$figures/sparse_nll.png"
