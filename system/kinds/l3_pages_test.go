package kinds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// bare is a test policy without the work of keeping pages' bounds.
type bare struct{ policy.Costs }

func (b bare) Decode(requests []policy.Request, run int) *policy.Step {
	x := b.Costs.Decode(requests, run)
	x.Passes, x.Bounds.Heads = x.Passes[:0], 0
	return x
}

func (b bare) Prompt(run, chunk, finished int, last bool) *policy.Prompt {
	p := b.Costs.Prompt(run, chunk, finished, last)
	p.Passes = p.Passes[:0]
	if n := len(p.Leave); n > 0 && p.Leave[n-1].Bounds {
		p.Leave = p.Leave[:n-1]
	}
	return p
}

// iterations returns the time of all iterations of one replica.
func iterations(t *testing.T, requests []traces.Request, change func(policy.Costs) policy.Costs, sets ...string) units.Duration {
	t.Helper()
	r := rigOf(t, sets...).loop(requests, nil)
	e := r.Engine.(*l3)
	e.Attends.Policy = change(e.Attends.Policy)
	end, err := r.run(unwatched)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func same(p policy.Costs) policy.Costs          { return p }
func withoutBounds(p policy.Costs) policy.Costs { return bare{p} }

// TestBudgetOfEverything: with a budget for all contexts and no streaming heads a run equals dense attention
// to the picosecond, except for the bounds that are kept; pages of a whole context cost as much as its rows.
// With equal sizes of pages and parts, a list a step, no streaming heads and no dense layers LServe is Quest.
func TestBudgetOfEverything(t *testing.T) {
	requests := []traces.Request{{ID: 0, Input: 700, Output: 300}, {ID: 1, Input: 40, Output: 500}, {ID: 2, Input: 1300, Output: 2}, {ID: 3, Input: 3000, Output: 100}}
	for _, model := range []string{"run.model=llama-3-8b", "run.model=gpt-89b"}[:deep.Of(1, 2, 2)] {
		run := func(change func(policy.Costs) policy.Costs, sets ...string) units.Duration {
			return iterations(t, requests, change, append(sets, model)...)
		}
		dense := run(same)
		for _, sets := range [][]string{
			{"policy.name=duo", "policy.duo.static_sparsity=0"}, {"policy.name=quest", "policy.quest.budget=4096"}, {"policy.name=quest", "policy.quest.budget=4096", "policy.quest.select_device=bank"},
			{"policy.name=lserve", "policy.lserve.budget=4096", "policy.lserve.static_sparsity=0", "policy.lserve.select_device=rank", "policy.lserve.summary_device=rank"},
		} {
			if got := run(withoutBounds, sets...); got != dense {
				t.Errorf("%s %v: %v, dense %v", model, sets, got, dense)
			}
			if got := run(same, sets...); got < dense || float64(got) > 1.06*float64(dense) {
				t.Errorf("%s %v: with bounds %v, dense %v", model, sets, got, dense)
			}
		}
		for _, by := range []string{"gpu", "bank", "rank"} {
			var sets []string
			for _, name := range []string{"quest", "lserve"} {
				sets = append(sets, "policy."+name+".budget=256", "policy."+name+".select_device="+by, "policy."+name+".page=16")
			}
			quest := run(same, append(sets, "policy.name=quest", "policy.quest.skip_layers=0")...)
			lserve := run(same, append(sets, "policy.name=lserve", "policy.lserve.logical_page=16", "policy.lserve.reuse=1", "policy.lserve.static_sparsity=0")...)
			if quest != lserve {
				t.Errorf("%s: Quest with the %s takes %v, LServe as Quest %v", model, by, quest, lserve)
			}
		}
		stream := run(same, "policy.name=lserve", "policy.lserve.static_sparsity=1")
		if duo := run(same, "policy.name=duo", "policy.duo.static_sparsity=1"); duo != stream {
			t.Errorf("%s: all heads streaming take %v with DuoAttention, %v with LServe", model, duo, stream)
		}
	}
}

// TestEverythingOfPagesGoesDown: data that a run sends to the DIMMs, by hand: vectors of the heads there,
// keys and values of prompts, complete bounds, and lists of steps that make one.
func TestEverythingOfPagesGoesDown(t *testing.T) {
	requests := []traces.Request{{ID: 0, Input: 700, Output: 300}, {ID: 1, Input: 40, Output: 500}, {ID: 2, Input: 1300, Output: 2}}
	for _, c := range []struct {
		sets              []string
		heads, streams    int // at home
		bounds, lists     bool
		entries, perHeads int
	}{
		{[]string{"policy.name=lserve"}, 48, 0, false, true, 3, 1},
		{[]string{"policy.name=lserve", "policy.lserve.select_group=per-head", "run.model=llama-3-8b"}, 4, 0, false, true, 3, 4},
		{[]string{"policy.name=lserve", "policy.lserve.stream_device=home"}, 48, 48, false, true, 3, 1},
		{[]string{"policy.name=lserve", "policy.lserve.select_device=bank"}, 48, 0, true, false, 0, 0},
		{[]string{"policy.name=lserve", "policy.lserve.select_device=rank", "policy.lserve.summary_device=rank"}, 48, 0, false, false, 0, 0},
		{[]string{"policy.name=duo"}, 48, 0, false, false, 0, 0},
	} {
		var vectors, prompts, lists units.Bytes
		sets := append(c.sets, "scheduler.chunk_multiple=256")
		if c.sets[0] == "policy.name=lserve" {
			sets = append(sets, "policy.lserve.budget=256", "policy.lserve.page=64")
		}
		r, _ := drive(t, sets, requests, func(x *iterationCosts) {
			for s := range x.sub {
				for i := range x.sub[s].groups {
					if g := &x.sub[s].groups[i]; x.sub[s].active {
						prompts += g.Prompt.Bytes + g.Leaving.Bytes
						vectors += units.Bytes(g.Vectors.All) * 256
						lists += g.Vectors.Down
					}
				}
			}
		}, unseen)
		var wantVectors, wantPrompts, wantLists units.Bytes
		for _, q := range requests {
			wantVectors += units.Bytes((q.Output-1)*(c.heads+c.streams)) * 256
			wantPrompts += units.Bytes(q.Input*c.heads+min(q.Input, 384)*c.streams) * 512
			if c.bounds {
				wantPrompts += units.Bytes(q.Input/16*c.heads) * 512
			}
			for context := q.Input + 1; context < q.Input+q.Output; context++ {
				if c.lists && context > 256 && (context%4 == 0 || context == q.Input+1) {
					wantLists += units.Bytes(c.heads * c.entries * 2 * c.perHeads)
				}
				if c.bounds && context%16 == 0 {
					wantLists += units.Bytes(c.heads) * 512
				}
			}
		}
		if vectors != wantVectors || prompts != wantPrompts || lists != wantLists {
			t.Errorf("%v: %v of a vector each, %v with prompts, %v of lists and bounds, want %v, %v, %v", c.sets, vectors, prompts, lists, wantVectors, wantPrompts, wantLists)
		}
		if used := r.Batcher.UsedUnits(); used != 0 {
			t.Errorf("%v: %d units are in use at the end", c.sets, used)
		}
	}
}

// listless is a test policy that never sends lists, bounded one that forgets bounds.
type (
	listless struct{ policy.Costs }
	bounded  struct{ policy.Costs }
)

func (l listless) Decode(requests []policy.Request, run int) *policy.Step {
	x := l.Costs.Decode(requests, run)
	x.Choose = x.Choose[:0]
	return x
}

func (b bounded) Prompt(run, chunk, finished int, last bool) *policy.Prompt {
	return bare(b).Prompt(run, chunk, finished, last)
}

// TestPlantedPages: a checked run detects lists and bounds that are not sent, and heads that attend at
// home without keys and values there.
func TestPlantedPages(t *testing.T) {
	run := func(by string, plant func(policy.Costs) policy.Costs) error {
		r := rigOf(t, "policy.name=lserve", "policy.lserve.budget=128", "policy.lserve.page=32", "policy.lserve.select_device="+by).replica(equal(3, 300, 100))
		e := r.Engine.(*l3)
		e.Attends.Policy = plant(e.Attends.Policy)
		_, err := r.run(unwatched)
		return err
	}
	for _, c := range []struct {
		name, by string
		plant    func(policy.Costs) policy.Costs
	}{
		{"no lists", "gpu", func(p policy.Costs) policy.Costs { return listless{p} }},
		{"no bounds of prompts", "bank", func(p policy.Costs) policy.Costs { return bounded{p} }},
		{"no bounds of steps", "bank", withoutBounds},
		{"all heads at home", "gpu", func(p policy.Costs) policy.Costs {
			s := policies.New("quest")
			policy.Edit(&s, func(q *policies.QuestSpec) { q.Budget = 128 })
			return s.Costs(policy.Shape{Layers: 96, QueryHeads: 96, KVHeads: 96, Dim: 128, ElementBits: 16, Apart: true})
		}},
	} {
		if err := run(c.by, c.plant); err == nil || !strings.Contains(err.Error(), `law "traffic"`) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := run(c.by, same); err != nil {
			t.Error(err)
		}
	}
}

// TestQuadErrors: rows of pages in quads have one size, and banks alternate.
func TestQuadErrors(t *testing.T) {
	for want, sets := range map[string][]string{
		"policy.lserve.page = 64: expected 128": {"policy.lserve.layout=quad"}, "staggered": {"policy.lserve.layout=quad", "policy.lserve.page=128", "pim.activation=simultaneous"},
	} {
		_, err := Loader().Load(configs.Options{Sets: append(sets, "policy.name=lserve")})
		if err == nil || !strings.Contains(err.Error(), strings.Replace(want, "staggered", `policy.lserve.layout = "quad": expected "row"`, 1)) {
			t.Errorf("%v: %v", sets, err)
		}
	}
}

// TestPagesOfARowByHand: banks score 16 tokens at once, and a row has 512: a page is a multiple of 16 that divides 512, or a multiple of 512.
func TestPagesOfARowByHand(t *testing.T) {
	for page := 8; page <= 2048; page += 8 {
		want := page%16 == 0 && (512%page == 0 || page%512 == 0)
		_, err := Loader().Load(configs.Options{Sets: []string{"run.model=llama-2-7b", "policy.name=quest", fmt.Sprint("policy.quest.page=", page), "policy.quest.budget=4096"}})
		if (err == nil) != want {
			t.Errorf("pages of %d tokens: %v, legal: %t", page, err, want)
		}
	}
}
