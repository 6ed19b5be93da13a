package kinds

import (
	"math"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
)

// TestPredictionsAreExecuted: the time of decode attention that the scheduler is told (T_PIM, L3, equation 5) is within 3% of the time
// that a sub-batch spends on the ranks and links when it runs by itself and the GPUs take no time. Heads divide over the channels, or
// half of them are elsewhere, or there are fewer heads than channels, each whole and in stripes; contexts differ.
func TestPredictionsAreExecuted(t *testing.T) {
	llama, eight := "run.model=llama-3-70b", "model.tensor_parallel=8"
	for _, sets := range [][]string{
		{"run.model=gpt-89b"},
		{"run.model=gpt-89b", "comm.stripe=channels"},
		{llama, eight},
		{llama, eight, "comm.stripe=ranksets"},
		{llama, eight, "comm.stripe=channels"},
		{"run.model=qwen3-235b-a22b", eight},
		{llama, "policy.name=duo"},
		{llama, "policy.name=duo", "comm.stripe=ranksets"},
		{llama, "policy.name=duo", "comm.stripe=channels"},
		{llama, "policy.name=lserve"},
		{llama, "policy.name=lserve", "policy.lserve.stream_device=home"},
		{llama, "policy.name=lserve", "policy.lserve.select_device=bank", eight},
	} {
		n := rigOf(t, sets...)
		e := n.l3()
		for _, requests := range []int{1, 2, 7, 24} {
			b := &scheduler.Batch{Sub: make([]scheduler.SubBatch, 2)}
			sub := &b.Sub[0]
			for i := range requests {
				context := int64(16_000 + 1000*(i*5%7))
				sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Offset: int32(i % n.cfg.Node.Ranksets), Base: context, Prompt: int32(context - 1)})
			}
			e.fill(&e.costs, b)
			for kind := range e.Attends.Kinds {
				s := &e.costs.of(kind)[0]
				s.entry, s.window, s.block, s.chooses, s.exit = 0, 0, 0, 0, 0
				s.groups = slices.Clone(s.groups)
				for g := range s.groups {
					s.groups[g].Leaving.Tokens = 0
				}
			}
			e.costs.lay(&e.Flow)
			took, err := e.Try(0)
			if err != nil || took == 0 {
				t.Fatal(sets, took, err)
			}
			if off := float64(e.PIM(sub, 0, 0))/float64(took) - 1; math.Abs(off) > 0.03 {
				t.Errorf("%v: of %d requests %v are predicted, %+.1f%% of %v executed", sets, requests, e.PIM(sub, 0, 0), 100*off, took)
			}
		}
	}
}
