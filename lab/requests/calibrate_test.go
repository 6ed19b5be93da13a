package requests

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

// planted returns the log that a server with these constants would write: the requests of a run
// with them.
func planted(t *testing.T, sets ...string) *Log {
	t.Helper()
	log := &Log{File: "planted"}
	for i := range 60 {
		log.Requests = append(log.Requests, Request{Line: i + 1, Input: 200 + 37*(i%11), Output: 40 + 13*(i%7), Arrival: 0.05 * float64(i), Queue: -1, TTFT: 1, Latency: 2})
	}
	r, err := Judge(t.Context(), log, configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	for i, j := range r.Judged {
		log.Requests[i].TTFT, log.Requests[i].Latency = j.Simulated.TTFT, j.Simulated.Latency
	}
	return log
}

// TestPlantedConstants: the constants behind a log are found, and errors of held-out requests vanish.
func TestPlantedConstants(t *testing.T) {
	deep.Heavy(t)
	server := []string{`gpu.preset="rtx-4090-vllm-0.19"`, `run.model="llama-3.1-8b"`}
	log := planted(t, append(server, `gpu.host.exposed="900us"`)...)
	c, err := Calibrate(t.Context(), []*Log{log}, 0.5, configs.Options{Sets: server})
	if err != nil {
		t.Fatal(err)
	}
	if k := c.Constants[0]; k.Key != "gpu.host.exposed" || k.Before != 0 || math.Abs(k.After-900) > 10 {
		t.Errorf("%+v, planted 900 us", k)
	}
	if len(c.Constants) != 3 || c.Runs < 100 { // some 20 runs for each of them, twice
		t.Errorf("%d runs for %+v", c.Runs, c.Constants)
	}
	l := c.Logs[0]
	if l.Fitted != 30 || l.Held != 30 || len(l.Percentiles) != 9 {
		t.Errorf("%+v", l)
	}
	for _, p := range l.Percentiles {
		if math.Abs(p.After) > 0.003 || p.Time == tpot && p.Before > -0.02 {
			t.Errorf("%+v: less than 0.3%% off after the fit, more than 2%% before", p)
		}
	}
	var text bytes.Buffer
	if c.WriteText(&text) != nil || !strings.Contains(text.String(), "gpu.host.exposed: 0 -> ") || !strings.Contains(text.String(), "TPOT         p99") {
		t.Error(text.String())
	}
	path := filepath.Join(t.TempDir(), "mine.toml")
	if err := results.WriteFileAtomic(path, c.WriteTOML); err != nil {
		t.Fatal(err)
	}
	cfg, err := system.Load(configs.Options{Preset: "fair", ConfigFiles: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	if host := cfg.GPU.Host.Exposed; math.Abs(host.Seconds()-900e-6) > 10e-6 {
		t.Errorf("%v in the file", host)
	}
}

// TestCalibrateHoldsOut: held-out requests change no constant.
func TestCalibrateHoldsOut(t *testing.T) {
	deep.Heavy(t)
	server := configs.Options{Sets: []string{`gpu.preset="rtx-4090-vllm-0.19"`, `run.model="llama-3.1-8b"`}}
	log := planted(t, append(server.Sets, `gpu.host.exposed="500us"`)...)
	first, err := Calibrate(t.Context(), []*Log{log}, 0.5, server)
	if err != nil {
		t.Fatal(err)
	}
	for i := 30; i < 60; i++ {
		log.Requests[i].TTFT, log.Requests[i].Latency = 7*log.Requests[i].TTFT, 9*log.Requests[i].Latency
	}
	again, err := Calibrate(t.Context(), []*Log{log}, 0.5, server)
	if err != nil {
		t.Fatal(err)
	}
	if first.Constants[0] != again.Constants[0] || again.Logs[0].Percentiles[0].After > -0.8 {
		t.Errorf("%+v and %+v", first.Constants, again.Constants)
	}
}

// TestCalibrateServers: fitted on the first half of each server's log, medians of held-out times are within the aims.
func TestCalibrateServers(t *testing.T) {
	deep.Only(t) // some 10 s of runs
	for name, gpu := range map[string]string{"RTX4090_Llama-3.1-8B": "rtx-4090-vllm-0.19", "RTXPRO6000_Qwen3-32B": "rtx-pro-6000-server-vllm-0.19"} {
		log, err := Read(filepath.Join(logs, name, "requests.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Calibrate(t.Context(), []*Log{log}, 0.5, configs.Options{Sets: []string{`gpu.preset="` + gpu + `"`}})
		if err != nil {
			t.Fatal(err)
		}
		most := map[string]map[int]float64{tpot: {50: 0.02, 99: 0.1}, ttft: {50: 0.04, 99: 0.1}}
		for _, p := range c.Logs[0].Percentiles {
			if limit, bounded := most[p.Time][p.Percent]; bounded && math.Abs(p.After) > limit {
				t.Errorf("%s: %s of %d%% is %.3f off", name, p.Time, p.Percent, p.After)
			}
		}
		fitted := slices.ContainsFunc(c.Constants, func(c Constant) bool { return c.Key == "gpu.memory_share" })
		if known := log.Server.KV.Tokens > 0; known == fitted {
			t.Errorf("%s: %+v", name, c.Constants)
		}
	}
}

// TestBadShares: neither the fitted nor the held-out part may be empty.
func TestBadShares(t *testing.T) {
	for _, share := range []float64{0, 1, math.NaN(), -1} {
		if _, err := Calibrate(t.Context(), nil, share, configs.Options{}); err == nil || !strings.Contains(err.Error(), "expected a share of each log's requests from 0.1 to 0.9") {
			t.Errorf("%v: %v", share, err)
		}
	}
}

// TestCalibrateNeedsOthers: a log without a request that judges the fit is refused.
func TestCalibrateNeedsOthers(t *testing.T) {
	log := &Log{File: "log", Requests: []Request{{Input: 10, Output: 3}}}
	if _, err := Calibrate(t.Context(), []*Log{log}, 0.5, configs.Options{}); err == nil || !strings.Contains(err.Error(), "log: requests = 1: expected at least two requests") {
		t.Errorf("one request: %v", err)
	}
}
