#!/bin/sh
# Runs the ablation and prints the tables of docs/lab/ablation.md. Usage, from the repository's root:
#   sh examples/ablation.sh [FOLDER_OF_RESULTS]
# l3sim must be on the PATH (go install ./cmd/l3sim).
set -eu
out=${1:-out/examples}

l3sim sweep examples/ablation.toml --out "$out/ablation" >&2
columns=point,output_tokens_per_s,rankset_imbalance,utilization_gpu,utilization_pim,utilization_pcie_down,utilization_pcie_up
columns=$columns,utilization_channel,decode_batch_mean,tbt_mean_ms
# A point is "model=MODEL,ROW", quoted for its comma; the first row of a model is what speed-up is relative to.
l3sim table "$out/ablation" --columns "$columns" --format csv | awk -F'"' '
  NR == 1 { next }
  {
    split($2, point, ","); split(substr($3, 2), v, ",")
    if (point[1] != model) {
      model = point[1]; naive = v[1]
      print "\n" model "\n"
      print "| | tokens/s | speed-up | imbalance | idle: GPU | ranksets | PCIe down | PCIe up | channel | batch | TBT ms |"
      print "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    }
    printf "| %s | %.1f | %.2f | %.2f |", point[2], v[1], v[1] / naive, v[2]
    for (i = 3; i <= 7; i++) printf " %.1f%% |", 100 * (1 - v[i])
    printf " %.1f | %.1f |\n", v[8], v[9]
  }'
