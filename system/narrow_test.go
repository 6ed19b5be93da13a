package system

import (
	"fmt"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// narrowTrace is a few requests of different lengths.
var narrowTrace = &traces.Trace{Name: "few", Requests: []traces.Request{
	{ID: 0, Input: 900, Output: 40}, {ID: 1, Input: 2100, Output: 25}, {ID: 2, Input: 33, Output: 60}, {ID: 3, Input: 1024, Output: 9},
}}

// TestWidthsOfElements: setting the model's own widths changes nothing on any system, to the picosecond.
func TestWidthsOfElements(t *testing.T) {
	deep.Only(t)
	for _, s := range densely() {
		run := func(sets ...string) string {
			cfg := mustLoad(t, append(sets, "run.system="+s.Name, "run.model=llama-3-8b")...)
			return fmt.Sprint(mustRun(t, mustNode(t, cfg), narrowTrace, false).Requests)
		}
		if got, want := run("model.kv_bits=16", "model.weight_bits=16", "model.activation_bits=16", "pim.multipliers=4", "hbm_pim.elements_per_read=1"), run(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", s.Name, got, want)
		}
	}
}

// narrowSets are widths of keys and values with their scales, and units to read them. narrowProducts are
// widths of products.
var (
	narrowSets = [][]string{
		{"model.kv_bits=8"}, {"model.kv_bits=4", "pim.multipliers=8", "hbm_pim.elements_per_read=2"},
		{"model.kv_bits=8", "pim.scales=buffer", "pim.multipliers=8", "hbm_pim.elements_per_read=2"}, {"model.kv_bits=4", "model.kv_scales=tensor", "hbm_pim.elements_per_read=4", "hbm_pim.model=factor"},
		{"model.kv_bits=4", "model.kv_scales=channel", "pim.multipliers=8"}, {"model.kv_format=fp8", "pim.multipliers=8"},
	}
	narrowProducts = [][]string{nil, {"model.weight_bits=8", "model.activation_bits=8"}, {"model.weight_bits=4", "model.activation_bits=8"}, {"model.weight_bits=4"}}
)

// TestNarrowRuns: random nodes of every system with narrow keys and values run under all checks, and layer by
// layer with the same result as with shortcuts.
func TestNarrowRuns(t *testing.T) {
	deep.Heavy(t)
	for _, s := range densely() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			deep.Cases(t, deep.Of(4, 1, 1), func(t *rapid.T) {
				d := drawBaseline(t)
				sets := slices.Concat(rapid.SampledFrom(narrowSets).Draw(t, "narrow"), rapid.SampledFrom(narrowProducts).Draw(t, "products"))
				if slices.Contains(s.Policies(), "lserve") && rapid.Bool().Draw(t, "pages") {
					sets = append(sets, policySets("lserve")...)
				}
				cfg := d.load(t, s.Name, sets...)
				if got, want := requestsOf(t, mustRun(t, mustNode(t, cfg), d.trace, false)), requestsOf(t, mustRun(t, mustNode(t, cfg), d.trace, true)); got != want {
					t.Fatalf("got\n%s\nlayer by layer\n%s", got, want)
				}
			})
		})
	}
}

// TestNarrowMemory: a token takes 512 bytes a KV head at 16 bits, 264 at 8 and 136 at 4 with their scales, on GPUs and
// the host. A unit of a rank has 512, 1,024 and 2,048 tokens, and with scales in
// its rows 960 and 1,920: of 128 columns in a bank 60 times two for keys and 4 for scales, or 120 and 8.
func TestNarrowMemory(t *testing.T) {
	for _, c := range []struct {
		sets  []string
		bytes units.Bytes // of a token and KV head
		unit  int         // tokens
	}{
		{nil, 512, 512}, {[]string{"model.kv_bits=8"}, 264, 960}, {[]string{"model.kv_bits=4"}, 136, 1920},
		{[]string{"model.kv_bits=8", "pim.scales=buffer"}, 264, 1024}, {[]string{"model.kv_bits=4", "pim.scales=buffer"}, 136, 2048},
		{[]string{"model.kv_format=fp8"}, 256, 1024}, {[]string{"model.kv_format=int8"}, 264, 960}, {[]string{"model.kv_format=bf16"}, 512, 512},
		{[]string{"model.kv_bits=8", "model.kv_scales=tensor"}, 256, 1024}, {[]string{"model.kv_bits=4", "model.kv_scales=tensor"}, 128, 2048},
	} {
		for _, name := range []string{"gpu-only", "gpu+cpu", "cpu-offload", "hbm-pim"} {
			n := nodeOf(t, append(c.sets, "run.system="+name, "run.model=llama-3-8b")...)
			if got, want := n.memory.Unit, units.Bytes(n.cfg.Batching.PageTokens)*c.bytes; got != want {
				t.Errorf("%s, %v: a page takes %v, want %v", name, c.sets, got, want)
			}
		}
		for _, name := range []string{"l3", "rank-pim"} {
			cfg, err := everything().Load(configs.Options{Sets: append(c.sets, "run.system="+name, "run.model=llama-3-8b")})
			if err != nil {
				t.Fatal(err)
			}
			n := newNode(cfg, kinds.CommandTables{}) // only memory matters
			ledger := ranks.Ledger(n.hw, false)
			units := int(ledger.Capacity()) / n.cfg.Node.Ranksets / (n.cfg.Model.Layers * n.cfg.Model.KVHeads / n.cfg.ReplicaChannels()) // of a head of a rankset
			if most := units * c.unit; !ledger.FitsEmpty(memory.Length{Prompt: most, Tokens: most}) || ledger.FitsEmpty(memory.Length{Prompt: most + 1, Tokens: most + 1}) {
				t.Errorf("%s, %v: a rankset does not hold %d tokens at most", name, c.sets, most)
			}
		}
	}
}

// TestWeightBits: weights of 8 bits leave the GPUs more room for keys and values, and decode steps of few requests are
// shorter by the time to read them.
func TestWeightBits(t *testing.T) {
	sets := []string{"run.system=gpu-only", "run.model=llama-3-8b", "gpu.preset=a100-sxm-80gb"}
	step := func(more ...string) (*configs.Config, units.Duration, units.Bytes) {
		cfg := mustLoad(t, append(sets, more...)...)
		n := mustNode(t, cfg)
		r := mustRun(t, n, &traces.Trace{Name: "one", Requests: []traces.Request{{Input: 100, Output: 101}}}, false)
		return cfg, r.Requests[0].Finish - r.Requests[0].FirstToken, n.FreeGPUMemory()
	}
	cfg, wide, free := step()
	_, narrow, more := step("model.weight_bits=8", "model.activation_bits=8")
	half := units.Bytes(int64(cfg.Model.Layers) * cfg.Model.LayerParameters())
	if more-free != half {
		t.Errorf("8 bits leave %v more, want %v", more-free, half)
	}
	read := cfg.GPU.MemoryBandwidth.TransferTime(half) * 100
	if saved := wide - narrow; saved < read || float64(saved) > 1.35*float64(read) {
		t.Errorf("100 steps take %v less, reading half of the weights takes %v", saved, read)
	}
}
