package plan

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system"
)

// TestGains: a resource or target binds by the largest gain at which it holds the raised rate; the largest is first. If no rate holds, gains are
// relative to the lowest tried. With users, the next number is the least gain.
func TestGains(t *testing.T) {
	cfg, err := system.Load(configs.Options{Sets: []string{"run.system=l3", "node.ranksets=4", "slo.ttft=2s"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		row   Row
		users bool
		held  map[string]float64 // by doubling each alone; 1 if absent
		want  []Bind
	}{
		"each its gain": {Row{Highest: 10}, false, map[string]float64{"GPU memory": 10.5, "GPU compute": 12.5, "GPU bandwidth": 10.4, "GPU links": 12.4, "ranksets": 20, "target TTFT": 19.9},
			[]Bind{{"ranksets", 1}, {"GPU compute", 0.25}, {"target TTFT", 0.25}, {"GPU memory", 0.05}, {"GPU links", 0.05}}},
		"no rate holds": {Row{Tried: []Load{{RatePerS: 21}, {RatePerS: 42}}}, false, map[string]float64{"GPU memory": 21, "GPU compute": 20.9, "GPU links": 25, "link": 40},
			[]Bind{{"link", 1}, {"GPU links", 0.25}, {"GPU memory", 0.05}}},
		"users":         {Row{Highest: 30, Load: Load{Users: 30}}, true, map[string]float64{"GPU memory": 31, "GPU compute": 32, "link": 38}, []Bind{{"link", 0.25}, {"GPU compute", 0.05}}},
		"few users":     {Row{Highest: 3, Load: Load{Users: 3}}, true, map[string]float64{"GPU memory": 4, "link": 6}, []Bind{{"link", 1}, {"GPU memory", 0.25}}},
		"a rate holds":  {Row{Highest: 10, Asked: &Asked{Met: true}}, false, map[string]float64{"link": 20}, []Bind{}},
		"a rate fails":  {Row{Highest: 10, Asked: &Asked{}}, false, map[string]float64{"link": 20}, []Bind{{"link", 1}}},
		"nothing binds": {Row{Highest: 10}, false, nil, []Bind{}},
	} {
		c := &Contest{search: &Search{Tune: true}, n: 100, users: x.users, seen: map[string]*entrant{}}
		point := []int{3}
		know := func(held float64, sets []string) {
			e := &entrant{point: point, n: c.n, further: sets, held: held, failed: held * 1.0001}
			if held > 0 {
				e.judge = &Judge{}
			}
			e.once.Do(func() {})
			c.seen[fmt.Sprint(point, c.n, sets)] = e
		}
		for _, m := range doubled(cfg, nil, false) {
			know(max(x.held[m.name], 1), m.sets)
		}
		known := len(c.seen)
		x.row.Config = cfg
		if got := c.binds(&x.row, point); !reflect.DeepEqual(got, x.want) || c.err != nil || len(c.seen) > known+1 {
			t.Errorf("%s: %v, want %v; %v", name, got, x.want, c.err)
		}
	}
}

// TestTimes: a whole number is at least 1; a value that stays the same, is 0 or is not a number has no
// multiple.
func TestTimes(t *testing.T) {
	cfg, err := system.Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=4", "slo.ttft=2s"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		key    string
		set    int
		factor float64
		want   string
		ok     bool
	}{
		{maxSeqs, 64, 2, "128", true}, {maxSeqs, 64, 0.25, "16", true}, {maxSeqs, 3, 0.25, "1", true}, {maxSeqs, 1, 0.25, "1", false}, {maxSeqs, 0, 2, "1", false},
		{"slo.ttft", 0, 2, "4s", true}, {"slo.tbt", 0, 2, "", false}, {"node.nothing", 0, 2, "", false},
	} {
		cfg.Batching.MaxNumSeqs = x.set
		if got, ok := times(cfg, x.key, x.factor); ok != x.ok || ok && got != x.want {
			t.Errorf("%+v: %q, %v", x, got, ok)
		}
	}
}

// TestBindText: the two largest gains; the largest one tried may be a lower bound.
func TestBindText(t *testing.T) {
	all := []Bind{{"ranksets", 1}, {"link", 0.25}, {"GPU memory", 0.05}}
	var got []string
	for i := range all {
		got = append(got, Text(all[i:]))
	}
	met, fails := &Row{Asked: &Asked{Met: true}}, &Row{Asked: &Asked{}}
	got = append(got, Text(nil), met.binding(), fails.binding(), (&Row{Load: Load{Met: true}}).binding())
	want := []string{"ranksets +100% or more, link +25%", "link +25%, GPU memory +5%", "GPU memory +5%", "nothing alone", "nothing at this rate", "nothing alone", "nothing alone"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
