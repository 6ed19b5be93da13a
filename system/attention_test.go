package system

import (
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/units"
)

// capped is a policy of a test: no head attends over more than so many tokens. It counts
// how often it is asked.
type capped struct {
	policy.Policy
	most, asked int
}

func (c *capped) Decode(contexts []int, layer int, step int64) []policy.Class {
	c.asked++
	short := make([]int, len(contexts))
	for i, n := range contexts {
		short[i] = min(n, c.most)
	}
	return c.Policy.Decode(short, layer, step)
}

func (a *attends) seam() *attends { return a }

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
			a := r.engine.(interface{ seam() *attends }).seam()
			for range 100 {
				c := &capped{Policy: newAttends(&cfg.Model).policy, most: most}
				a.policy = c
				b := r.batcher.Next()
				end, err := r.engine.run(b, 0)
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
