package claims

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestHostTime: the host's time is the least-squares intercept, over contexts, of vLLM's steps in Table 7
// minus our predicted ones.
func TestHostTime(t *testing.T) {
	m := &machines{}
	x, err := m.get("run.model=llama-3-8b", "model.weight_bits=8", "model.activation_bits=8", "model.kv_bits=8", "model.kv_scales=tensor")
	if err != nil {
		t.Fatal(err)
	}
	contexts := []int{65536, 98304, 131072, 163840, 196608, 229376, 262144, 327680}
	table7 := []float64{12.51, 14.49, 16.34, 18.20, 21.73, 21.96, 23.72, 27.45}
	var n, sx, sy, sxx, sxy float64
	for i, context := range contexts {
		c, y := float64(context), table7[i]-1e3*x.iterate(false, 1, context).total()
		n, sx, sy, sxx, sxy = n+1, sx+c, sy+y, sxx+float64(c*c), sxy+float64(c*y)
	}
	want := (float64(sy*sxx) - float64(sx*sxy)) / (float64(n*sxx) - float64(sx*sx))
	all, err := readSparse()
	if err != nil || math.Abs(all.HostMs-want) > 0.01 {
		t.Errorf("host_ms is %v, the intercept %v, %v", all.HostMs, want, err)
	}
	with := func(host bool, phase string) float64 {
		s, err := m.subject(&reading{sparseReading: sparseReading{Set: x.sets, Host: host, Phase: phase, hostTime: 0.25}})
		if err != nil {
			t.Fatal(err)
		}
		return s.ours(4096).total()
	}
	if got := with(true, "") - with(false, ""); math.Abs(got-0.25) > 1e-12 {
		t.Errorf("a step has %v s of the host", got)
	}
	if got := with(true, prefillPhase) - with(false, prefillPhase); got != 0 {
		t.Errorf("a prefill has %v s of the host", got)
	}
}

// TestContexts: a claim of several contexts becomes one claim for each, with its number and otherwise equal;
// placeholders of keys are filled in.
func TestContexts(t *testing.T) {
	e := &evaluation{HostMs: 2, Keys: map[string][]string{"k": {"a=1", "b=2"}}, Claim: []*claim{
		{ID: "X.y_{context}", Says: "{paper} at {context}", Contexts: []int{8192, 131072}, Papers: []float64{1.5, 2}, Set: []string{"@k", "c=3"},
			Readings: []reading{{Name: "one", sparseReading: sparseReading{Host: true}}, {Name: "two", sparseReading: sparseReading{Set: []string{"@k"}}}}},
		{ID: "Z", Paper: 1},
	}}
	e.complete()
	if len(e.Claim) != 3 || e.Claim[2].ID != "Z" {
		t.Fatalf("%d claims", len(e.Claim))
	}
	for i, want := range []string{"X.y_8k 1.5 at 8K 1.5 [8192] [8192]", "X.y_128k 2 at 128K 2 [131072] [131072]"} {
		c := e.Claim[i]
		if got := fmt.Sprint(c.ID, " ", c.Says, " ", c.Paper, " ", c.Readings[0].Contexts, " ", c.Readings[1].Contexts); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := fmt.Sprint(c.Readings[0].Set, c.Readings[1].Set, c.Readings[0].hostTime, c.Readings[1].hostTime); got != "[a=1 b=2 c=3] [a=1 b=2 c=3 a=1 b=2] 0.002 0" {
			t.Errorf("%s: %s", c.ID, got)
		}
	}
}

// TestOfContexts: of several contexts a reading may take the worst ratio; of schedules, the least or the largest.
func TestOfContexts(t *testing.T) {
	m := &machines{}
	keys := []string{"run.model=llama-3-8b", "policy.name=lserve"}
	find := func(finder func(*subject) (finding, error), r sparseReading) float64 {
		t.Helper()
		r.Set = keys
		s, err := m.subject(&reading{sparseReading: r})
		if err != nil {
			t.Fatal(err)
		}
		f, err := finder(s)
		if err != nil {
			t.Fatal(err)
		}
		return f.value
	}
	over := append(keys[:2:2], "policy.lserve.budget=8192")
	var one []float64
	for _, context := range []int{65536, 131072} {
		one = append(one, find((*subject).ratio, sparseReading{Over: over, Contexts: []int{context}}))
	}
	both := []int{65536, 131072}
	if got := find((*subject).ratio, sparseReading{Over: over, Contexts: both, Worst: true}); got != max(one[0], one[1]) || one[0] == one[1] {
		t.Errorf("the worst of %v is %v", one, got)
	}
	if got := find((*subject).ratio, sparseReading{Over: over, Contexts: both}); math.Abs(got-(one[0]+one[1])/2) > 1e-12 {
		t.Errorf("the mean of %v is %v", one, got)
	}
	keys, one = []string{"run.model=llama-3-8b", "policy.name=csattention"}, nil
	for _, context := range both {
		one = append(one, find((*subject).schedule, sparseReading{Contexts: []int{context}}))
	}
	if got := find((*subject).schedule, sparseReading{Contexts: both, Least: true}); got != min(one[0], one[1]) || one[0] == one[1] {
		t.Errorf("the least of %v is %v", one, got)
	}
	if got := find((*subject).schedule, sparseReading{Contexts: both}); got != max(one[0], one[1]) {
		t.Errorf("the largest of %v is %v", one, got)
	}
}

// TestFamilies: claims of several contexts share a line, statements have none; a reproduced claim needs no reason. Claims
// of sparse attention are grouped by verdict.
func TestFamilies(t *testing.T) {
	e := &evaluation{Claim: []*claim{
		{ID: "X.a_{context}", Says: "{paper} ms at {context}", Contexts: []int{1024, 2048, 4096}, Papers: []float64{1, 2, 5}, Kind: exactly, Why: "slow"},
		{ID: "X.b", Says: "b", Paper: 3, Kind: exactly, Why: "unused"},
		{ID: "X.c", Says: "c", Paper: 4, Kind: exactly, Why: "wrong"},
		{ID: "X.d", Says: "d", Paper: 1, Kind: statement, Verdict: notJudged, Reason: "r"},
		{ID: "X.e", Says: "e", Paper: 2, Kind: exactly, Ratio: true, Shape: true},
		{ID: "X.f", Says: "f", Paper: 4, Kind: exactly, Ratio: true, Why: "near"}, {ID: "X.g", Says: "g", Paper: 40, Kind: exactly, Ratio: true, Why: "far off"},
	}}
	e.complete()
	for _, c := range e.Claim {
		c.find = func(_ *evidence, _ uint64, r *reading) (finding, error) {
			if len(r.Contexts) > 0 {
				return finding{value: float64(r.Contexts[0]) / 1024}, nil
			}
			return finding{value: 3}, nil
		}
	}
	judgements, err := judge(e.Claim, &evidence{seeds: []uint64{1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target Target
		want   []string
	}{
		{AllTargets, []string{
			"| claim | what is claimed | paper | ours | verdict |",
			"| `X.a_1k` to `4k` | 1 to 5 ms at 1K to 4K | 1 to 5 | 1 to 4 | 2 of 3 reproduced |",
			"| `X.b` | b | 3 | 3 | reproduced, on the edge |",
			"| `X.c` | c | 4 | 3 | not reproduced |",
			"- `X.a_1k` to `4k`: slow",
			"- `X.c`: wrong",
			"Without a number here, for reasons in `evaluation.json`: `X.d`.",
		}},
		{Sparse, []string{
			"### Claims: reproduced",
			"| claim | the paper says | ours |",
			"| `X.b` | b | 3, on the edge |",
			"### Claims: shape only",
			"| claim | the paper says | ours |",
			"| `X.e` | e | 3 |",
			"### Claims: missed",
			"- `X.a_1k` to `4k`: 1 to 5 ms at 1K to 4K. Ours 1 to 4, 2 of 3 reproduced: slow.",
			"- `X.c`: c. Ours 3, not reproduced: wrong.",
			"- `X.f`: f. Ours 3, direction: near.",
			"- `X.g`: g. Ours 3, same side: far off.",
			"Without a number here, for reasons in `sparse.json`: `X.d`.",
		}},
	} {
		all := slices.Clone(judgements)
		all[3].Edge = true // X.b
		if c.target != Sparse {
			all = all[:6]
		}
		var text strings.Builder
		if err := (&Report{Target: c.target, Judgements: all}).writeClaims(&text); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range strings.Split(text.String(), "\n") {
			if line = strings.Join(strings.Fields(line), " "); line != "" && !strings.HasPrefix(line, "| --") {
				got = append(got, line)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
