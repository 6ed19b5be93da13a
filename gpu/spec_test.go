package gpu

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestValidateEveryNumber: no number of a specification may be negative, and no real number NaN or infinite.
func TestValidateEveryNumber(t *testing.T) {
	s := loadPreset(t, "h200-sxm") // has both suites
	count := 0
	try := func(name string, set func(), reset func()) {
		t.Helper()
		set()
		if len(input.Faults(s)) == 0 {
			t.Errorf("%s is accepted", name)
		}
		reset()
		count++
	}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		for i := range v.NumField() {
			f, name := v.Field(i), path+v.Type().Field(i).Name
			switch {
			case f.Kind() == reflect.Struct:
				walk(name+".", f)
			case f.CanFloat():
				old := f.Float()
				for _, bad := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1)} {
					try(name, func() { f.SetFloat(bad) }, func() { f.SetFloat(old) })
				}
			case f.CanInt():
				old := f.Int()
				try(name, func() { f.SetInt(-1) }, func() { f.SetInt(old) })
			}
		}
	}
	walk("", reflect.ValueOf(s).Elem())
	if errs := input.Faults(s); len(errs) > 0 || count < 300 {
		t.Fatalf("%d values tried, %v", count, errs)
	}
}

// TestRanges: each range includes its ends and excludes the next numbers, and an error has the key with its section.
func TestRanges(t *testing.T) {
	nan := math.NaN()
	type test struct {
		set     func(*Spec, float64)
		in, out []float64
		says    string // what an error expects, "" for any
	}
	tests := map[string]test{}
	add := func(key string, set func(*Spec, float64), in, out []float64) { tests[key] = test{set, in, out, ""} }
	count := func(key string, set func(*Spec, int), low, high float64) {
		tests[key] = test{func(s *Spec, v float64) { set(s, int(v)) }, []float64{low, high}, []float64{low - 1, high + 1}, fmt.Sprintf("%.0f to %.0f", low, high)}
	}
	duration := func(key string, field func(*Spec) *units.Duration) {
		add(key, func(s *Spec, v float64) { *field(s) = units.Duration(v) }, []float64{0, 1, 1e12}, []float64{-1, 1e12 + 1})
	}
	share := func(key string, field func(*Spec) *float64) {
		add(key, func(s *Spec, v float64) { *field(s) = v }, []float64{1e-300, 1}, []float64{0, -1, 1.0001, nan})
	}
	most := func(key string, low float64, field func(*Spec) *float64) {
		add(key, func(s *Spec, v float64) { *field(s) = v }, []float64{low, 1e9}, []float64{low - 1e-3, 1.001e9, nan})
	}
	rate := func(key string, field func(*Spec) *units.Bandwidth) {
		add(key, func(s *Spec, v float64) { *field(s) = units.Bandwidth(v) }, []float64{1, 1e18}, []float64{0, 0.9, 1.1e18, nan})
	}
	add("memory_capacity", func(s *Spec, v float64) { s.MemoryCapacity, s.MemoryReserve = units.Bytes(v), 0 }, []float64{1, 1 << 50}, []float64{0, -1, 1<<50 + 1})
	add("memory_reserve", func(s *Spec, v float64) { s.MemoryCapacity, s.MemoryReserve = 100, units.Bytes(v) }, []float64{0, 99}, []float64{-1, 100})
	for key, field := range map[string]func(*Spec) *units.FLOPRate{
		"peak_16bit": func(s *Spec) *units.FLOPRate { return &s.Peak16 }, "peak_8bit": func(s *Spec) *units.FLOPRate { return &s.Peak8 },
	} {
		add(key, func(s *Spec, v float64) { *field(s) = units.FLOPRate(v) }, []float64{1, 1e21}, []float64{0, 1.1e21, nan})
	}
	rate("memory_bandwidth", func(s *Spec) *units.Bandwidth { return &s.MemoryBandwidth })
	count("sms", func(s *Spec, v int) { s.SMs = v }, 1, 1<<20)
	count("pcie_generation", func(s *Spec, v int) { s.PCIeGeneration = v }, 3, 6)
	for section, e := range map[string]func(*Spec) *Efficiency{
		"gemm": func(s *Spec) *Efficiency { return &s.MatMul.Efficiency }, "prefill_attention": func(s *Spec) *Efficiency { return &s.Prefill.Efficiency },
		"decode_attention":         func(s *Spec) *Efficiency { return &s.Decode.Efficiency },
		"pytorch.decode_attention": func(s *Spec) *Efficiency { return &s.PyTorch.Decode.Efficiency },
	} {
		share(section+".compute_efficiency", func(s *Spec) *float64 { return &e(s).Compute })
		share(section+".memory_efficiency", func(s *Spec) *float64 { return &e(s).Memory })
		add(section+".ridge", func(s *Spec, v float64) { e(s).Ridge = v }, []float64{0, 1, 100}, []float64{-1, 0.5, 101, nan})
		duration(section+".overhead", func(s *Spec) *units.Duration { return &e(s).Overhead })
	}
	most("gemm.tile_knee", 0, func(s *Spec) *float64 { return &s.MatMul.TileKnee })
	most("gemm.k_ramp", 0, func(s *Spec) *float64 { return &s.MatMul.KRamp })
	most("gemm.step_latency_ns", 0, func(s *Spec) *float64 { return &s.MatMul.StepLatency })
	most("gemm.split_overhead_us", 0, func(s *Spec) *float64 { return &s.MatMul.SplitOverhead })
	most("gemm.split_traffic", 0, func(s *Spec) *float64 { return &s.MatMul.SplitTraffic })
	count("gemm.tile_step", func(s *Spec, v int) { s.MatMul.TileStep = v }, 0, 256)
	for prefix, a := range map[string]func(*Spec) *AttentionSpec{
		"": func(s *Spec) *AttentionSpec { return &s.AttentionSpec }, "pytorch.": func(s *Spec) *AttentionSpec { return &s.PyTorch },
	} {
		prefill, decode := prefix+"prefill_attention.", prefix+"decode_attention."
		count(prefill+"query_rows", func(s *Spec, v int) { a(s).Prefill.QueryRows = v }, 1, 1024)
		count(prefill+"split_query_rows", func(s *Spec, v int) { a(s).Prefill.SplitRows = v }, 1, 1024)
		count(prefill+"blocks_per_sm", func(s *Spec, v int) { a(s).Prefill.BlocksPerSM = v }, 1, 1024)
		share(prefill+"lone_block_share", func(s *Spec) *float64 { return &a(s).Prefill.LoneBlock })
		most(prefill+"startup_keys", 0, func(s *Spec) *float64 { return &a(s).Prefill.Startup })
		most(prefill+"causal_tail", 0, func(s *Spec) *float64 { return &a(s).Prefill.CausalTail })
		most(prefill+"split_target", 0, func(s *Spec) *float64 { return &a(s).Prefill.SplitTarget })
		most(prefill+"split_limit", 0, func(s *Spec) *float64 { return &a(s).Prefill.SplitLimit })
		count(prefill+"split_keys", func(s *Spec, v int) { a(s).Prefill.SplitKeys = v }, 1, 1<<30)
		count(prefill+"max_splits", func(s *Spec, v int) { a(s).Prefill.MaxSplits = v }, 1, 1024)
		duration(prefill+"merge_overhead", func(s *Spec) *units.Duration { return &a(s).Prefill.MergeOverhead })
		duration(prefill+"merge_row", func(s *Spec) *units.Duration { return &a(s).Prefill.MergeRow })
		most(prefill+"kv_traffic", 1, func(s *Spec) *float64 { return &a(s).Prefill.KVTraffic })
		count(decode+"query_rows", func(s *Spec, v int) { a(s).Decode.QueryRows = v }, 1, 1024)
		count(decode+"unsplit_query_rows", func(s *Spec, v int) { a(s).Decode.UnsplitRows = v }, 1, 1024)
		count(decode+"blocks_per_sm", func(s *Spec, v int) { a(s).Decode.BlocksPerSM = v }, 1, 1024)
		most(decode+"split_target", 0, func(s *Spec) *float64 { return &a(s).Decode.SplitTarget })
		most(decode+"split_limit", 0, func(s *Spec) *float64 { return &a(s).Decode.SplitLimit })
		count(decode+"split_keys", func(s *Spec, v int) { a(s).Decode.SplitKeys = v }, 1, 1<<30)
		count(decode+"max_splits", func(s *Spec, v int) { a(s).Decode.MaxSplits = v }, 1, 1<<20)
		count(decode+"split_min_group", func(s *Spec, v int) { a(s).Decode.SplitMinGroup = v }, 1, 1<<20)
		duration(decode+"block_startup", func(s *Spec) *units.Duration { return &a(s).Decode.BlockStartup })
		duration(decode+"fill_time", func(s *Spec) *units.Duration { return &a(s).Decode.FillTime })
		duration(decode+"group_overhead", func(s *Spec) *units.Duration { return &a(s).Decode.GroupOverhead })
		duration(decode+"merge_overhead", func(s *Spec) *units.Duration { return &a(s).Decode.MergeOverhead })
		duration(decode+"merge_part", func(s *Spec) *units.Duration { return &a(s).Decode.MergePart })
		duration(decode+"unequal_time", func(s *Spec) *units.Duration { return &a(s).Decode.UnequalTime })
		most(decode+"unequal_share", 0, func(s *Spec) *float64 { return &a(s).Decode.UnequalShare })
		most(decode+"unequal_target", 0, func(s *Spec) *float64 { return &a(s).Decode.UnequalTarget })
		rate(decode+"unequal_bandwidth", func(s *Spec) *units.Bandwidth { return &a(s).Decode.UnequalBandwidth })
		rate(decode+"block_bandwidth", func(s *Spec) *units.Bandwidth { return &a(s).Decode.BlockBandwidth })
	}
	count("measured.product_rows", func(s *Spec, v int) { s.Measured.ProductRows = v }, 0, 1<<40)
	count("measured.product_width", func(s *Spec, v int) { s.Measured.ProductWidth = v }, 0, 1<<40)
	count("measured.decode_requests", func(s *Spec, v int) { s.Measured.DecodeRequests = v }, 0, 1<<40)
	count("measured.decode_context", func(s *Spec, v int) { s.Measured.DecodeContext = v }, 0, 1<<40)
	count("measured.prefill_tokens", func(s *Spec, v int) { s.Measured.PrefillTokens = v }, 0, 1<<40)
	duration("fused.overhead", func(s *Spec) *units.Duration { return &s.Fused.Overhead })
	add("fused.norm_memory_efficiency", func(s *Spec, v float64) { s.Fused.Norm = v }, []float64{0.001, 1, 10}, []float64{0, -0.1, 10.1, nan})
	add("fused.activation_memory_efficiency", func(s *Spec, v float64) { s.Fused.Activation = v }, []float64{0.001, 1, 10}, []float64{0, -0.1, 10.1, nan})
	add("fused.copy_memory_efficiency", func(s *Spec, v float64) { s.Fused.Copy = v }, []float64{0.001, 1, 10}, []float64{0, -0.1, 10.1, nan})
	duration("fused.row_element_latency", func(s *Spec) *units.Duration { return &s.Fused.RowElement })
	for key, field := range map[string]func(*PowerSpec) *float64{
		"idle_w": func(p *PowerSpec) *float64 { return &p.Idle }, "active_idle_w": func(p *PowerSpec) *float64 { return &p.ActiveIdle },
		"base_w": func(p *PowerSpec) *float64 { return &p.Base }, "pj_per_byte": func(p *PowerSpec) *float64 { return &p.PerByte },
		"pj_per_flop": func(p *PowerSpec) *float64 { return &p.PerFLOP },
	} {
		add("power."+key, func(s *Spec, v float64) { *field(&s.Power) = v }, []float64{0, 1e6}, []float64{-1, 1.001e6, nan})
	}
	add("power.limit_w", func(s *Spec, v float64) { s.Power.Limit = v }, []float64{1e-3, 1e6}, []float64{0, -1, 1.001e6, nan})
	add("power.throttle", func(s *Spec, v float64) { s.Power.Throttle = v }, []float64{0, 1}, []float64{-0.1, 1.1, nan})
	add("all_reduce.skew", func(s *Spec, v float64) { s.Collective.Skew = v }, []float64{0, 1}, []float64{-0.1, 1.1, nan})
	duration("alone.small_overhead", func(s *Spec) *units.Duration { return &s.Alone.SmallOverhead })
	add("alone.small_flush_share", func(s *Spec, v float64) { s.Alone.SmallFlushShare = v }, []float64{0, 1}, []float64{-0.1, 1.1, nan})
	duration("alone.overhead", func(s *Spec) *units.Duration { return &s.Alone.Overhead })
	add("alone.l2", func(s *Spec, v float64) { s.Alone.L2 = units.Bytes(v) }, []float64{1, 1 << 40}, []float64{0, -1, 1<<40 + 1})
	add("alone.flush_share", func(s *Spec, v float64) { s.Alone.FlushShare = v }, []float64{0, 1}, []float64{-0.1, 1.1, nan})
	share("elementwise.memory_efficiency", func(s *Spec) *float64 { return &s.Pointwise.Memory })
	share("elementwise.activation_memory_efficiency", func(s *Spec) *float64 { return &s.Pointwise.ActivationMemory })
	duration("elementwise.overhead", func(s *Spec) *units.Duration { return &s.Pointwise.Overhead })
	duration("elementwise.norm_overhead", func(s *Spec) *units.Duration { return &s.Pointwise.NormOverhead })
	duration("elementwise.norm_element_latency", func(s *Spec) *units.Duration { return &s.Pointwise.NormLatency })
	add("all_reduce.small_limit", func(s *Spec, v float64) { s.Collective.SmallLimit = units.Bytes(v) }, []float64{0, 1, 1 << 40}, []float64{-1})
	for key, field := range map[string]func(*AllReduceSpec) *units.Duration{
		"small_latency": func(a *AllReduceSpec) *units.Duration { return &a.SmallLatency }, "small_latency_per_gpu": func(a *AllReduceSpec) *units.Duration { return &a.SmallLatencyPerGPU },
		"second_shot_latency": func(a *AllReduceSpec) *units.Duration { return &a.SecondShotLatency }, "second_shot_latency_per_gpu": func(a *AllReduceSpec) *units.Duration { return &a.SecondShotPerGPU },
		"flagged_latency": func(a *AllReduceSpec) *units.Duration { return &a.FlaggedLatency }, "flagged_latency_per_gpu": func(a *AllReduceSpec) *units.Duration { return &a.FlaggedPerGPU },
		"latency":         func(a *AllReduceSpec) *units.Duration { return &a.Latency },
		"latency_per_gpu": func(a *AllReduceSpec) *units.Duration { return &a.LatencyPerGPU },
	} {
		duration("all_reduce."+key, func(s *Spec) *units.Duration { return field(&s.Collective) })
	}
	rate("all_reduce.small_bandwidth", func(s *Spec) *units.Bandwidth { return &s.Collective.SmallBandwidth })
	rate("all_reduce.second_shot_bandwidth", func(s *Spec) *units.Bandwidth { return &s.Collective.SecondShotBandwidth })
	rate("all_reduce.flagged_bandwidth", func(s *Spec) *units.Bandwidth { return &s.Collective.FlaggedBandwidth })
	rate("all_reduce.bandwidth", func(s *Spec) *units.Bandwidth { return &s.Collective.Bandwidth })
	most("all_reduce.latency_slope_ns_per_byte", 0, func(s *Spec) *float64 { return &s.Collective.LatencySlope })
	preset := loadPreset(t, "h200-sxm")
	for key, c := range tests {
		for _, v := range c.in {
			s := *preset
			c.set(&s, v)
			if errs := input.Faults(&s); len(errs) > 0 {
				t.Errorf("%s = %v: %v", key, v, errs[0])
			}
		}
		for _, v := range c.out {
			s := *preset
			c.set(&s, v)
			if errs := input.Faults(&s); len(errs) != 1 || errs[0].Key != key || c.says != "" && errs[0].Expected != c.says {
				t.Errorf("%s = %v: %v", key, v, errs)
			}
		}
	}
	for key, set := range map[string]func(*Spec){
		"gemm.model": func(s *Spec) { s.MatMul.Model = "x" }, "prefill_attention.model": func(s *Spec) { s.Prefill.Model = "" },
		"decode_attention.model": func(s *Spec) { s.Decode.Model = "ring" }, "elementwise.model": func(s *Spec) { s.Pointwise.Model = "flash" },
		"all_reduce.model": func(s *Spec) { s.Collective.Model = "ring" }, "all_reduce.method": func(s *Spec) { s.Collective.Method = "" },
		"suite": func(s *Spec) { s.Suite = "vllm" }, "pytorch.decode_attention.model": func(s *Spec) { s.PyTorch.Decode.Model = "" },
	} {
		s := *preset
		set(&s)
		if errs := input.Faults(&s); len(errs) != 1 || errs[0].Key != key {
			t.Errorf("%s: %v", key, errs)
		}
	}
}

// TestSuites: a suite that a GPU's preset lacks is refused, and with two suites each has its own kernels.
func TestSuites(t *testing.T) {
	a100 := *loadPreset(t, "a100-sxm-80gb")
	a100.Suite = SuitePyTorch
	if errs := input.Faults(&a100); len(errs) != 1 || errs[0].Key != "suite" {
		t.Errorf("the A100's PyTorch kernels: %v", errs)
	}
	server, pytorch := *loadPreset(t, "h200-sxm"), *loadPreset(t, "h200-sxm")
	pytorch.Suite = SuitePyTorch
	h := Heads{Query: 32, KV: 32, Dim: 128, ElementBits: 16}
	// PyTorch's does not split 64 contexts of 32 heads, and pads one query row to 128.
	if a, b := server.DecodeAttentionCost(UniformBatch(64, 8192), h), pytorch.DecodeAttentionCost(UniformBatch(64, 8192), h); b.Executed != 8*a.Executed || b.Seconds < 1.5*a.Seconds {
		t.Errorf("decode attention: server %+v, PyTorch %+v", a, b)
	}
	if a, b := server.prefillAttention(8192, 0, h), pytorch.prefillAttention(8192, 0, h); b < 1.4*a {
		t.Errorf("prefill attention: server %g s, PyTorch %g s", a, b)
	}
	without := pytorch
	without.Extend = ExtendSpec{}
	if a, b := pytorch.prefillAttention(64, 131072, h), without.prefillAttention(64, 131072, h); a != b {
		t.Errorf("PyTorch's kernels: %g s with a server's split keys, %g s without", a, b)
	}
}

// TestEdgesOfSpec: the smallest and largest legal values of a GPU's own keys.
func TestEdgesOfSpec(t *testing.T) {
	good := *loadPreset(t, "h200-sxm")
	for _, c := range []struct {
		key   string
		set   func(s *Spec, v float64)
		legal map[float64]bool
	}{
		{"sms", func(s *Spec, v float64) { s.SMs = int(v) }, map[float64]bool{0: false, 1: true, 1 << 20: true, 1<<20 + 1: false}},
		{"pcie_generation", func(s *Spec, v float64) { s.PCIeGeneration = int(v) }, map[float64]bool{2: false, 3: true, 6: true, 7: false}},
		{"memory_share", func(s *Spec, v float64) { s.MemoryShare = v }, map[float64]bool{-0.1: false, 0.5: true, 1: true, 1.1: false}},
		{"memory_reserve", func(s *Spec, v float64) { s.MemoryReserve = units.Bytes(v) }, map[float64]bool{-1: false, 0: true, 1 << 30: true, 1 << 50: false}},
		{"memory_capacity", func(s *Spec, v float64) { s.MemoryReserve, s.MemoryCapacity = 0, units.Bytes(v) }, map[float64]bool{0: false, 1: true, 1 << 50: true, 1<<50 + 1: false}},
		{"peak_16bit", func(s *Spec, v float64) { s.Peak16 = units.FLOPRate(v) }, map[float64]bool{0: false, 0.5: false, 1: true, 1e21: true, 2e21: false}},
		{"peak_8bit", func(s *Spec, v float64) { s.Peak8 = units.FLOPRate(v) }, map[float64]bool{0: false, 0.5: false, 1: true, 1e21: true, 2e21: false}},
		{"memory_bandwidth", func(s *Spec, v float64) { s.MemoryBandwidth = units.Bandwidth(v) }, map[float64]bool{0: false, 0.5: false, 1: true, 1e18: true, 2e18: false}},
	} {
		for v, legal := range c.legal {
			s := good
			c.set(&s, v)
			named := false
			for _, fault := range input.Faults(&s) {
				named = named || fault.Key == c.key
			}
			if named == legal {
				t.Errorf("%s = %v: %v", c.key, v, input.Faults(&s))
			}
		}
	}
}
