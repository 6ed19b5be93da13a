#!/bin/sh
# Runs the sweeps of sparse attention and draws the figures of lab/docs/sparse.md. Usage, from the repository's root:
#   sh examples/sparse.sh [FOLDER_OF_RESULTS [FOLDER_OF_FIGURES [PAGE]]]
# With a page it writes the table of policies on L3 between its marks there; otherwise it prints the table.
# l3sim must be on the PATH (go install ./cmd/l3sim).
set -eu
out=${1:-out/sparse}
figures=${2:-lab/docs/figures}
page=${3:-}

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

# A line of the points: model, trace, policy (which may have commas), tokens a second.
l3sim sweep examples/sparse_l3.toml --out "$out/l3" >&2
l3sim table "$out/l3" --columns point,output_tokens_per_s --format csv | sed '1d; s/"//g; s/model=//' | awk -F, '
  {
    name = $3
    for (i = 4; i < NF; i++) name = name "," $i
    if (!(name in cells)) names[++n] = name
    if (name == names[1]) head = head " " ($1 in models ? "" : $1 ": ") $2 " |"
    models[$1]
    cells[name] = cells[name] sprintf(" %.1f |", $NF)
  }
  END {
    rule = head
    gsub(/[^|]+/, " ---: ", rule)
    print "l3\t| policy |" head "\nl3\t| --- |" rule
    for (i = 1; i <= n; i++) print "l3\t| " names[i] " |" cells[names[i]]
  }' >"$out/tables.tsv"
if [ -z "$page" ]; then
  cut -f2 "$out/tables.tsv"
  exit
fi
awk -F'\t' -f examples/renew.awk "$out/tables.tsv" "$page" >"$page.new" || { rm "$page.new"; exit 1; }
mv "$page.new" "$page"
