package system

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// capped is a policy of a test: no head attends over more than so many tokens. It counts
// how often it is asked.
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

// halved is a policy of a test: half of the heads attend on the GPUs, beside the home.
type halved struct{ policy.Costs }

func (h halved) Decode(requests []policy.Request, run int) *policy.Step {
	x := h.Costs.Decode(requests, run)
	all := x.Attend[0]
	gpu := policy.Class{Device: policy.GPU, Heads: all.Heads / 2, Tokens: all.Tokens}
	all.Heads -= gpu.Heads
	x.Attend = []policy.Class{all, gpu}
	return x
}

// TestHeadsOnTheGPUs: heads that a policy has attend on the GPUs take the GPUs' time, and
// leave the home half of its own, in every system.
func TestHeadsOnTheGPUs(t *testing.T) {
	for _, s := range Systems() {
		work := func(half bool) work {
			f, r := busyIteration(t, s.Name)
			a := r.engine.Side().attends
			if half {
				a.policy = halved{a.policy}
			}
			before := f.work
			if _, err := r.engine.Run(r.batch, 0); err != nil {
				t.Fatal(err)
			}
			return f.work.since(&before)
		}
		whole, half := work(false), work(true)
		if whole.time[ofAttention]+whole.time[ofPIM] >= half.time[ofAttention]+half.time[ofPIM] && half.time[ofAttention] <= whole.time[ofAttention] {
			t.Errorf("%s: with half of the heads on the GPUs these attend for %v, else for %v", s.Name, half.time[ofAttention], whole.time[ofAttention])
		}
		most := 0.75
		if s.Name == "hbm-pim" { // its units have an overhead that heads do not change
			most = 0.95
		}
		if share := float64(half.time[ofPIM]) / float64(whole.time[ofPIM]); whole.time[ofPIM] > 0 && (share < 0.4 || share > most) {
			t.Errorf("%s: half of the heads take %.2f of the units' time", s.Name, share)
		}
	}
}

// TestPolicyDecides: what a policy says is what every system's decode attention takes.
// Requests of 900 tokens that attend over 50 take the time of requests of 50, and the
// policy is asked once or, where the scheduler predicts or tries, a few times a sub-batch.
func TestPolicyDecides(t *testing.T) {
	for _, s := range Systems() {
		step := func(tokens, most int) (took units.Duration, asked int) {
			sets := []string{"run.system=" + s.Name, "run.model=gpt-89b", "model.layers=4", "scheduler.sub_batches=1", "hbm_pim.sub_batches=never"}
			if s.Name == "cpu-offload" {
				sets = append(sets, "cpu_offload.policy=fastdecode")
			}
			cfg, err := Load(configs.Options{Sets: sets})
			if err != nil {
				t.Fatal(err)
			}
			r := mustNode(t, cfg).replica(0, equal(8, tokens, 60), Options{})
			for i := range r.requests {
				r.batcher.Add(int32(i))
			}
			a := r.engine.Side().attends
			for range 100 {
				c := &capped{Costs: policyOf(hardwareOf(cfg)), most: most}
				a.policy = c
				b := r.batcher.Next()
				end, err := r.engine.Run(b, 0)
				if err != nil {
					t.Fatal(err)
				}
				if b.Decoding() == 8 && len(b.Sub[0].Prefill) == 0 {
					return end, c.asked
				}
				r.batcher.Complete(func(int32, int) {})
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

// TestWindowsOfTokens: tokens of the prompt, those since and all of them are counted apart.
func TestWindowsOfTokens(t *testing.T) {
	cfg, err := Load(configs.Options{Sets: []string{"run.model=llama-3-8b"}})
	if err != nil {
		t.Fatal(err)
	}
	h := hardwareOf(cfg)
	m := &h.Model
	token := int64(m.KVBytesPerToken()) / int64(m.Layers*m.KVHeads)
	for _, c := range []struct {
		held          policy.Held
		tokens        int
		ofPrompt, all float64
	}{
		{policy.Held{}, 0, 0, 1}, {policy.Held{Share: 0.5}, 0, 0, 0.5}, {policy.Held{Most: 7}, 7, 0, 0},
		{policy.Held{OfPrompt: true}, 0, 1, 0}, {policy.Held{OfPrompt: true, Share: 0.25}, 0, 0.25, 0}, {policy.Held{OfPrompt: true, Share: 0.25, Most: 9}, 9, 0, 0},
		{policy.Held{AfterPrompt: true}, 0, -1, 1}, {policy.Held{AfterPrompt: true, Share: 0.5}, 0, -0.5, 0.5}, {policy.Held{AfterPrompt: true, Most: 3}, 3, 0, 0},
	} {
		c.held.Device, c.held.Heads, c.held.Bytes = policy.GPU, m.KVHeads, token
		tokens, ofPrompt, all := windows(h, holding{held: []policy.Held{c.held}, layers: m.Layers})
		if tokens != c.tokens || ofPrompt != c.ofPrompt || all != c.all {
			t.Errorf("%+v: %d tokens, %v of the prompt, %v of all; want %d, %v, %v", c.held, tokens, ofPrompt, all, c.tokens, c.ofPrompt, c.all)
		}
	}
}

// holding is a policy of which a test knows what it holds.
type holding struct {
	policy.Costs
	held   []policy.Held
	layers int
}

func (h holding) Runs() []int { return []int{h.layers} }

func (h holding) Memory(int) (decoding, filling []policy.Held) { return h.held, h.held }

// TestHeldIsHandedOn: a ledger is told all that a policy says of what heads hold, and alike ones are one class.
func TestHeldIsHandedOn(t *testing.T) {
	held := []policy.Held{
		{Heads: 2, Bytes: 4, AfterPrompt: true}, {Heads: 2, Bytes: 4, OfPrompt: true, Skip: -1, Share: 0.5, Most: 9}, {Heads: 5, Bytes: 4, Device: policy.GPU},
		{Heads: 1, Bytes: 4, AfterPrompt: true}, {Bytes: 8},
	}
	want := []memory.HeadClass{{Heads: 9, TokenBytes: 4, AfterPrompt: true}, {Heads: 6, TokenBytes: 4, OfPrompt: true, Skip: -1, Share: 0.5, Most: 9}}
	if got := addClasses(nil, held, policy.Home, 3); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
