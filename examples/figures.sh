#!/bin/sh
# Runs the example sweeps and draws the figures of lab/docs/findings.md. Usage, from the repository's root:
#   sh examples/figures.sh [FOLDER_OF_RESULTS [FOLDER_OF_FIGURES]]
# l3sim must be on the PATH (go install ./cmd/l3sim).
set -eu
out=${1:-out/examples}
figures=${2:-lab/docs/figures}

l3sim sweep examples/ranks.toml --out "$out/ranks"
l3sim plot "$out/ranks" --kind line --x ranksets --y output_tokens_per_s --group channels \
  --title "GPT-175B, OpenR1-Math, 2 TiB" --out "$figures/example_ranks.png"

l3sim sweep examples/pcie.toml --out "$out/pcie"
l3sim plot "$out/pcie" --kind bar --x gpus_per_uplink --y output_tokens_per_s --group generation --facet model \
  --title "LongBench" --out "$figures/example_pcie.png"

l3sim sweep examples/context.toml --out "$out/context"
l3sim plot "$out/context" --kind line --x input_mean --y tbt_mean_ms --group ranksets \
  --title "GPT-175B, 24 requests" --out "$figures/example_context_tbt.png"
l3sim plot "$out/context" --kind line --x input_mean --y utilization_gpu,utilization_pim --facet ranksets \
  --title "GPT-175B, 24 requests" --out "$figures/example_context_balance.png"

l3sim sweep examples/explore.toml --out "$out/explore"
l3sim plot "$out/explore" --kind pareto --goals 'max output_tokens_per_s, min ranksets, min memory_capacity' \
  --title "GPT-175B, OpenR1-Math, 120 samples" --out "$figures/example_explore.png"

l3sim run --trace longbench --requests 200 --out "$out/longbench" --quiet > /dev/null
l3sim plot "$out/longbench/requests.csv" --kind cdf --x first_token_s,finish_s \
  --title "GPT-175B, LongBench, 200 requests" --out "$figures/example_cdf.png"
