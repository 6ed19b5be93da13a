package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
)

const plotParts = 100 // number of points of a figure over time

// page returns the file of --plots, an SVG unless its ending says otherwise.
func (f *runFlags) page() string {
	if f.plots != "" && filepath.Ext(f.plots) == "" {
		return f.plots + ".svg"
	}
	return f.plots
}

// checkPage checks before a long run that --plots can be written.
func (f *runFlags) checkPage() error {
	if f.plots == "" {
		return nil
	}
	_, err := figure.Format("--plots", f.page())
	return cmp.Or(err, cli.WritableFile("--plots", f.page()))
}

// plotRun draws a page of figures of a run, over time and as distributions, and writes a CSV file of the numbers over
// time. The page names its configuration by the hash of its summary.
func plotRun(path string, node *system.Node, r *system.Result, config string) error {
	time, gaps, first := r.OverTime(node, plotParts), r.Gaps(), r.FirstTokens()
	page := figure.Page{Across: 2, Source: fmt.Sprintf("l3sim %s, configuration sha256:%s", cli.Version, config)}
	over := func(y string) figure.Selection { return figure.Selection{Kind: "line", X: "time_s", Y: y} }
	for _, f := range []struct {
		title string
		of    *tables.Table
		what  figure.Selection
	}{
		{"Throughput", time, over("output_tokens_per_s")},
		{"Requests", time, over("requests_decoding,requests_prefilling,requests_waiting")},
		{"Times between tokens in each quarter of the run", gaps, figure.Selection{Kind: "cdf", X: "tbt_ms", Group: "time"}},
		{"Times to the first token", first, figure.Selection{Kind: "cdf", X: "ttft_ms"}},
		{"How busy GPUs and processing in memory are", time, over("utilization_gpu,utilization_pim")},
		{"How busy links and memory channels are", time, over("utilization_pcie_down,utilization_pcie_up,utilization_channel")},
		{"Memory for KV", time, over("kv_bytes")},
		{"Power", time, over("power_w")},
	} {
		if len(f.of.Rows) == 0 {
			continue // no gap: every request has one token
		}
		if err := page.Add(f.of, f.what, f.title); err != nil {
			return err
		}
	}
	format, err := figure.Format("--plots", path)
	if err == nil {
		err = results.WriteFileAtomic(path, func(w io.Writer) error { return page.Write(w, format) })
	}
	if err == nil {
		err = results.WriteFileAtomic(strings.TrimSuffix(path, format)+"csv", time.WriteCSV)
	}
	if err != nil {
		return &input.Error{Key: "--plots", Value: path, Expected: "a file that can be written: " + err.Error()}
	}
	return nil
}
