package gpu

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestAttAccGEMM checks AttAcc's model where its tile does not matter.
func TestAttAccGEMM(t *testing.T) {
	s := loadPreset(t, "a100-paper")
	// One tile on one of 108 SMs, whatever its shape: both rates are 1/108.
	c := s.GEMMCost(8, 8, 4096, 16)
	if want := 108 * 2 * 8 * 8 * 4096 / (0.8 * 156e12); !near(c.Compute, want) {
		t.Errorf("one tile computes for %g s, want %g", c.Compute, want)
	}
	if want := 108 * 2 * (8*4096 + 4096*8 + 64) / (0.85 * 2.039e12); !near(c.Seconds, want) {
		t.Errorf("one tile takes %g s, want %g (memory)", c.Seconds, want)
	}
	// 512 × 27648 divides into 216 tiles of 256 × 256: two full waves.
	c = s.GEMMCost(512, 27648, 8192, 16)
	if want := 2 * 512 * 27648 * 8192 / (0.8 * 156e12); !near(c.Seconds, want) {
		t.Errorf("two full waves take %g s, want %g", c.Seconds, want)
	}
	if c.Executed != c.FLOPs { // the power model uses it: the simulator pads nothing here
		t.Errorf("%g operations run, %g are useful", c.Executed, c.FLOPs)
	}
	// Beyond 512, rows are padded to multiples of 32.
	if a, b := s.gemmTime(1000, 4096, 4096, 16), s.gemmTime(1024, 4096, 4096, 16); a != b {
		t.Errorf("1000 rows take %g s, 1024 take %g s, want the same", a, b)
	}
}

// TestAttAccSimulator compares every kernel with AttAcc's own code; the data file describes how it was made.
func TestAttAccSimulator(t *testing.T) {
	s := loadPreset(t, "a100-paper")
	f, err := os.Open("testdata/attacc.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	kernels := map[string]int{}
	for _, row := range rows[1:] {
		var v [6]int
		for i := range v {
			if v[i], err = strconv.Atoi(row[1+i]); err != nil {
				t.Fatal(err)
			}
		}
		want, err := strconv.ParseFloat(row[7], 64)
		if err != nil {
			t.Fatal(err)
		}
		m, n, k, count, bits := v[0], v[1], v[2], v[4], v[5]
		h := Heads{Query: v[3], KV: v[3], Dim: k, ElementBits: bits}
		var got float64
		switch row[0] {
		case "gemm":
			got = s.gemmTime(m, n, k, bits)
		case "decode":
			got = s.decodeAttention(UniformBatch(count, n), h)
		case "prefill":
			got = s.PrefillAttentionCost(count, m, n-m, h).Seconds
		case "norm":
			got = s.Norm(m, n, bits).Seconds
		case "relu":
			got = s.Activation(m, n, false, bits).Seconds
		case "all_reduce":
			got = s.allReduce(count, units.Bytes(m*n*bits/8))
		}
		if !near(got, want) {
			t.Errorf("%v: %g s", row, got)
		}
		kernels[row[0]]++
	}
	if len(kernels) != 6 {
		t.Errorf("kernels compared: %v, want 6 kinds", kernels)
	}
}

// TestAttAccAllReduce: T−1 steps of max(6.06 µs + 0.009 ns/B · s, s/300 GB/s),
// s = bytes/T; each GPU sends a step's bytes in each.
func TestAttAccAllReduce(t *testing.T) {
	s := loadPreset(t, "a100-paper")
	for _, c := range []struct {
		gpus  int
		bytes units.Bytes
		want  float64
	}{
		{8, 8, 7 * (6.06e-6 + 0.009e-9)},
		{8, 8 << 20, 7 * (6.06e-6 + 0.009e-9*(1<<20))},
		{2, 1 << 20, 6.06e-6 + 0.009e-9*(1<<19)},
	} {
		cost := s.AllReduceCost(c.gpus, c.bytes)
		if !near(cost.Seconds, c.want) {
			t.Errorf("%d bytes on %d GPUs: %g s, want %g", c.bytes, c.gpus, cost.Seconds, c.want)
		}
		if sent := float64(c.gpus-1) / float64(c.gpus) * float64(c.bytes); !near(cost.Bytes, sent) {
			t.Errorf("%d bytes on %d GPUs: each sends %g, want %g", c.bytes, c.gpus, cost.Bytes, sent)
		}
	}
	slow := *s
	slow.Collective.Bandwidth = 10e9
	if got, want := slow.allReduce(4, 4e9), 3*1e9/10e9; !near(got, want) {
		t.Errorf("slow links: %g s, want %g", got, want)
	}
}

// TestAttAccPasses: activations and norms take a fixed time plus a time for each byte moved, scaled from 1,555 GB/s; a norm also reads the
// residual, so adding it is free.
func TestAttAccPasses(t *testing.T) {
	s := *loadPreset(t, "a100-paper")
	for _, bandwidth := range []units.Bandwidth{1555e9, 2039e9} {
		s.MemoryBandwidth = bandwidth
		slower := 1555e9 / float64(bandwidth)
		for _, c := range []struct {
			name string
			got  Cost
			want float64 // µs
		}{
			{"activation", s.Activation(300, 6144, false, 16), 8.29 + 0.447*2*300*6144*2/1e6*slower},
			{"gated activation", s.Activation(300, 6144, true, 16), 8.29 + 0.447*3*300*6144*2/1e6*slower},
			{"norm", s.Norm(300, 12288, 16), 6.87 + 1.6*3*300*12288*2/1e6*slower},
			{"norm of 8 bits", s.Norm(300, 12288, 8), 6.87 + 1.6*3*300*12288/1e6*slower},
			{"norm of an iteration, residual and all", s.addNorm(300, 12288, 16), 6.87 + 1.6*3*300*12288*2/1e6*slower},
			{"activation of an iteration", s.activation(300, 6144, false, 16), 8.29 + 0.447*2*300*6144*2/1e6*slower},
			{"copies", s.copied(2, 300, 6144, 16), 0},
			{"choice", s.choice(300, 6144, 16), 0},
			{"no rows", s.Norm(0, 12288, 16), 0},
			{"no columns", s.Activation(300, 0, false, 16), 0},
		} {
			if !near(c.got.Seconds, c.want*1e-6) {
				t.Errorf("%s at %v: %g s, want %g", c.name, bandwidth, c.got.Seconds, c.want*1e-6)
			}
		}
	}
}

// TestAttAccAttention: heads × requests are blocks, of which 108 run at a time; both products and the softmax wait for whole waves.
func TestAttAccAttention(t *testing.T) {
	s := loadPreset(t, "a100-paper")
	head := func(query, kv int) Heads { return Heads{Query: query, KV: kv, Dim: 128, ElementBits: 16} }
	const context = 5000.0
	// One block reads and writes at a 108th of 0.85 of the bandwidth: scores move q, K and scores, softmax moves scores twice, and context
	// moves scores, V and the output.
	block := 2 * (2*(128+context*128+context) + 2*context) * 108 / (0.85 * 2.039e12)
	for requests, waves := range map[int]float64{1: 1, 9: 1, 10: 2, 18: 2, 19: 3, 100: 12} {
		c := s.DecodeAttentionCost(UniformBatch(requests, context), head(12, 12))
		if !near(c.Seconds, waves*block) {
			t.Errorf("%d requests of 12 heads: %g s, want %g waves of %g", requests, c.Seconds, waves, block)
		}
		if c.Limit() != "memory" {
			t.Errorf("%d requests: bound by %s", requests, c.Limit())
		}
	}
	// A group reads K and V once; each of its heads is a block.
	group := 2 * (2*(128+context*128/4+context) + 2*context) * 108 / (0.85 * 2.039e12)
	if got := s.decodeAttention(UniformBatch(9, context), head(12, 3)); !near(got, group) {
		t.Errorf("groups of 4: %g s, want %g", got, group)
	}
	// The model only uses the two efficiencies.
	slow := *s
	slow.Decode.Overhead, slow.Decode.BlockStartup, slow.Prefill.Overhead = units.Second, units.Second, units.Second
	if got := slow.decodeAttention(UniformBatch(9, context), head(12, 12)); !near(got, block) {
		t.Errorf("with overheads: %g s, want %g", got, block)
	}
	if a, b := slow.prefillAttention(100, 50, head(12, 12)), s.prefillAttention(100, 50, head(12, 12)); a != b {
		t.Errorf("chunk with overheads: %g s, want %g", a, b)
	}
	// A long context among short ones is a separate block.
	var b DecodeBatch
	for range 8 {
		b.Add(100)
	}
	b.Add(context)
	if got := s.decodeAttention(b, head(12, 12)); !near(got, block) {
		t.Errorf("one long context: %g s, want %g", got, block)
	}
	// A chunk of n over f finished tokens multiplies all n·(f+n) pairs, including masked ones; its softmax is bound by memory.
	n, keys := 512.0, 2512.0
	chunk := 108 * (2*2*n*keys*128/(0.8*156e12) + 2*2*n*keys/(0.85*2.039e12))
	c := s.PrefillAttentionCost(9, 512, 2000, head(12, 12))
	if !near(c.Seconds, chunk) || c.Limit() != "compute" {
		t.Errorf("chunks: %g s, want %g", c.Seconds, chunk)
	}
	if got := s.PrefillAttentionCost(10, 512, 2000, head(12, 12)).Seconds; !near(got, 2*chunk) {
		t.Errorf("a second wave: %g s, want %g", got, 2*chunk)
	}
}

// TestAttAccUnequal: requests with unequal contexts take as long as equal ones with the mean context, and at least as long as the longest
// one's thread block.
func TestAttAccUnequal(t *testing.T) {
	s := loadPreset(t, "a100-paper")
	h := Heads{Query: 96, KV: 96, Dim: 128, ElementBits: 16}
	alone := func(requests, context int) float64 {
		return s.DecodeAttentionCost(UniformBatch(requests, context), h).Seconds
	}
	for _, x := range []struct {
		requests int
		tokens   int64
		longest  int
		want     float64
	}{
		{8, 8 * 1500, 2000, alone(8, 1500)},                                // of their mean context
		{8, 8 * 1500, 1500, alone(8, 1500)},                                // all as long
		{2, 2 * 1500, 2900, max(alone(2, 1500), alone(1, 2900))},           // two waves of the mean take less than one of the longest
		{2, 2 * 1500, 1501, max(alone(2, 1500), alone(1, 1501))},           // and more
		{108, 108 * 3000, 40000, max(alone(108, 3000), alone(1, 40000))},   // many waves
		{108, 108 * 1000, 100000, max(alone(108, 1000), alone(1, 100000))}, // less than the longest one's
	} {
		b := DecodeBatch{Requests: x.requests, Tokens: x.tokens, Longest: x.longest}
		if got := s.DecodeAttentionCost(b, h).Seconds; !near(got, x.want) {
			t.Errorf("%+v: %g s, want %g", b, got, x.want)
		}
	}
}

// TestAttAccPrompts: the chunks of a sub-batch are one kernel, in which each wave takes as long as its longest block.
func TestAttAccPrompts(t *testing.T) {
	m := loadModel(t, "gpt-175b") // 12 heads a GPU, 9 requests a wave
	c := NewModelCost(loadPreset(t, "a100-paper"), m)
	long, short := c.PrefillAttention(512, 2000).Seconds, c.PrefillAttention(100, 0).Seconds
	sum := func(chunks ...[2]int) float64 {
		b, t := c.Attention(), 0.0
		for _, x := range chunks {
			t += b.Prompts(1, x[0], x[1], 0).Seconds
		}
		return t
	}
	a, z := [2]int{512, 2000}, [2]int{100, 0}
	for _, x := range []struct {
		name   string
		chunks [][2]int
		want   float64
	}{
		{"one", [][2]int{a}, long},
		{"one wave", [][2]int{z, z, a, z, z, z, z, z, z}, long},
		{"two waves", [][2]int{a, z, z, z, z, z, z, z, z, z, z}, long + short},
		{"two waves, the long one last", [][2]int{z, z, z, z, z, z, z, z, z, a}, short + long},
		{"nothing", [][2]int{{0, 100}}, 0},
		{"nothing in a wave", [][2]int{a, {0, 100}, a, {-1, 0}, z}, long},
	} {
		if got := sum(x.chunks...); !near(got, x.want) {
			t.Errorf("%s: %g s, want %g", x.name, got, x.want)
		}
	}
	wide := *m // 96 heads a GPU: two requests take two waves of 108
	wide.TensorParallel = 1
	c = NewModelCost(loadPreset(t, "a100-paper"), &wide)
	if got, want := sum(a, a), 2*long; !near(got, want) {
		t.Errorf("192 blocks: %g s, want %g", got, want)
	}
	if got, want := sum(z, a), 2*long; !near(got, want) { // 12 blocks of the second join the first wave, which then takes as long as they do
		t.Errorf("192 blocks of unequal prompts: %g s, want %g", got, want)
	}
	// Other models run chunks one after another.
	c = NewModelCost(loadPreset(t, "a100-sxm-80gb"), m)
	if got, want := sum(a, z), c.PrefillAttention(512, 2000).Seconds+c.PrefillAttention(100, 0).Seconds; got != want {
		t.Errorf("fitted A100: %g s, want %g", got, want)
	}
}

// TestAttAccPadding: beyond 512, rows are padded to multiples of 32 in both arithmetic and traffic.
func TestAttAccPadding(t *testing.T) {
	s := loadPreset(t, "a100-paper")
	got, want := s.GEMMCost(513, 4096, 1024, 16), s.GEMMCost(544, 4096, 1024, 16)
	if got.Compute != want.Compute || got.Memory != want.Memory || got.Bytes >= want.Bytes {
		t.Errorf("513 rows: %+v, 544 rows %+v", got, want)
	}
}
