#!/bin/sh
# The rates of requests that designs of lab/docs/findings.md serve with TTFT below 2 s and TBT below 100 ms (each for 99% of the
# requests), OpenR1, Poisson arrivals, as CSV. Usage, from the repository's root (hours; resumes if stopped):
#   sh examples/measures_rates.sh [FILE]
# l3sim must be on the PATH (go install ./cmd/l3sim). Prompts come in chunks of 512 tokens: one of the preset's 2,048 alone takes
# longer than 100 ms on A100s. A replica has all eight GPUs, but four for Llama-3-70B on L3. Requests stay for some twenty minutes: 2,500
# of them arrive over many stays; for designs that serve less than 0.05 a second, 500 do.
set -eu
out=${1:-out/measures/rates.csv}
mkdir -p "$(dirname "$out")"
[ -f "$out" ] || echo 'design,model,requests_per_s,attainment,tokens_per_s,ttft_p99_ms,tbt_p99_ms' >"$out"

# number KEY [BLOCK] prints the first number of a key, in a block of JSON from standard input.
number() { sed -n "/\"${2:-rows}\"/,\$s/^ *\"$1\": \([0-9.e+-]*\),*\$/\1/p" | head -n 1; }

row() { # DESIGN MODEL REQUESTS FLAG...
  design=$1 model=$2 requests=$3
  shift 3
  grep -q "^$design,$model," "$out" && return
  tp=8
  case "$model $*" in llama*"--system l3"*) tp=4 ;; esac
  json=$(l3sim capacity --quiet --json --preset fair --slo ttft=2s,tbt=100ms --precision 0.05 --arrivals poisson --model "$model" --trace openr1 --requests "$requests" \
    --set model.tensor_parallel=$tp --set batching.max_num_batched_tokens=512 --set scheduler.min_prefill_tokens=512 "$@")
  of() { echo "$json" | number "$@"; }
  [ -n "$(of rate_per_s)" ] || { echo "measures_rates.sh: the answer for $design has no \"rate_per_s\" in its rows" >&2; exit 1; }
  echo "$design,$model,$(of rate_per_s),$(of attainment),$(of goodput_tokens_per_s),$(of p99 ttft_ms),$(of p99 tbt_ms)" >>"$out"
}

for model in llama-3-70b gpt-175b; do
  few=2500
  [ "$model" = llama-3-70b ] || few=500
  row 'A100' "$model" $few --system gpu-only
  row 'A100 lserve KV8' "$model" $few --system gpu-only --policy lserve --set model.kv_bits=8
  row 'L3' "$model" 500 --system l3
  row 'L3 16 ranksets' "$model" 500 --system l3 --set node.ranksets=16
  row 'L3 S1 S3 KV8 units as built' "$model" 2500 --system l3 --policy lserve --set comm.head_rotation=request --set model.kv_bits=8
  row 'L3 S1 S3 KV8 2 sets 16 ranksets' "$model" 2500 --system l3 --policy lserve --set policy.lserve.select_device=bank --set comm.head_rotation=request \
    --set model.kv_bits=8 --set pim.multipliers=8 --set pim.macs_per_read=2 --set node.ranksets=16
done
cat "$out"
