#!/bin/sh
# Runs the sweeps of docs/lab/measures.md, draws its figures and prints its tables. Usage, from the repository's root:
#   sh examples/beyond.sh [FOLDER_OF_RESULTS [FOLDER_OF_FIGURES]]
# l3sim must be on the PATH (go install ./cmd/l3sim).
set -eu
out=${1:-out/beyond}
figures=${2:-docs/lab/figures}
best='max output_tokens_per_s over tensor_parallel'

l3sim sweep examples/beyond.toml --out "$out/all"
l3sim table "$out/all" --best "$best" --x trace --y output_tokens_per_s --group point --facet model --wide --format markdown
l3sim table "$out/all" --best "$best" --x trace --y decode_batch_mean --group point --facet model --wide --format markdown
l3sim plot "$out/all" --kind heatmap --x trace --y point --z output_tokens_per_s --facet model --normalize-to point=A100 \
  --best "$best" --title "Output tokens/s over those of A100s alone" --out "$figures/beyond.png"

l3sim sweep examples/beyond_ddr5.toml --out "$out/ddr5"
l3sim table "$out/ddr5" --x model --y output_tokens_per_s --group point --wide --format markdown

l3sim sweep examples/beyond_context.toml --out "$out/context"
l3sim table "$out/context" --best "$best" --x traces.input_mean --y output_tokens_per_s --group point --facet model --wide --format markdown
l3sim table "$out/context" --best "$best" --x traces.input_mean --y tbt_decode_p50_ms --group point --facet model --wide --format markdown
l3sim plot "$out/context" --kind line --x traces.input_mean --y output_tokens_per_s --group point --facet model \
  --normalize-to point=A100 --best "$best" --title "Prompts of 32K to 1M tokens, 24 requests" --out "$figures/beyond_context.png"
