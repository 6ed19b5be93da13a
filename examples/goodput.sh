#!/bin/sh
# The rates of requests that the designs of docs/lab/measures.md serve with TTFT below 2 s and TBT below 100 ms (each for 99% of the
# requests), Poisson arrivals, as CSV. Usage, from the repository's root (half an hour; it goes on where it was stopped):
#   sh examples/goodput.sh [FILE]
# l3sim must be on the PATH (go install ./cmd/l3sim). Prompts come in chunks of 512 tokens: one of the preset's 2,048 alone takes
# longer than 100 ms on A100s. All eight GPUs share
# a replica, but four where L3 serves the model with eight KV heads, which do not divide over 16 channels.
set -eu
out=${1:-out/goodput.csv}
mkdir -p "$(dirname "$out")"
[ -f "$out" ] || echo 'design,model,trace,chunk,requests_per_s,attainment,tokens_per_s,ttft_p99_ms,tbt_p99_ms' > "$out"

# number KEY [BLOCK] prints the first number of a key, in a block of JSON from standard input.
number() { sed -n "/\"${2:-rates}\"/,\$s/^ *\"$1\": \([0-9.e+-]*\),*\$/\1/p" | head -n 1; }

row() { # DESIGN MODEL TRACE CHUNK FLAG...
  design=$1 model=$2 trace=$3 chunk=$4
  shift 4
  grep -q "^$design,$model,$trace,$chunk," "$out" && return
  tp=8
  case "$model $*" in llama*"--system l3"*) tp=4 ;; esac
  json=$(l3sim capacity --quiet --json --preset fair --slo ttft=2s,tbt=100ms --precision 0.05 --arrivals poisson --model "$model" --trace "$trace" \
    --set model.tensor_parallel=$tp --set "batching.max_num_batched_tokens=$chunk" --set "scheduler.min_prefill_tokens=$chunk" "$@")
  of() { echo "$json" | number "$@"; }
  echo "$design,$model,$trace,$chunk,$(of rate_per_s),$(of attainment),$(of goodput_tokens_per_s),$(of p99 ttft_ms),$(of p99 tbt_ms)" >> "$out"
}

designs() { # MODEL TRACE CHUNK
  row 'A100' "$@" --system gpu-only
  row 'A100 lserve KV8' "$@" --system gpu-only --policy lserve --set model.kv_bits=8
  row 'H100' "$@" --system gpu-only --gpu h100-sxm
  row 'H100 lserve KV8' "$@" --system gpu-only --gpu h100-sxm --policy lserve --set model.kv_bits=8
  row 'hbm-pim' "$@" --system hbm-pim
  row 'L3' "$@" --system l3
  row 'L3 16 ranksets' "$@" --system l3 --set node.ranksets=16
  row 'L3 S1 S3 KV8 units as built' "$@" --system l3 --policy lserve --set comm.head_rotation=request --set model.kv_bits=8
  row 'L3 S1 S3 KV8 2 sets 16 ranksets' "$@" --system l3 --policy lserve --set policy.lserve.select_device=bank --set comm.head_rotation=request \
    --set model.kv_bits=8 --set pim.multipliers=8 --set pim.macs_per_read=2 --set node.ranksets=16
}

for trace in openr1 longbench; do
  for model in llama-3-70b gpt-175b; do
    designs "$model" "$trace" 512
  done
done
cat "$out"
