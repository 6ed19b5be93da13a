package main

import (
	"fmt"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/system"
)

// plotParts is how many points a figure over time has.
const plotParts = 100

// plotRun draws the figures of one run into a folder, and writes the tables that they are of.
func plotRun(dir string, node *system.Node, r *system.Result) error {
	time, gaps, first := r.OverTime(node, plotParts), r.Gaps(), r.FirstTokens()
	files := []results.File{{Name: "over_time.csv", Write: time.WriteCSV}}
	for _, f := range []struct {
		name string
		of   *results.Table
		what figure.Selection
	}{
		{"throughput", time, figure.Selection{Kind: "line", X: "time_s", Y: "output_tokens_per_s"}},
		{"tbt", time, figure.Selection{Kind: "line", X: "time_s", Y: "tbt_p50_ms,tbt_p99_ms,tbt_max_ms"}},
		{"requests", time, figure.Selection{Kind: "line", X: "time_s", Y: "requests_decoding,requests_prefilling,requests_waiting"}},
		{"memory", time, figure.Selection{Kind: "line", X: "time_s", Y: "kv_bytes"}},
		{"utilization", time, figure.Selection{Kind: "line", X: "time_s", Y: "utilization_gpu,utilization_pim,utilization_pcie_down,utilization_pcie_up,utilization_channel"}},
		{"power", time, figure.Selection{Kind: "line", X: "time_s", Y: "power_w"}},
		{"tbt_cdf", gaps, figure.Selection{Kind: "cdf", X: "tbt_ms"}},
		{"ttft_cdf", first, figure.Selection{Kind: "cdf", X: "ttft_ms"}},
	} {
		if len(f.of.Rows) == 0 {
			continue // no gap: every request has one token
		}
		file, err := figure.File(f.of, f.what, f.name, "svg", "")
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		files = append(files, file)
	}
	return writeFiles("--plots", dir, files)
}
