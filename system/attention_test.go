package system

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/units"
)

// capped is a policy for tests: no head attends over more than a number of tokens. It counts its
// calls.
type capped struct {
	policy.Costs
	most, asked int
}

func (c *capped) Decode(requests []policy.Request, run int) *policy.Step {
	c.asked++
	short := slices.Clone(requests)
	for i := range short {
		short[i].Context = min(short[i].Context, c.most)
	}
	return c.Costs.Decode(short, run)
}

// halved is a policy for tests: half of the heads attend on the GPUs, the others where keys and
// values are stored.
type halved struct{ policy.Costs }

func (h halved) Decode(requests []policy.Request, run int) *policy.Step {
	x := h.Costs.Decode(requests, run)
	all := x.Attend[0]
	gpu := policy.Class{Device: policy.GPU, Heads: all.Heads / 2, Tokens: all.Tokens}
	all.Heads -= gpu.Heads
	x.Attend = []policy.Class{all, gpu}
	return x
}

// TestHeadsOnTheGPUs: heads that a policy puts on the GPUs take GPU time, and halve the time of the
// other device, in every system.
func TestHeadsOnTheGPUs(t *testing.T) {
	for _, s := range densely() {
		work := func(half bool) flow.Work {
			f, r := busyIteration(t, s.Name)
			a := r.assembly.Engine.Side().Attends
			if half {
				a.Policy = halved{a.Policy}
			}
			before := f.Work
			if _, err := r.assembly.Engine.Run(r.iteration.batch, 0); err != nil {
				t.Fatal(err)
			}
			return f.Work.Since(&before)
		}
		whole, half := work(false), work(true)
		if whole.Time[flow.OfAttention]+whole.Time[flow.OfPIM] >= half.Time[flow.OfAttention]+half.Time[flow.OfPIM] && half.Time[flow.OfAttention] <= whole.Time[flow.OfAttention] {
			t.Errorf("%s: with half of the heads on the GPUs these attend for %v, else for %v", s.Name, half.Time[flow.OfAttention], whole.Time[flow.OfAttention])
		}
		most := 0.75
		if s.Name == "hbm-pim" { // its units have an overhead that does not depend on heads
			most = 0.95
		}
		if share := float64(half.Time[flow.OfPIM]) / float64(whole.Time[flow.OfPIM]); whole.Time[flow.OfPIM] > 0 && (share < 0.4 || share > most) {
			t.Errorf("%s: half of the heads take %.2f of the units' time", s.Name, share)
		}
	}
}

// TestPolicyDecides: in every system decode attention takes the time of the tokens that the policy
// returns: requests of 900 tokens that attend over 50 take the time of requests of 50. The policy
// is asked once a sub-batch or, if the scheduler predicts or tries, a few times.
func TestPolicyDecides(t *testing.T) {
	for _, s := range densely() {
		step := func(tokens, most int) (took units.Duration, asked int) {
			sets := []string{"run.system=" + s.Name, "run.model=gpt-89b", "model.layers=4", "scheduler.sub_batches=1", "hbm_pim.sub_batches=never"}
			if s.Name == "cpu-offload" {
				sets = append(sets, "cpu_offload.policy=fastdecode")
			}
			cfg, err := everything().Load(configs.Options{Sets: sets})
			if err != nil {
				t.Fatal(err)
			}
			r := mustNode(t, cfg).replica(0, equalLengths(8, tokens, 60), Options{})
			for i := range r.requests {
				r.assembly.Batcher.Add(int32(i))
			}
			a := r.assembly.Engine.Side().Attends
			for range 100 {
				c := &capped{Costs: flow.PolicyOf(kinds.Of(cfg).Derive(cfg)), most: most}
				a.Policy = c
				b := r.assembly.Batcher.Next()
				end, err := r.assembly.Engine.Run(b, 0)
				if err != nil {
					t.Fatal(err)
				}
				if b.Decoding() == 8 && len(b.Sub[0].Prefill) == 0 {
					return end, c.asked
				}
				r.assembly.Batcher.Complete(func(int32, int) {})
			}
			t.Fatal(s.Name, ": eight requests never decode")
			return 0, 0
		}
		long, _ := step(900, 1<<30)
		short, _ := step(50, 50)
		few, asked := step(900, 50)
		if few != short || few >= long {
			t.Errorf("%s: attending over 50 tokens of 900 takes %v, of 50 %v, over all %v", s.Name, few, short, long)
		}
		if asked < 1 || asked > 8 {
			t.Errorf("%s: the policy is asked %d times in an iteration", s.Name, asked)
		}
	}
}
