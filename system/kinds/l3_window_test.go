package kinds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// TestWindowOfOneRequest: with one request and one sub-batch a layer is its tasks in sequence, by
// hand: q goes down, the ranks attend over the tokens that have left the window, without an append,
// outputs come up with a maximum and a sum of 4 bytes for each query head, and the block begins
// with the merge. Meanwhile the GPUs attend over the window. HGCA's ranks attend to a share of the
// tokens, and the window's kernel returns its weights.
func TestWindowOfOneRequest(t *testing.T) {
	const in, block, layers = 1500, 64, 96
	for _, c := range []struct {
		sets          []string
		heads, window int
		share         int // tokens of 10 that are attended to
	}{
		{[]string{"policy.name=window", "policy.window.window=256"}, 96, 256, 10},
		{[]string{"policy.name=hgca", "policy.hgca.window=256", "policy.hgca.share=0.1"}, 96, 256, 1},
		{[]string{"policy.name=window", "policy.window.window=1400"}, 96, 1400, 10}, // the window takes longer than the ranks
	} {
		node := rigOf(t, append(c.sets, oneBatch, allAtOnce, "policy.window.block=64", "policy.hgca.block=64")...)
		d, cfg := node.devices(), node.cfg
		links := units.Bandwidth(cfg.Model.TensorParallel) * cfg.PCIe.Bandwidth()
		g := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
		ps := func(w gpu.Work) units.Duration { return units.FromSeconds(w.Seconds) }
		longer, shorter := 0, 0
		drive(t, append(c.sets, oneBatch, allAtOnce, "policy.window.block=64", "policy.hgca.block=64"), equal(1, in, 140), keep, func(r *loop, x driven) {
			if len(x.batch.Sub[0].Decode) == 0 {
				return
			}
			tokens := x.batch.Sub[0].Decode[0].Context(x.batch.Step)
			away := 0 // blocks leave a full window after the step
			for tokens-1-away >= c.window {
				away += block
			}
			far := (away*c.share + 9) / 10
			vectors := units.Bytes(c.heads * 128 * 2)
			down := max(links.TransferTime(vectors), refreshed(6*4*4)) + refreshed(6*4)
			up := max(links.TransferTime(vectors+units.Bytes(c.heads*4)), refreshed(6*4*4+4)) // 24 bytes of sums are a burst
			compute := refreshed(node.CommandTables.Kernels.Table.Attention(far) + 5*node.CommandTables.Kernels.Table.InSequence(far))
			home := cfg.PCIe.Latency + 16*625 + down + compute + 2*122*units.Nanosecond + cfg.PCIe.Latency + 22*625 + up
			near := g.Attention()
			window := ps(near.Decoding(gpu.DecodeBatch{Requests: 1, Tokens: int64(tokens - away), Longest: tokens - away, KVHeads: c.heads, Weights: c.share < 10}))
			if c.share < 10 { // read weights, update averages
				window += ps(g.Pass(1, float64(3*4*(tokens-away)*c.heads), 0))
			}
			attention := max(home, window)
			if home > window {
				longer++
			} else {
				shorter++
			}
			want := ps(g.Embedding(1)) + ps(g.QKV(1)) + ps(g.LMHead(1)) + (layers-1)*ps(g.QKV(1)) + layers*(attention+ps(g.Merge(1))+ps(g.ProjectionFFN(1)))
			if leaves := (tokens-away)%c.window == 0; x.took != want && !leaves || x.took < want {
				t.Fatalf("%v, context %d: %v, its tasks in turn %v", c.sets, tokens, x.took, want)
			}
			if traffic := d.Traffic(1); traffic.UpBus != (6*4+1+1)*4*625 {
				t.Fatalf("results keep the channels busy for %v", traffic.UpBus)
			}
		})
		if short := c.window == 1400 || c.share < 10; short && shorter == 0 || !short && longer == 0 {
			t.Errorf("%v: the ranks take longer in %d steps, the window in %d", c.sets, longer, shorter)
		}
	}
}

// TestWholeShare: HGCA that keeps everything attends in the DIMMs as long as a window of the same
// size; a larger share is never faster.
func TestWholeShare(t *testing.T) {
	pim := func(sets ...string) (attends, last units.Duration) {
		r, _ := drive(t, append(sets, "policy.window.window=256", "policy.hgca.window=256", oneBatch, allAtOnce), equal(6, 4000, 12), keep, func(_ *loop, d driven) { last = d.took })
		return r.Engine.(*l3).Flow.Work.Time[flow.OfPIM], last
	}
	window, _ := pim("policy.name=window")
	whole, before := pim("policy.name=hgca", "policy.hgca.share=1")
	if window != whole {
		t.Errorf("the ranks attend for %v, with a share of 1 for %v", window, whole)
	}
	for _, share := range []float64{0.7, 0.3, 0.1, 0.01, 0} {
		_, took := pim("policy.name=hgca", fmt.Sprintf("policy.hgca.share=%v", share))
		if took > before {
			t.Errorf("a share of %v takes %v, the larger one %v", share, took, before)
		}
		before = took
	}
}

// TestNoFasterThanEither: an iteration takes at least the GPUs' time for the windows, and at least
// the busiest rankset's for the other tokens.
func TestNoFasterThanEither(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCosts(t, rapid.IntRange(1, 5).Draw(t, "ranksets"))
		f, end := runCosts(t, c, len(c.sub[0].groups), false, 0)
		var gpus, ranks units.Duration
		for s := range c.sub {
			busiest := units.Duration(0)
			if !c.sub[s].active {
				continue
			}
			for _, g := range c.sub[s].groups {
				if g.Requests > 0 {
					busiest = max(busiest, g.Compute)
				}
			}
			gpus += units.Duration(c.layers[0]) * c.sub[s].window
			ranks = max(ranks, units.Duration(c.layers[0])*busiest)
		}
		if end < gpus || end < ranks || f.Iteration.Totals().ByKind[flow.OpWindow] != gpus {
			t.Fatalf("the iteration takes %v, windows %v, a rankset %v", end, gpus, ranks)
		}
	})
}

// TestEverythingGoesHomeOnce: a run sends to the DIMMs exactly the tokens that have left the
// windows by each request's end, all heads once, plus the copies of salient tokens.
func TestEverythingGoesHomeOnce(t *testing.T) {
	requests := []traces.Request{{ID: 0, Input: 700, Output: 300}, {ID: 1, Input: 40, Output: 500}, {ID: 2, Input: 1300, Output: 2}}
	for _, c := range []struct {
		sets []string
		all  bool
		part int // of 10 that are copied
	}{
		{[]string{"policy.name=window"}, true, 0}, {[]string{"policy.name=window", "policy.window.sink=20"}, true, 0},
		{[]string{"policy.name=hgca", "policy.hgca.share=0.3"}, true, 3}, {[]string{"policy.name=hgca", "policy.hgca.share=0.3", "policy.hgca.keep_all=false"}, false, 3},
	} {
		var sent int64
		sets := append(c.sets, "policy.window.window=128", "policy.window.block=32", "policy.hgca.window=128", "policy.hgca.block=32", "scheduler.chunk_multiple=256")
		drive(t, sets, requests, func(x *iterationCosts) {
			for s := range x.sub {
				for i := range x.sub[s].groups {
					if g := &x.sub[s].groups[i]; x.sub[s].active {
						sent += g.Prompt.Tokens + g.Leaving.Tokens
					}
				}
			}
		}, unseen)
		want := 0
		for _, r := range requests {
			away := 0
			for tokens := r.Input + r.Output - 1; tokens-away >= 128; away += 32 {
			}
			if strings.Contains(fmt.Sprint(c.sets), "sink") {
				away = max(away-20, 0)
			}
			if c.all {
				want += 6 * away
			}
			want += 6 * ((away*c.part + 9) / 10)
		}
		if sent != int64(want) {
			t.Errorf("%v: %d tokens of heads go home on a channel, want %d", c.sets, sent, want)
		}
	}
}

// forgetful is a test policy that sends nothing home after the prompt.
type forgetful struct{ policy.Costs }

func (f forgetful) Decode(requests []policy.Request, run int) *policy.Step {
	x := f.Costs.Decode(requests, run)
	x.Leave = x.Leave[:0]
	return x
}

// TestPlantedTraffic: a checked run detects keys and values that are not sent, and costs that
// differ from the policy's.
func TestPlantedTraffic(t *testing.T) {
	n := rigOf(t, "policy.name=window", "policy.window.window=64", "policy.window.block=16")
	hw := n.Hardware
	run := func(plant func(e *l3)) error {
		r := n.replica(equal(3, 300, 100))
		plant(r.Engine.(*l3))
		_, err := r.run(unwatched)
		return err
	}
	for name, plant := range map[string]func(e *l3){
		"nothing leaves, and costs agree": func(e *l3) {
			e.Attends.Policy, e.homes.Attends.Policy = forgetful{e.Attends.Policy}, forgetful{e.homes.Attends.Policy}
		},
		"nothing leaves in the costs": func(e *l3) { e.Attends.Policy = forgetful{e.Attends.Policy} },
		"everything is at home": func(e *l3) {
			dense := policies.New("dense")
			e.Attends.Policy = dense.Costs(flow.PolicyShape(hw))
		},
	} {
		if err := run(plant); err == nil || !strings.Contains(err.Error(), `law "traffic"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := run(func(*l3) {}); err != nil {
		t.Error(err)
	}
}

// TestWindowPredictions: the predicted GPU time equals that of an iteration, with decoding, windows
// and merges; for the ranks, the tokens that have left the windows count.
func TestWindowPredictions(t *testing.T) {
	busy, seen := units.Duration(0), 0
	drive(t, []string{"policy.name=window", "policy.window.window=512", allAtOnce}, equal(2, 890, 150), keep, func(r *loop, d driven) {
		e := r.Engine.(*l3)
		work := e.Flow.Work.Time[flow.OfGPU] - busy
		busy += work
		if d.batch.Sub[0].PrefillTokens()+d.batch.Sub[1].PrefillTokens() > 0 {
			return
		}
		seen++
		var both, pim units.Duration
		var m scheduler.Sample
		for i := range d.batch.Sub {
			both += e.GPU(&d.batch.Sub[i], d.batch.Step)
			pim = e.PIM(&d.batch.Sub[i], d.batch.Step, 0)
			e.measure(&m, d.batch, i, 0)
			if m.FC != e.GPU(&d.batch.Sub[i], d.batch.Step) || m.PIM != pim {
				t.Fatalf("a sample has %v on the GPUs and %v in the DIMMs", m.FC, m.PIM)
			}
		}
		dense := rigOf(t).l3().PIM(&d.batch.Sub[0], d.batch.Step, 0)
		if both != work || pim >= dense || pim == 0 {
			t.Fatalf("the GPUs work for %v, predicted %v; the DIMMs for %v, with everything there for %v", work, both, pim, dense)
		}
		away := 0
		for d.batch.Sub[1].Decode[0].Context(d.batch.Step)-1-away >= 512 {
			away += 128
		}
		x := e.ranks.Traffic(1)
		if want := 96 * (e.ranks.Latency + x.Down.Took() + refreshed(6*e.ranks.Sequence.At(away)) + e.ranks.UpLatency + x.Up); pim != want {
			t.Fatalf("the DIMMs work for %v over %d tokens, want %v", pim, away, want)
		}
	})
	if seen == 0 {
		t.Error("no iteration decodes alone")
	}
}
