#!/bin/sh
# Runs the sweep of designs in lab/docs/findings.md, then the designs that the page compares in pairs with draws of the uncertain
# numbers, and prints their tables. Usage, from the repository's root (some forty minutes on two cores with 20 draws; resumes if stopped):
#   sh examples/designs.sh [PAGE [FOLDER_OF_RESULTS [FOLDER_OF_FIGURES [DRAWS]]]]
# With a page it writes each table between its marks (examples/renew.awk) instead of printing it. With a folder of figures it draws these.
# l3sim must be on the PATH (go install ./cmd/l3sim).
set -eu
page=${1:-}
out=${2:-out/designs}
figures=${3:-}
draws=${4:-50}

# The pairs that the page compares.
pairs="L3/A100;L3 lserve KV8/A100 lserve KV8;A100 lserve KV8/L3;AttAcc/L3;L3/AttAcc 9x 3/4;H200/L3 on H200;H200 lserve KV8/L3 lserve KV8 on H200;H200/L3;H200 lserve KV8/L3 lserve KV8;L3 FP8 KV/A100 FP8 KV;L3 FP8 KV, 8 multipliers/A100 FP8 KV;L3 FP8 KV, 8 multipliers/H200 FP8 KV;L3 3 tokens/A100 3 tokens;L3 3 tokens, 3 sets/A100 3 tokens"

l3sim sweep examples/designs.toml --out "$out" >&2
# The same sweep, only with designs in pairs.
awk -v pairs="$pairs" '
  BEGIN { n = split(pairs, pair, ";") }
  function named(name,    i) { for (i = 1; i <= n; i++) if (index(pair[i], name "/") == 1 || index(pair[i] "\n", "/" name "\n")) return 1; return 0 }
  /^\[\[list\]\]$/ { held = $0; next }
  held != "" { name = $0; gsub(/^name = "|"$/, "", name); drop = !named(name); if (!drop) print held; held = "" }
  /^#/ { drop = 0 }
  !drop' examples/designs.toml >"$out/pairs.toml"
l3sim sweep "$out/pairs.toml" --bands "$draws" --out "$out/draws" >&2
l3sim table "$out" --columns point,run.variant,dimm_peak_w,dimm_limit_w,output_tokens_per_s,usd_per_million_output_tokens,output_tokens_per_site_joule,tbt_p99_ms,beyond_boards --format csv |
  sed '1d; s/"//g; s/model=//; s/weight_bits=//; s/activation_bits=//' >"$out/point.csv"
l3sim table "$out/draws" --rank output_tokens_per_s --group weight_bits --format csv >"$out/rank.csv"

# A line of point.csv: model, bits of weights and of activations, design (which may have a comma), the variant if there is one, the
# variant again or nothing, seven numbers, of which the first two may be empty. A line of rank.csv names two points.
design='
  function design(first, last, variant,    name, i) {
    if (variant != "") last--
    name = $first
    for (i = first + 1; i <= last; i++) name = name "," $i
    return name
  }'
awk -F, "$design"'
  function signs(name) { return (name in boards || name in slot) ? " " boards[name] slot[name] : "" }
  {
    name = design(4, NF - 8, $(NF - 7))
    if (!(name in seen)) { seen[name]; names[++n] = name }
    at = name SUBSEP $1 SUBSEP $2
    tokens[at] = $(NF - 4); usd[at] = $(NF - 3); joule[at] = $(NF - 2); tbt[at] = $(NF - 1)
    if ($NF == "true" || $NF == 1) boards[name] = "†"
    if ($(NF - 6) + 0 > $(NF - 5) + 0) slot[name] = "‡"
  }
  END {
    print "designs\t| design | GPT-175B: W16 | W8 | W4 | $/Mtok, W8 | tokens/kJ, W8 | TBT p99 ms, W8 | Llama-3-70B: W16 | W8 | W4 | $/Mtok, W8 |"
    print "designs\t| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for (i = 1; i <= n; i++) {
      g = names[i] SUBSEP "gpt-175b" SUBSEP; l = names[i] SUBSEP "llama-3-70b" SUBSEP
      printf "designs\t| %s%s | %.0f | %.0f | %.0f | %.2f | %.1f | %.0f | %.0f | %.0f | %.0f | %.2f |\n", names[i], signs(names[i]),
        tokens[g 16], tokens[g 8], tokens[g 4], usd[g 8], 1000 * joule[g 8], tbt[g 8], tokens[l 16], tokens[l 8], tokens[l 4], usd[l 8]
    }
  }' "$out/point.csv" >"$out/tables.tsv"

# For each pair: tokens a second of the first over the second, and the share of draws in which the first has more.
awk -F, -v pairs="$pairs" "$design"'
  BEGIN {
    n = split(pairs, pair, ";")
  }
  FILENAME ~ /point.csv$/ {
    if ($(NF - 7) != "") variants[$(NF - 7)] # their names
    tokens[$1, $2, design(4, NF - 8, $(NF - 7))] = $(NF - 4)
    next
  }
  { # the points are quoted, and hold commas
    split($0, part, "\"")
    split(part[5], v, ",") # nothing, draws, wins, share
    bits = part[2]; sub(/^.*,weight_bits=/, "", bits); sub(/,.*/, "", bits)
    for (i = 2; i <= 4; i += 2) {
      model = part[i]; sub(/^model=/, "", model); sub(/,.*/, "", model)
      sub(/^model=[^,]*,weight_bits=[^,]*,activation_bits=[^,]*,/, "", part[i])
      last = part[i]; sub(/^.*,/, "", last)
      if (last in variants) part[i] = substr(part[i], 1, length(part[i]) - length(last) - 1)
    }
    share[model, bits, part[2] "/" part[4]] = v[4]
    share[model, bits, part[4] "/" part[2]] = 1 - v[4]
  }
  END {
    print "sure\t| first, over second | GPT-175B: W16 | W8 | W4 | Llama-3-70B: W16 | W8 | W4 |"
    print "sure\t| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for (i = 1; i <= n; i++) {
      text = pair[i]; cut = index(text, "/"); cells = ""
      first = substr(text, 1, cut - 1); second = substr(text, cut + 1)
      for (m = 1; m <= 2; m++) for (b = 16; b >= 4; b /= 2) {
        model = m == 1 ? "gpt-175b" : "llama-3-70b"
        ratio = tokens[model, b, first] / tokens[model, b, second]
        cells = cells sprintf(ratio < 0.995 ? " %.2f," : " %.1f,", ratio) sprintf(" %.0f%% |", 100 * share[model, b, text])
      }
      print "sure\t| " first ", over " second " |" cells
    }
  }' "$out/point.csv" "$out/rank.csv" >>"$out/tables.tsv"

if [ -n "$figures" ]; then
  l3sim plot "$out" --kind scatter --x usd_per_million_output_tokens --y output_tokens_per_s --group run.system --facet run.model \
    --title "32 designs, weights of 16, 8 and 4 bits" --out "$figures/designs_cost.png"
  l3sim plot "$out" --kind bar --x weight_bits --y output_tokens_per_s --group run.system --facet policy.name --where model=gpt-175b \
    --where gpu.preset=a100-sxm-80gb --where power_limit=0 --where ranksets=4 --where verified_tokens=1 --where kv_format= \
    --best 'max output_tokens_per_s over run.variant,bandwidth_factor,capacity_share,memory_beside,elements_per_read,memory_capacity,multipliers,macs_per_read,select_device' \
    --title "GPT-175B on A100s, by bits of the weights" --out "$figures/designs_bits.png"
fi
if [ -z "$page" ]; then
  awk -F'\t' '$1 != name { name = $1; print "\n" name "\n" } { print $2 }' "$out/tables.tsv"
  exit
fi
awk -F'\t' -f examples/renew.awk "$out/tables.tsv" "$page" >"$page.new" || { rm "$page.new"; exit 1; }
mv "$page.new" "$page"
