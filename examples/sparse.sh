#!/bin/sh
# Runs the sweeps of sparse attention and draws the figures of lab/docs/sparse.md. Usage, from the repository's root:
#   sh examples/sparse.sh [FOLDER_OF_RESULTS [FOLDER_OF_FIGURES]]
# l3sim must be on the PATH (go install ./cmd/l3sim).
set -eu
out=${1:-out/sparse}
figures=${2:-lab/docs/figures}

l3sim sweep examples/sparse_budget.toml --out "$out/budget"
for y in output_tokens_per_s tbt_p50_ms; do
  l3sim plot "$out/budget" --kind line --x attention_attended_tokens_mean --y "$y" --group policy.name \
    --title "Llama-3-70B on 8 A100, contexts of 64K" --out "$figures/sparse_budget_$y.png"
done

l3sim config policies iteration --policy dense,streaming,h2o,quest,lserve,duo,csattention --model llama-3-8b \
  --context 8192,65536,131072 --csv "$out/iteration.csv" --quiet
l3sim plot "$out/iteration.csv" --kind stack --x policy --facet context_tokens \
  --y products_us,small_kernels_us,decode_attention_us,page_scores_us,choice_us,passes_us \
  --title "A decode step of Llama-3-8B, one A100, one request" --out "$figures/sparse_iteration.png"

l3sim sweep examples/sparse_context.toml --out "$out/context"
l3sim plot "$out/context" --kind line --x input_mean --y output_tokens_per_s --group policy.name --facet run.system \
  --title "GPT-175B, 24 requests, windows of 512 tokens" --out "$figures/sparse_context.png"

l3sim sweep examples/sparse_share.toml --out "$out/share"
l3sim plot "$out/share" --kind bar --x policy.hgca.share --y output_tokens_per_s --facet run.system \
  --title "GPT-175B, 24 requests of 32K tokens, HGCA by its share of salient tokens" --out "$figures/sparse_share.png"
