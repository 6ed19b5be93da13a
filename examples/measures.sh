#!/bin/sh
# Runs the sweeps of lab/docs/findings.md on changes of the DIMMs and prints their tables. Usage, from the repository's root (a few minutes):
#   sh examples/measures.sh [PAGE [FOLDER_OF_RESULTS [FOLDER_OF_FIGURES [RATES]]]]
# With a page it writes each table between its marks (examples/renew.awk) instead of printing it. With a folder of figures it draws these.
# RATES is the output of examples/measures_rates.sh; without it, that runs too (hours more).
# l3sim must be on the PATH (go install ./cmd/l3sim).
set -eu
page=${1:-}
out=${2:-out/measures}
figures=${3:-}
rates=${4:-$out/rates.csv}

# points SWEEP COLUMNS: a line for each point, the values of its axes with their names, then the columns.
points() {
  l3sim sweep "examples/$1.toml" --out "$out/$1" >&2
  l3sim table "$out/$1" --columns "point,$2" --format csv | sed '1d; s/"//g' >"$out/$1.csv"
}
points measures output_tokens_per_s
points measures_ddr5 output_tokens_per_s,dimms_per_channel
points measures_context output_tokens_per_s,tbt_decode_p50_ms
[ -f "$rates" ] || sh examples/measures_rates.sh "$rates" >&2

# value(KEY) takes KEY=... from the fields of a line; design() joins the unnamed fields before the columns, since a design may have commas.
fields='
  function value(key,    i) {
    for (i = 1; i <= NF; i++) if (index($i, key "=") == 1) return substr($i, length(key) + 2)
    return ""
  }
  function design(columns,    name, i) {
    for (i = 1; i <= NF - columns; i++) if ($i !~ /=/) name = name (name == "" ? "" : ",") $i
    return name
  }
  function thousands(x,    s) {
    if (x < 100) return sprintf("%.1f", x)
    s = sprintf("%.0f", x)
    return length(s) > 3 ? substr(s, 1, length(s) - 3) "," substr(s, length(s) - 2) : s
  }
  function heads(name, names, text,    line, i) { # the first columns are names, the others numbers
    line = text
    gsub(/[^|]+/, " ---: ", line)
    for (i = 1; i <= names; i++) sub(/---:/, "---", line)
    print name "\t" text "\n" name "\t" line
  }'

{
  awk -F, "$fields"'
    {
      name = design(1); at = name SUBSEP value("model") SUBSEP value("trace")
      if (!(name in seen)) { seen[name]; names[++n] = name }
      if ($NF > best[at]) best[at] = $NF
    }
    END {
      split("gpt-175b llama-3-70b", models, " ") # the figure has Llama-3-8B, too
      split("openr1 longbench mooncake", traces, " ")
      heads("measures", 1, "| design | GPT-175B: OpenR1 | LongBench | Mooncake | Llama-3-70B: OpenR1 | LongBench | Mooncake |")
      for (i = 1; i <= n; i++) {
        line = "| " names[i] " |"
        for (m = 1; m <= 2; m++) for (t = 1; t <= 3; t++) line = line " " thousands(best[names[i] SUBSEP models[m] SUBSEP traces[t]]) " |"
        print "measures\t" line
      }
    }' "$out/measures.csv"
  awk -F, "$fields"'
    {
      name = design(2); model = value("model")
      if (!(name in seen)) { seen[name]; names[++n] = name }
      tokens[name, model] = $(NF - 1)
    }
    END {
      heads("ddr5", 1, "| design | GPT-175B | Llama-3-70B |")
      for (i = 1; i <= n; i++) printf "ddr5\t| %s | %s | %s |\n", names[i], thousands(tokens[names[i], "gpt-175b"]), thousands(tokens[names[i], "llama-3-70b"])
    }' "$out/measures_ddr5.csv"
  awk -F, "$fields"'
    {
      row = value("model") " | " design(2); at = row SUBSEP value("input_mean")
      if (!(row in seen)) { seen[row]; rows[++n] = row }
      if ($(NF - 1) > best[at]) { best[at] = $(NF - 1); gap[at] = $NF }
    }
    END {
      heads("context", 2, "| model | design | 32K | 128K | 1M |")
      for (i = 1; i <= n; i++) {
        line = "| " rows[i] " |"
        for (k = 32768; k <= 1048576; k *= k < 100000 ? 4 : 8) {
          at = rows[i] SUBSEP k
          line = line (best[at] > 0 ? " " thousands(best[at]) ", " thousands(gap[at]) " |" : " – |")
        }
        print "context\t" line
      }
    }' "$out/measures_context.csv"
  awk -F, "$fields"'
    NR > 1 {
      if (!($1 in seen)) { seen[$1]; names[++n] = $1 }
      tokens[$1, $2] = $5
    }
    END {
      heads("rates", 1, "| design | GPT-175B | Llama-3-70B |")
      for (i = 1; i <= n; i++) printf "rates\t| %s | %s | %s |\n", names[i], thousands(tokens[names[i], "gpt-175b"]), thousands(tokens[names[i], "llama-3-70b"])
    }' "$rates"
} >"$out/tables.tsv"

if [ -n "$page" ]; then
  awk -F'\t' -f examples/renew.awk "$out/tables.tsv" "$page" >"$out/page.md"
  cp "$out/page.md" "$page"
else
  cut -f2 "$out/tables.tsv"
fi
if [ -n "$figures" ]; then
  l3sim plot "$out/measures" --kind heatmap --x trace --y point --z output_tokens_per_s --facet model --normalize-to point=L3 \
    --best 'max output_tokens_per_s over tensor_parallel' --title 'Output tokens/s over those of L3 as published' --out "$figures/measures.png"
fi
