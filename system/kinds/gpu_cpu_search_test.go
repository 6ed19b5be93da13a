package kinds

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestCSAttentionLayer: a search on the CPUs by hand, and what waits for it. A request has 8,001
// tokens after a prompt of 8,000: lists of 2,000 entries, 400 tokens found and 32 recent ones.
func TestCSAttentionLayer(t *testing.T) {
	sub := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 8001, Prompt: 8000}}}
	const heads, kv = 96, 96 * 512
	// Each head reads the 8 lists of 128 that its query chose, the keys and values of all tokens found,
	// which are copied, the centroids, and the smallest scores of all lists.
	const bytes = heads*(8*2000*6+128*128*2+8*128*6) + 2*432*kv
	link := 4 * 0.79 * 16 * 16e9 * 128 / 130 / 8
	transfers := (3*heads*128*2 + 432*kv) / link
	memory := bytes / (8 * 25.6e9 * 0.8)
	for element, took := range map[string]float64{
		"0ps": memory,
		// On 64 cores: lists are added up, 8,001 sums are cleared and read twice, two products with centroids
		// are computed.
		"100ns": (heads*(8*2000+3*8001)*100e-9 + 2*heads*2*128*128/(72e9*0.5)) / 64,
	} {
		e := gpuCPUOf(t, "policy.name=csattention", "policy.csattention.mode=host", "cpu_offload.element_time="+element)
		want := 2*5e-6 + 20e-6 + transfers + took
		if got, _ := layerOf(t, e, sub); math.Abs(got.Seconds()/want-1) > 1e-6 {
			t.Errorf("%s an element: a layer takes %v s, want %v s", element, got.Seconds(), want)
		}
	}
	took := func(sets ...string) (end units.Duration, e *gpuCPU) {
		e = gpuCPUOf(t, append(sets, "policy.name=csattention", "policy.csattention.mode=host")...)
		end, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return end, e
	}
	// With the search on the critical path, a layer is the search, the way up, attention and the
	// block.
	end, e := took()
	g := e.StageRuns(&sub)
	layers := units.Duration(e.Model.Layers)
	device := e.Iteration.Totals().ByKind[flow.OpHostAttention] / layers
	if want := g.Entry + layers*(device+g.Layers[0].Attention) + (layers-1)*g.Block + g.Exit; end != want {
		t.Errorf("an iteration takes %v, want %v", end, want)
	}
	if same, _ := took("gpu_cpu.attend=gpus"); same != end {
		t.Errorf("the CPUs search whoever attends: %v, want %v", same, end)
	}
	// With the search beside it: the longest of the GPUs' work, the CPUs' and the links'.
	for slow, want := range map[string]float64{
		"run.seed=1":                        (g.Entry + layers*g.Layers[0].Attention + (layers-1)*g.Block + g.Exit).Seconds(),
		"cpu_offload.memory_efficiency=0.1": float64(layers) * (8*memory + 20e-6),
		"pcie.efficiency=0.079":             float64(layers) * 10 * 432 * kv / link,
	} {
		end, e := took("policy.csattention.search=lagged", slow)
		if math.Abs(end.Seconds()/want-1) > 1e-6 {
			t.Errorf("%s: with a lagged search an iteration takes %v, want %v s", slow, end, want)
		}
		if e.Work.Time[flow.OfChannel] == 0 {
			t.Errorf("%s: the CPUs read nothing", slow)
		}
	}
}

// TestCSAttentionDrafts: a step of two tokens by hand. Both search, in 8 lists each or in the same ones, and find 400 tokens each, 800 or 400 in all; 33 are recent. What is
// found goes up once; queries, keys and values go down for both. With a lagged search, the CPUs do the same beside the step, and the GPUs attend to 400 and 33.
func TestCSAttentionDrafts(t *testing.T) {
	sub := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 8001, Prompt: 8000, Accepted: 1}}, Verified: 2}
	const heads, kv = 96, 96 * 512
	link := 4 * 0.79 * 16 * 16e9 * 128 / 130 / 8
	for overlap, c := range map[string]struct{ lists, found int }{
		"1.0": {8, 433},
		"0.0": {16, 33 + 780}, // of 7,969 tokens 7,969 · (1 − (7569/7969)²) = 779.9; of 1,024 lists 1,024 · (1 − (1016/1024)²) = 15.9
	} {
		sets := []string{"policy.name=csattention", "policy.csattention.mode=host", "serving.verified_tokens=2", "serving.acceptance=1.0", "policy.csattention.token_overlap=" + overlap, "policy.csattention.list_overlap=" + overlap}
		for element, of := range map[string]func(bytes float64) float64{
			"0ps": func(bytes float64) float64 { return bytes / (8 * 25.6e9 * 0.8) },
			"100ns": func(float64) float64 {
				return (heads*2*(8*2000+3*8002)*100e-9 + 4*heads*2*128*128/(72e9*0.5)) / 64 // two searches, two new keys
			},
		} {
			bytes := float64(heads*(c.lists*2000*6+128*128*2+8*128*6) + 2*c.found*kv)
			want := 2*5e-6 + 20e-6 + float64(2*3*heads*128*2+c.found*kv)/link + of(bytes)
			if got, _ := layerOf(t, gpuCPUOf(t, append(sets, "cpu_offload.element_time="+element)...), sub); math.Abs(got.Seconds()/want-1) > 1e-6 {
				t.Errorf("overlap %s, %s an element: a layer takes %v s, want %v s", overlap, element, got.Seconds(), want)
			}
		}
		e := gpuCPUOf(t, append(sets, "policy.csattention.search=lagged")...)
		x := e.Attends.Decode(sub.Decode, 0, 0)
		if got := x.Attend[0].Tokens[0]; got != 433 || x.Fetched[0] != c.found || !x.Ahead {
			t.Errorf("overlap %s, lagged: %d tokens are attended to, %v come up", overlap, got, x.Fetched)
		}
	}
}

// TestPagesOnHost: Quest's GPUs choose before the host starts. For a context of 8,001 tokens, the CPUs read 63 pages of 16 tokens and one token in
// each of 96 heads. With the vectors, 4 B for each 16 tokens go down. The first two layers choose nothing and read everything.
func TestPagesOnHost(t *testing.T) {
	sub := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 8001, Prompt: 8000}}}
	e := gpuCPUOf(t, "policy.name=quest", "policy.quest.budget=1024")
	end, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	link := 4 * 0.79 * 16 * 16e9 * 128 / 130 / 8
	rate := 8 * 25.6e9 * 0.8
	const kv, vectors = 96 * 512, 4 * 96 * 128 * 2 // q, k, v and the result
	layer := func(tokens, numbers float64) units.Duration {
		return units.FromSeconds(2*5e-6 + 20e-6 + (vectors+4*numbers)/link + tokens*kv/rate)
	}
	g := e.StageRuns(&sub)
	all, chosen := g.Layers[0], g.Layers[1]
	tokens := 63*16 + 1. // the newest page has one token
	for i, want := range []units.Duration{layer(8001, 0), layer(tokens, 6054)} {
		if got := g.Layers[i].Device; got != 0 && math.Abs(got.Seconds()/want.Seconds()-1) > 1e-6 {
			t.Errorf("run %d: a layer's host takes %v, want %v", i, got, want)
		}
	}
	n := units.Duration(e.Model.Layers)
	want := g.Entry + 2*layer(8001, 0) + (n-2)*(chosen.Chooses+layer(tokens, 6054)) + n*(all.Attention+all.Merge) + (n-1)*g.Block + g.Exit
	if chosen.Chooses == 0 || all.Chooses != 0 || math.Abs(end.Seconds()/want.Seconds()-1) > 1e-6 {
		t.Errorf("an iteration of %v, by hand %v; choosing takes %v", end, want, chosen.Chooses)
	}
}
