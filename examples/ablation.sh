#!/bin/sh
# Runs the sweeps of lab/docs/findings.md on L3's techniques and prints their tables. Usage, from the repository's root:
#   sh examples/ablation.sh [PAGE [FOLDER_OF_RESULTS]]
# With a page it writes each table between the marks "<!-- begin NAME -->" and "<!-- end NAME -->" of the page instead of printing
# it; the rest of the page stays.
# l3sim must be on the PATH (go install ./cmd/l3sim).
set -eu
page=${1:-}
out=${2:-out/examples}

# A missing end mark would lose the rest of the page: check the marks before minutes of sweeps.
if [ -n "$page" ]; then
  awk '
    /^<!-- begin .* -->$/ { if (end != "") wrong = wrong " no " end ";"; end = "<!-- end " substr($0, 12) }
    /^<!-- end .* -->$/ { if ($0 == end) end = ""; else wrong = wrong " no begin of " $0 ";" }
    END {
      if (end != "") wrong = wrong " no " end ";"
      if (wrong != "") { print FILENAME ":" wrong | "cat >&2"; exit 1 }
    }' "$page"
fi

# points SWEEP COLUMNS: runs a sweep. SWEEP.csv has a line for each point: the values of its axes, then the columns.
points() {
  l3sim sweep "examples/$1.toml" --out "$out/$1" >&2
  l3sim table "$out/$1" --columns "point,$2" --format csv >"$out/$1/point.csv"
  sed '1d; s/"//g; s/model=//; s/trace=//' "$out/$1/point.csv" >"$out/$1.csv"
}

# row is an awk function: it prints a row of a table, and the heads before the first. Each line begins with the table's name
# and a tab.
row='
  function row(name, heads, cells) {
    if (!(name in begun)) {
      begun[name]
      print name "\t" heads
      gsub(/[^|]+/, " --- ", heads)
      print name "\t" heads
    }
    print name "\t" cells
  }'

# wide NAME HEADS FORMAT: the last value of a line of the input is a cell, the one before names its column, the others its row.
wide() {
  awk -F, -v name="$1" -v heads="$2" -v format="$3" "$row"'
    {
      key = $1
      for (i = 2; i < NF - 1; i++) key = key " | " $i
      if (key != last) keys[++n] = last = key
      if (n == 1) heads = heads " " $(NF - 1) " |"
      cells[n] = cells[n] sprintf(" " format " |", $NF)
    }
    END { for (i = 1; i <= n; i++) row(name, heads, "| " keys[i] " |" cells[i]) }'
}

points ablation output_tokens_per_s,rankset_imbalance,utilization_gpu,utilization_pim
points ablation_batches output_tokens_per_s
points ablation_predictors output_tokens_per_s
points ablation_long output_tokens_per_s,tbt_mean_ms,decode_batch_mean

# All models share one table, the first one with more columns. Speed-ups are relative to a model's first point.
awk -F, "$row"'
  $1 != model {
    model = $1
    naive = $3
    heads = heads sprintf(" %s: tokens/s | speed-up |", model) (models++ == 0 ? " imbalance | GPUs idle | ranksets idle |" : "")
  }
  {
    if (!($2 in cells)) names[++n] = $2
    cells[$2] = cells[$2] sprintf(" %.1f | %.2f |", $3, $3 / naive)
    if (models == 1) cells[$2] = cells[$2] sprintf(" %.2f | %.1f%% | %.1f%% |", $4, 100 * (1 - $5), 100 * (1 - $6))
  }
  END {
    for (i = 1; i <= n; i++) {
      first = names[i] == "naive" || names[i] ~ /^[+]/
      row(first ? "steps" : "changes", "| |" heads, "| " names[i] " |" cells[names[i]])
    }
  }' "$out/ablation.csv" >"$out/tables.tsv"
wide batches '| |' %.1f <"$out/ablation_batches.csv" >>"$out/tables.tsv"
# Cells of predictors have the numbers of all kinds of predictors, named in the first head.
awk -F, "$row"'
  {
    if (!($1 in cells)) models[++n] = $1
    if (!($3 in kinds)) { kinds[$3]; list = list (list == "" ? "" : ", ") $3 }
    if (!($2 in traces)) { traces[$2]; heads = heads " " $2 " |" }
    cells[$1] = cells[$1] ($1 SUBSEP $2 in filled ? ", " : " | ") sprintf("%.2f", $4)
    filled[$1, $2]
  }
  END { for (i = 1; i <= n; i++) row("predictors", "| " list " |" heads, "| " models[i] cells[models[i]] " |") }
' "$out/ablation_predictors.csv" >>"$out/tables.tsv"
awk -F, "$row"'
  $2 == "naive" { naive = $3; heads = heads " here, " $1 " |" }
  $2 == "+ scheduling" { scheduling = $3 }
  $2 == "+ async prefill" {
    first = first sprintf(" %.2f |", scheduling / naive)
    second = second sprintf(" %.2f |", $3 / scheduling)
    both = both sprintf(" %.2f |", $3 / naive)
  }
  END {
    heads = "| | paper |" heads
    row("paper", heads, "| scheduling | 1.3 |" first)
    row("paper", heads, "| communication on top | 1.7, or 1.3 if 1.7 is the total |" second)
    row("paper", heads, "| in all | 2.2 or 1.7 |" both)
  }' "$out/ablation.csv" >>"$out/tables.tsv"
awk -F, "$row"'{ row("long", "| | tokens/s | TBT ms | batch |", sprintf("| %s | %.1f | %.1f | %.1f |", $1, $2, $3, $4)) }' \
  "$out/ablation_long.csv" >>"$out/tables.tsv"

if [ -z "$page" ]; then
  awk -F'\t' '$1 != name { name = $1; print "\n" name "\n" } { print $2 }' "$out/tables.tsv"
  exit
fi
awk -F'\t' -f examples/renew.awk "$out/tables.tsv" "$page" >"$page.new" || { rm "$page.new"; exit 1; }
mv "$page.new" "$page"
