package system

import (
	"errors"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// TestWindowOfNothing: without sink and window all tokens are in the DIMMs, and a run equals dense
// attention to the picosecond.
func TestWindowOfNothing(t *testing.T) {
	deep.Cases(t, deep.Of(3, 1, 1), func(t *rapid.T) {
		cfg, trace := drawNode(t)
		dense := mustRun(t, mustNode(t, cfg), trace, false)
		none := *cfg
		none.Policy = policies.New("window")
		policy.Edit(&none.Policy, func(w *policies.WindowSpec) { w.Window, w.Sink = 0, 0 })
		got := mustRun(t, mustNode(t, &none), trace, false)
		if a, b := requestsOf(t, dense), requestsOf(t, got); a != b || got.Tasks != dense.Tasks || got.busy != dense.busy || got.kv != dense.kv {
			t.Fatalf("dense\n%s\na window of nothing\n%s", a, b)
		}
	})
}

// TestWindowNodes runs random small nodes, with every option of communication, admission and
// prediction, and random windows, under all checks and layer by layer.
func TestWindowNodes(t *testing.T) {
	fewCases(t, func(t *rapid.T) {
		cfg, trace := drawNode(t)
		p := policies.New(rapid.SampledFrom([]string{"window", "hgca"}).Draw(t, "policy"))
		window := rapid.IntRange(1, 300).Draw(t, "window")
		block := rapid.IntRange(1, window).Draw(t, "block")
		if p.Name == "window" {
			policy.Edit(&p, func(w *policies.WindowSpec) {
				*w = policies.WindowSpec{Sink: rapid.IntRange(0, 40).Draw(t, "sink"), Window: window, Block: block}
			})
		} else {
			policy.Edit(&p, func(h *policies.HGCASpec) {
				h.Window, h.Block = window, block
				h.Share, h.KeepAll = rapid.SampledFrom([]float64{0, 0.1, 0.6, 1}).Draw(t, "share"), rapid.Bool().Draw(t, "keep all")
			})
		}
		cfg.Policy = p
		runBothWays(t, cfg, trace)
	})
}

// TestWindowsFillTheGPUs: windows take the GPU memory that weights leave, which limits the number
// of decoding requests; HGCA's averages take 4 bytes a token and KV head.
func TestWindowsFillTheGPUs(t *testing.T) {
	for name, more := range map[string]units.Bytes{"window": 0, "hgca": 96 * 96 * 4} {
		n := nodeOf(t, "policy.name="+name, "policy."+name+".window=4096", "node.memory_capacity=64TiB")
		r := mustRun(t, n, &traces.Trace{Requests: equalLengths(40, 5000, 200)}, false)
		each := 4096 * (n.cfg.Model.KVBytesPerToken() + more)
		if most := int(n.FreeGPUMemory() / each); r.batch.Max > most || r.batch.Max < most-2 {
			t.Errorf("%s: %d requests decode at once, windows have room for %d", name, r.batch.Max, most)
		}
	}
}

// TestWindowErrors: the error for a window beyond the GPUs' memory names its key and a solution.
func TestWindowErrors(t *testing.T) {
	for want, sets := range map[string][]string{
		"policy.window.window = 100000: expected 70358 at most": {"policy.name=window", "policy.window.window=100000"},
		"policy.hgca.window = 90000: expected 69654 at most":    {"policy.name=hgca", "policy.hgca.window=90000"},
		`policy.name = "h2o": expected one of`:                  {"policy.name=h2o"},
	} {
		_, err := everything().Load(configs.Options{Sets: sets})
		if bad := (*input.Error)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", sets, err, want)
		}
	}
}

// TestWindowAllocatesNothing checks the hot path of windows.
func TestWindowAllocatesNothing(t *testing.T) {
	for _, name := range []string{"window", "hgca"} {
		t.Run(name, func(t *testing.T) { checkAllocations(t, "l3", policySets(name)...) })
	}
}

// TestStripedNodes runs random small nodes with stripes, under all checks and layer by layer.
func TestStripedNodes(t *testing.T) {
	fewCases(t, func(t *rapid.T) {
		cfg, trace := drawNode(t)
		cfg.Comm.Stripe = rapid.SampledFrom([]string{scheduler.StripeChannels, scheduler.StripeRanksets}).Draw(t, "stripe")
		cfg.Policy = policies.New(rapid.SampledFrom([]string{"dense", "window", "hgca", "duo"}).Draw(t, "policy"))
		switch cfg.Policy.Name {
		case "window", "hgca":
			window, block := rapid.IntRange(40, 300).Draw(t, "window"), rapid.IntRange(1, 40).Draw(t, "block")
			policy.Edit(&cfg.Policy, func(w *policies.WindowSpec) { w.Window, w.Block = window, block })
			policy.Edit(&cfg.Policy, func(h *policies.HGCASpec) { h.Window, h.Block = window, block })
		case "duo":
			policy.Edit(&cfg.Policy, func(d *policies.DuoSpec) {
				d.StaticSparsity, d.StreamDevice = float64(rapid.IntRange(0, 40).Draw(t, "streaming"))/40, rapid.SampledFrom([]string{"gpu", "home"}).Draw(t, "streams")
			})
		}
		runBothWays(t, cfg, trace)
	})
}
