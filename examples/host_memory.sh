#!/bin/sh
# Runs the sweeps of docs/reference/host-memory.md and prints its tables. Usage, from the repository's root (eight
# minutes, and some more for the units): sh examples/host_memory.sh [FOLDER_OF_RESULTS [GPUS_ONLY]]
# With a second argument the units' sweep is left out. l3sim must be on the PATH (go install ./cmd/l3sim).
set -eu
out=${1:-out/host_memory}
columns=decode_batch_max,tbt_decode_p50_ms,usd_per_hour,site_power_mean_w

# points SWEEP: a line for each point: model, context, design, then the columns.
points() {
  l3sim sweep "$1" --out "$out/$2" >&2
  l3sim table "$out/$2" --columns "point,$columns" --format csv | sed '1d; s/"//g' | awk -F, '{
    for (i = 1; i < NF - 3; i++) { split($i, kv, "="); if (kv[1] == "model") m = kv[2]; else if (kv[1] == "input_mean") c = kv[2]; else d = $i }
    if ($(NF - 2) > 0) print m "," c "," d "," $(NF - 3) "," $(NF - 2) "," $(NF - 1) "," $NF }'
}

# tables: by model and context the best batch of each design, first at any latency, then within 100 ms between tokens.
tables='
  function thousands(x,    s, t) { s = sprintf("%.0f", x); t = ""; while (length(s) > 3) { t = "," substr(s, length(s) - 2) t; s = substr(s, 1, length(s) - 3) } return s t }
  function even(k, s,    i, n, h, r, g) { # the hit rate at which a schedule is as fast as GPUs alone
    n = split("0 0.5 0.7 0.85 0.98", h, " "); g = rate[k "GPUs alone"]
    if (rate[k s " 0"] >= g) return "always ahead"
    for (i = 2; i <= n; i++) if (rate[k s " " h[i]] >= g) {
      r = rate[k s " " h[i - 1]]
      return sprintf("%.2f", h[i - 1] + (h[i] - h[i - 1]) * (g - r) / (rate[k s " " h[i]] - r))
    }
    return "behind at 0.98"
  }
  function at(k,    r) { r = fast[k]; return r == "" ? "none" : thousands(r) " (" batch[k] "), " sprintf("%.2f", usd[k] / r / 0.0036) ", " thousands(1000 * r / watts[k]) }
  function of(k) { return rate[k] == "" ? "none" : thousands(most[k]) ": " thousands(rate[k]) }
  { k = $1 "," $2 ","; if (!(k in seen)) { seen[k] = ++keys; name[keys] = k }
    k = k $3; r = $4 / $5 * 1000
    if (r > rate[k]) { rate[k] = r; most[k] = $4 }
    if ($5 <= 100 && r > fast[k]) { fast[k] = r; batch[k] = $4; usd[k] = $6; watts[k] = $7 } }
  END {
    if (units) {
      print "| model | context | l3 | l3, sets for 8 heads | gpu+cpu |\n| --- | ---: | ---: | ---: | ---: |"
      for (i = 1; i <= keys; i++) { k = name[i]; split(k, p, ","); printf "| %s | %s | %s | %s | %s |\n", p[1], thousands(p[2]), of(k "l3"), of(k "l3 8 heads"), of(k "gpu+cpu") }
      exit
    }
    print "| model | context | GPUs alone | in order at 0.70, 0.85, 0.98 | two at 0.70, 0.85, 0.98 | even in order | even as two |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for (i = 1; i <= keys; i++) { k = name[i]; split(k, p, ",")
      printf "| %s | %s | %s: %s | %s: %s, %s, %s | %s, %s, %s | %s | %s |\n", p[1], thousands(p[2]), most[k "GPUs alone"], thousands(rate[k "GPUs alone"]), most[k "in-order 0.85"],
        thousands(rate[k "in-order 0.7"]), thousands(rate[k "in-order 0.85"]), thousands(rate[k "in-order 0.98"]), thousands(rate[k "two 0.7"]), thousands(rate[k "two 0.85"]), thousands(rate[k "two 0.98"]),
        even(k, "in-order"), even(k, "two") }
    print "\n| model | context | GPUs alone | in order, 0.85 | two, 0.85 |\n| --- | ---: | ---: | ---: | ---: |"
    for (i = 1; i <= keys; i++) { k = name[i]; split(k, p, ","); printf "| %s | %s | %s | %s | %s |\n", p[1], thousands(p[2]), at(k "GPUs alone"), at(k "in-order 0.85"), at(k "two 0.85") }
  }'

# draws: the share of draws in which one design is ahead of another, and the range of the ratio of rates. A point is quoted and ends with its design.
draws='
  NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i - 1; next }
  { match($0, /^"[^"]*",/); design = substr($0, 2, RLENGTH - 3); sub(/.*,/, "", design); split(substr($0, RLENGTH + 1), f, ",")
    k = f[column["run.model"]] " | " f[column["traces.input_mean"]]; if (!(k in seen)) { seen[k] = ++keys; name[keys] = k }
    d = f[column["draw"]]; if (d > most) most = d
    rate[k, d, design] = f[column["decode_batch_max"]] / f[column["tbt_decode_p50_ms"]] }
  function ahead(k, a, b,    d, n, r, low, high) {
    for (d = 1; d <= most; d++) { r = rate[k, d, a] / rate[k, d, b]; n += r > 1; if (d == 1 || r < low) low = r; if (r > high) high = r }
    return sprintf("%d%%, %.2f to %.2f", 100 * n / most, low, high)
  }
  END {
    print "\n| model | context | in order over GPUs alone | two over GPUs alone | two over in order |\n| --- | ---: | ---: | ---: | ---: |"
    for (i = 1; i <= keys; i++) { k = name[i]; printf "| %s | %s | %s | %s |\n", k, ahead(k, "in-order", "GPUs alone"), ahead(k, "two", "GPUs alone"), ahead(k, "two", "in-order") }
  }'

for gpus in h200 b200 gb200; do # all contexts on the first
  echo "## $gpus"
  contexts='[32768, 131072]'
  [ "$gpus" != h200 ] || contexts='[8192, 32768, 131072, 1040000]'
  sed "/^#/d; s/^gpu.fit = .*/$(sed -n "s/^# $gpus: //p" examples/host_memory.toml)/" examples/host_memory.toml | tr ';' '\n' | sed "s/^traces.input_mean = .*/traces.input_mean = $contexts/" >"$out.$gpus.toml"
  points "$out.$gpus.toml" "$gpus" | awk -F, "$tables"
done
points examples/host_memory_band.toml band | sort | awk -F, '{ printf "%s %s %s: %d requests, %.0f steps a second\n", $1, $2, $3, $4, 1000 * $4 / $5 }'
l3sim sweep examples/host_memory_draws.toml --bands 20 --out "$out/draws" >&2
awk -F, "$draws" "$out/draws/draws.csv"
[ $# -gt 1 ] || points examples/host_memory_units.toml units | awk -F, -v units=1 "$tables"
[ $# -gt 1 ] || points examples/host_memory_latents.toml latents | awk -F, '{ printf "%s %s %s: %d requests, %.0f tokens a second\n", $1, $2, $3, $4, 1000 * $4 / $5 }'
