package claims

import (
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/gpu"
)

// TestTextClaims compares the models' numbers with closed forms.
func TestTextClaims(t *testing.T) {
	m, err := loadModels()
	if err != nil {
		t.Fatal(err)
	}
	found, achieved := map[string]float64{}, map[string]float64{}
	for _, c := range claims(t, AllTargets) {
		if !strings.HasPrefix(c.ID, "text.") {
			continue
		}
		f, err := c.find(&evidence{text: m}, 1, &c.Readings[0])
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		if f.reason == "" {
			t.Errorf("%s has no reason", c.ID)
		}
		found[c.ID] = f.value
		if c.Find == "unit ratio" {
			if f, err = c.find(&evidence{text: m}, 1, &c.Readings[1]); err != nil {
				t.Fatal(err)
			}
			achieved[c.ID] = f.value
		}
	}
	near := func(id string, want, tolerance float64) {
		if got := found[id]; math.Abs(got/want-1) > tolerance {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	// 80 GiB over 8,000 tokens of 2 x 96 x 12,288 x 2 bytes; 80 GB less 2 bytes a parameter of the data sheet's 6.74e9.
	near("text.gpt175b_requests_80gib", 80*math.Pow(2, 30)/(8000*4_718_592), 1e-12)
	near("text.llama7b_requests_80gb", (80e9-2*6.738e9)/(2048*524_288), 1e-3)
	// One of R ranks stops for the whole transfer; it may resume slightly later or earlier.
	near("text.compute_kept", 1-1/float64(m.largest.Node.Ranksets), 0.01)
	// 16 banks each deliver a column every 8 clocks, the channel one every 4. No PU exceeds its peak, and long heads come
	// near it.
	peak := float64(m.largest.Node.Ranksets)
	near("text.rank_pu_ratio", peak, 1e-12)
	near("text.bank_pu_ratio", 8*peak, 1e-12)
	if r := achieved["text.rank_pu_ratio"]; r >= peak || r < 0.85*peak {
		t.Errorf("rank PUs: %v of a peak of %v", r, peak)
	}
	if b := achieved["text.bank_pu_ratio"]; b >= 8*peak || b < 0.7*8*peak {
		t.Errorf("bank PUs: %v of a peak of %v", b, 8*peak)
	}
	// Table 2: a channel of 25.4 GB/s, as much for each of 64 ranks, and 16.3 TB/s.
	near("text.rank_pu_of_gpus", 64*25.4/16300, 5e-3)
	// 100 prompts of 7,700 tokens are cut into pieces of half of 2,048 or less, or of half of 8,192; a piece has at least 16
	// tokens.
	if c := found["text.prompt_cuts"]; c < 7700.0/1024-2 || c > 7700.0/1024 {
		t.Errorf("a prompt is cut %v times", c)
	}
	// A read and a write of each burst, and less than a tenth for turning the bus around.
	if x := found["text.cpu_transposition"]; x < 2 || x > 2.2 {
		t.Errorf("transposition: %v times the transfer", x)
	}
	// KV of a layer over the links, against 16 D² FLOPs a token at 0.8 of peak on each GPU: the FFN takes
	// longer than its FLOPs, so the share is lower, but not by half.
	worst := 0.0
	for _, cfg := range m.served {
		d := float64(cfg.Model.Hidden)
		worst = max(worst, 4*d/float64(cfg.PCIe.Bandwidth())/(16*d*d/(0.8*float64(cfg.GPU.Peak16))))
	}
	if s := found["text.prefill_transfer_share"]; s > worst || s < worst/2 {
		t.Errorf("transfer share %v, bound %v", s, worst)
	}
}

// TestAttentionShare: attention of a memory-bound batch is its KV over the bandwidth, slowed by
// waves of 108 heads that leave SMs idle, and by 4 bytes of scores for 256 of KV; everything else
// takes at least its weights.
func TestAttentionShare(t *testing.T) {
	m, err := loadModels()
	if err != nil {
		t.Fatal(err)
	}
	g := &m.llama.GPU.Spec
	rate := float64(g.MemoryBandwidth) * g.Decode.Memory
	for _, batch := range []int{1, 3, 7} {
		attention, other := m.iteration(g, batch, fig2Context)
		heads := float64(batch * m.llama.Model.Heads)
		idle := 108 * math.Ceil(heads/108) / heads
		want := idle * float64(batch*fig2Context) * float64(m.llama.Model.KVBytesPerToken()) / rate * 260 / 256
		if math.Abs(attention/want-1) > 1e-4 {
			t.Errorf("batch %d: attention %v s, want %v s", batch, attention, want)
		}
		if least := 0.9 * float64(m.llama.Model.WeightBytes()) / float64(g.MemoryBandwidth); other < least {
			t.Errorf("batch %d: other operations %v s, the weights alone %v s", batch, other, least)
		}
	}
}

// TestFig2 checks the tables against laws of any GPU.
func TestFig2(t *testing.T) {
	m, err := loadModels()
	if err != nil {
		t.Fatal(err)
	}
	a := m.utilizationTable()
	if len(a.Rows) != 2*len(fig2Tokens) {
		t.Fatalf("%d rows", len(a.Rows))
	}
	for r := range a.Rows {
		u, ok := a.Number(r, 3)
		if !ok || u <= 0 || u >= 1 {
			t.Errorf("row %v", a.Rows[r])
		}
		if r > 0 && a.Rows[r][0] == a.Rows[r-1][0] {
			if before, _ := a.Number(r-1, 3); u < 0.95*before {
				t.Errorf("utilisation falls from %v to %v at %s tokens", before, u, a.Rows[r][1])
			}
		}
	}
	b := m.latencyTable()
	for r := 0; r < len(b.Rows); r += 3 {
		attention, _ := b.Number(r, 3)
		other, _ := b.Number(r+1, 3)
		whole, _ := b.Number(r+2, 3)
		if math.Abs(attention+other-whole) > 1e-4*whole {
			t.Errorf("parts of %v do not add up", b.Rows[r+2])
		}
	}
}

// TestGPUTime: the least time of an L3 iteration counts every sub-batch.
func TestGPUTime(t *testing.T) {
	m, err := loadModels()
	if err != nil {
		t.Fatal(err)
	}
	c := *m.served[1]
	c.Run.Requests = 64
	cost := gpu.NewModelCost(&c.GPU.Spec, &c.Model)
	for _, subBatches := range []int{1, 2} {
		n := float64(subBatches)
		alone := cost.Iteration(gpu.Shape{Decode: gpu.UniformBatch(32/subBatches, 1)}).Seconds // 64 requests on 2 replicas
		if got := gpuTime(&c, subBatches); got < n*0.98*alone || got > n*alone {
			t.Errorf("%v s for %d sub-batches, %v s for one of them with attention over one token", got, subBatches, alone)
		}
	}
}
