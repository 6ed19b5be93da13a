#!/bin/sh
# Runs the sweep of lab/docs/findings.md on shared prefixes and draws its figures. Usage, from the repository's root:
#   sh examples/cache.sh [FOLDER_OF_RESULTS [FOLDER_OF_FIGURES]]
# l3sim must be on the PATH (go install ./cmd/l3sim).
set -eu
out=${1:-out/cache}
figures=${2:-lab/docs/figures}

l3sim sweep examples/cache.toml --out "$out"
for column in cache_hit_rate ttft_mean_ms; do
  l3sim table "$out" --x prefixes --y $column --group point --wide --format markdown
done
for figure in tbt_mean_ms:tbt rankset_imbalance:imbalance; do
  l3sim plot "$out" --kind line --x prefixes --y "${figure%:*}" --group point \
    --title "l3, Llama-3-70B, 8,192 shared tokens" --out "$figures/cache_${figure#*:}.png"
done
