package claims

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/kinds"
)

// layouts is a simulator whose throughputs follow the layout: baselines gain with the GPUs of a replica, l3 loses. On 2 GPUs the
// baselines reject requests of OPT-66B, which makes them fast; gpu-only rejects some of LongBench everywhere. Units in three
// quarters of HBM reject a request on each layout of Table 3, so l3 has no ratio over them there.
func layouts(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
	parallel := float64(c.Model.TensorParallel)
	rate := 100 + parallel
	if c.Run.System == "l3" {
		rate = 1000 / parallel * float64(c.Node.Ranksets) / 4
	}
	if configs.Section[kinds.HBMPIM](c).CapacityShare < 1 {
		rate *= configs.Section[kinds.HBMPIM](c).BandwidthFactor / 18
	}
	s := served(c, p, rate, parallel)
	if c.Run.System != "l3" && c.Run.Model == "opt-66b" && parallel == 2 {
		s.OutputTokensPerS, s.RejectedRequests = 5000, 3
	}
	if c.Run.System == "gpu-only" && c.Run.Model == "opt-66b" && c.Run.Trace == "longbench" {
		s.RejectedRequests++
	}
	table3 := map[string]int{"opt-66b": 2, "gpt-89b": 4, "gpt-175b": 8}[c.Run.Model] == c.Model.TensorParallel
	if configs.Section[kinds.HBMPIM](c).CapacityShare < 1 && table3 {
		s.RejectedRequests++
	}
	return s, nil
}

// TestFair: each system is compared at the best layout that holds every request,
// and a system without a point has no ratio.
func TestFair(t *testing.T) {
	deep.Heavy(t)
	r, err := fakeOptions(t, Fair).run(t.Context(), newFake(layouts).run)
	if err != nil {
		t.Fatal(err)
	}
	// Best: l3 500 on TP2 of OPT-66B; gpu-only 108 on TP8, rank-pim 108 on TP8.
	for id, want := range map[string]float64{
		"fig8.max_over_hbm_pim": 500.0 / 108, "fig8.max_over_gpu_only": 500.0 / 108, "fig8.max_over_rank_pim": 500.0 / 108,
		"fig8.opt66b_dolphin_hbm_below_gpu": 1,
	} {
		i := slices.IndexFunc(r.Judgements, func(j judgement) bool { return j.ID == id })
		if j := &r.Judgements[i]; fmt.Sprintf("%.6f", j.Ours) != fmt.Sprintf("%.6f", want) {
			t.Errorf("%s: %v, want %v", id, j.Ours, want)
		}
	}
	if reason := r.Judgements[0].Reason; !strings.HasPrefix(reason, "opt-66b on openr1 (l3 TP2, hbm-pim TP8): ") {
		t.Errorf("the layouts are not named: %s", reason)
	}
	best := map[string]string{"l3": "500 TP2", "gpu-only": "108 TP8", "rank-pim": "108 TP8"}
	table3 := map[string]string{"l3": "500 TP2", "gpu-only": "5000 (3) TP2", "rank-pim": "5000 (3) TP2"}
	for system := range best {
		if got := cellOf(t, r, "Output tokens/s, each system at its best layout", "opt-66b", "openr1", system); got != best[system] {
			t.Errorf("%s at its best: %s, want %s", system, got, best[system])
		}
		if got := cellOf(t, r, "Output tokens/s, layouts of Table 3", "opt-66b", "openr1", system); got != table3[system] {
			t.Errorf("%s in Table 3's layout: %s, want %s", system, got, table3[system])
		}
	}
	const ratios = "Throughput of l3 over that of each baseline"
	for where, want := range map[[2]string]string{
		{ratios, "over hbm-pim 9x 3/4"}: "9.26", {strings.Replace(ratios, "l3", "l3 RS-16", 1), "over hbm-pim 9x 3/4"}: "37.04",
		{strings.Replace(ratios, "l3", "l3 RS-8", 1), "over hbm-pim"}:         "9.26",
		{"Output tokens/s, each system at its best layout", "hbm-pim 9x 3/4"}: "54.0 TP8", {"Output tokens/s, each system at its best layout", "l3 RS-16"}: "2000 TP2",
	} {
		if got := cellOf(t, r, where[0], "opt-66b", "openr1", where[1]); got != want {
			t.Errorf("%v: %s, want %s", where, got, want)
		}
	}
	for where, want := range map[[3]string]string{
		{"opt-66b", "openr1", "over gpu-only"}: "4.63", {"opt-66b", "longbench", "over gpu-only"}: "-", {"opt-66b", "longbench", "over hbm-pim"}: "4.63",
	} {
		if got := cellOf(t, r, ratios, where[0], where[1], where[2]); got != want {
			t.Errorf("%v: %s, want %s", where, got, want)
		}
	}
	if got := cellOf(t, r, ratios+", layouts of Table 3", "opt-66b", "openr1", "over gpu-only"); got != "-" {
		t.Errorf("a ratio of systems that serve different requests: %s", got)
	}
	for _, work := range [][2]string{{"opt-66b", "openr1"}, {"gpt-89b", "dolphin"}, {"gpt-175b", "longbench"}} {
		if got := cellOf(t, r, ratios+", layouts of Table 3", work[0], work[1], "over hbm-pim 9x 3/4"); got != "-" {
			t.Errorf("%v: a ratio over a system that rejects requests everywhere: %s", work, got)
		}
	}
	// The page names a layout unless it is all GPUs.
	for system, want := range map[string]string{"l3": "500 TP2", "gpu-only": "108", "hbm-pim 9x 3/4": "54.0"} {
		if got := cellOf(t, r, shortTitle, "opt-66b", "openr1", system); got != want {
			t.Errorf("%s on the page: %s, want %s", system, got, want)
		}
	}
	for i := range r.sections {
		if s := &r.sections[i]; s.onPage() != (s.title == answerTitle || s.title == shortTitle) || s.onPage() && slices.Contains(s.table.Columns, "requests") {
			t.Errorf("%q is on the page: %v, with %v", s.title, s.onPage(), s.table.Columns)
		}
	}
	// The short answer: gpu-only rejects some of OPT-66B on LongBench, which leaves 11 pairs. l3 has
	// 500 on 2 GPUs, 250 on 4 and 125 on 8, against 108; with more ranksets twice and four times that.
	short := r.sections[0]
	if want := "l3: 2.31 (1.16 to 4.63), 11 of 11; l3 RS-8: 4.63 (2.31 to 9.26), 11 of 11; l3 RS-16: 9.26 (4.63 to 18.52), 11 of 11"; inShort(short, "over gpu-only") != want {
		t.Errorf("%s:\ngot  %s\nwant %s", short.title, inShort(short, "over gpu-only"), want)
	}
	if want := "over the models and traces, and in how many cases l3 is faster. Every system has its best policy and layout."; !strings.HasSuffix(short.text, want) {
		t.Errorf("%s, want %s", short.text, want)
	}
	// In 160 GiB: 64 layers of 12·9216² weights, and 50,272 words and 2,050 positions of 9,216 elements, 2 bytes
	// each.
	last := r.sections[len(r.sections)-1]
	if want := "on 2 GPUs, the weights of opt-66b take 76% of the memory."; !strings.HasSuffix(last.text, want) {
		t.Errorf("%s, want %s", last.text, want)
	}
	// The figure is relative to gpu-only, so it omits the trace that gpu-only cannot serve.
	drawn := r.Tables[1]
	if drawn.Name != "fair_best" || len(drawn.Rows) != 8*(3*4-1)-4 { // without GPT-175B on three quarters of HBM
		t.Errorf("%s has %d rows", drawn.Name, len(drawn.Rows))
	}
}

// TestOnTrial: the page says how close to the best a point had to be, and on how many requests, to
// run in full.
func TestOnTrial(t *testing.T) {
	if got, want := (&experiment{triedOn: 37}).onTrial(), " of those within 5% of the best on 37 requests of the first seed, judged by all requests of this seed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (&experiment{}).onTrial(); got != "" {
		t.Errorf("%q where all have run in full", got)
	}
}

func inShort(s section, column string) string {
	var rows []string
	at := slices.Index(s.table.Columns, column)
	for _, row := range s.table.Rows {
		rows = append(rows, row[0].String()+": "+row[at].String())
	}
	return strings.Join(rows, "; ")
}

func cellOf(t *testing.T, r *Report, title, model, trace, column string) string {
	t.Helper()
	for _, s := range r.sections {
		at := slices.Index(s.table.Columns, column)
		for _, row := range s.table.Rows {
			if s.title == title && row[0].String() == model && row[1].String() == trace {
				return row[at].String()
			}
		}
	}
	t.Fatalf("no %s of %s on %s", title, model, trace)
	return ""
}

// TestLayoutOverSeeds: all seeds have the same layout, the best over them together.
func TestLayoutOverSeeds(t *testing.T) {
	deep.Turn(t, 1, 4)
	o := fakeOptions(t, Fair)
	o.Seeds = 2
	r, err := o.run(t.Context(), newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
		s := served(c, p, 100, 1)
		if c.Model.TensorParallel == 4 { // 10 better with one seed, 20 worse with the other
			s.OutputTokensPerS += 40 - 30*float64(p.Seed)
		}
		return s, nil
	}).run)
	if err != nil {
		t.Fatal(err)
	}
	// GPT-89B's TP4 and TP8 are equal except for the 10 and 20, so the sum decides.
	at := slices.Index(r.Tables[1].Columns, "model.tensor_parallel")
	for _, row := range r.Tables[1].Rows {
		if model := row[slices.Index(r.Tables[1].Columns, "run.model")]; model.String() == "gpt-89b" && row[at].String() != "8" {
			t.Errorf("%s at TP%s", model, row[at])
		}
	}
}

// TestFairUnjudged: the files of the fair comparison have the claims' numbers and no verdict.
func TestFairUnjudged(t *testing.T) {
	deep.Turn(t, 2, 4)
	r, err := fakeOptions(t, Fair).run(t.Context(), newFake(plausible).run)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var got struct{ Claims []judgement }
	if err := json.Unmarshal(text.Bytes(), &got); err != nil || len(got.Claims) != 6 {
		t.Fatalf("%v: %d claims", err, len(got.Claims))
	}
	for i := range got.Claims {
		if got.Claims[i].Verdict != notJudged {
			t.Errorf("%s: %s", got.Claims[i].ID, got.Claims[i].Verdict)
		}
	}
	page, err := r.page(filepath.Join(t.TempDir(), pageFile))
	if err != nil {
		t.Fatal(err)
	}
	text.Reset()
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	part := oldPart(string(page), string(Fair))
	for _, shown := range []string{part, text.String()} {
		for _, word := range []string{"verdict", reproduced, direction} {
			if strings.Contains(shown, word) {
				t.Errorf("%q in\n%s", word, shown)
			}
		}
	}
	if !strings.Contains(text.String(), "20 requests of each trace: the end of a run") {
		t.Error("nothing says that few requests matter")
	}
}

// tightest are the points with a model's fewest GPUs that suit all systems, and one of the most
// demanding traces for memory: the longest outputs or the longest prompts.
const tightest = `(run.trace == "openr1" || run.trace == "longbench") &&
	(run.model == "gpt-175b" || model.tensor_parallel == 4)`

// TestFairDoesNotThrash runs the tightest points of the fair comparison with a forecast and 100 requests, except those of
// gpt-89b, which preempt nothing; at full length every point with 200. Each system preempts at most one request in ten, and
// once each of those admitted before any output is known, and decodes at most the preset's limit at once.
func TestFairDoesNotThrash(t *testing.T) {
	deep.Only(t)
	if testing.Short() {
		t.Skip("runs 32 simulations")
	}
	l := loader{version: "test", seeds: 1, traces: t.TempDir(), requests: 100}
	if deep.Long() {
		l.requests = 0 // the 200 of the file
	}
	e, err := l.load(&experimentSpec{Name: "fair", Claims: tightest + ` && run.model != "gpt-89b"`}, !deep.Long())
	if err != nil {
		t.Fatal(err)
	}
	// With a forecast; variants without one admit what fits now, as servers do, and preempt later.
	e = e.pick(func(i int) bool { return e.configs[i].Memory.History > 0 })
	if err := runAll(t.Context(), []*experiment{e}, (*sweep.Plan).Run, sweep.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := e.failed(); err != nil {
		t.Fatal(err)
	}
	busy := 0
	for i, entry := range e.outcome.Entries {
		s, c := entry.Summary, e.configs[i]
		if s.Preemptions > int64(s.DecodeBatch.Max+s.Trace.Requests/10) {
			t.Errorf("%s: %d preemptions of %d requests, stalls %+v", e.plan.Points[i].Name, s.Preemptions, s.Trace.Requests, s.Stall)
		}
		if most := c.Batching.MaxNumSeqs * c.Replicas(); c.Batching.MaxNumSeqs != 256 || s.DecodeBatch.Max > most {
			t.Errorf("%s: %d requests decode at once, at most %d may", e.plan.Points[i].Name, s.DecodeBatch.Max, most)
		}
		if s.KVBytes.Peak > s.KVBytes.Capacity*3/4 {
			busy++
		}
	}
	if busy < len(e.configs)/3 {
		t.Errorf("%d of %d runs fill three quarters of their memory: nothing is put under pressure", busy, len(e.configs))
	}
}

// TestTried: policies and layouts are tried on few requests of one seed. Those close to the best run in full with this seed. The best of these
// runs with all seeds; the best policy on the layout of Table 3 runs with one. A layout that rejects requests of the whole trace is not the best,
// however fast on the few. A policy that is fastest only on the few is not the best either.
func TestTried(t *testing.T) {
	deep.Turn(t, 0, 4)
	o := fakeOptions(t, Fair)
	o.Requests, o.Seeds = 400, 2
	points := map[string]int{} // by requests, seed, system, model and trace
	var planned []int64
	o.Planned = func(n int64) { planned = append(planned, n) }
	var mu sync.Mutex
	r, err := o.run(t.Context(), newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
		mu.Lock()
		points[fmt.Sprintf("%d %d %s %d %s %s", c.Run.Requests, p.Seed, c.Run.System, c.Node.Ranksets, c.Run.Model, c.Run.Trace)]++
		mu.Unlock()
		rate := 100 - float64(c.Model.TensorParallel) // the fewest GPUs are the fastest
		if c.Run.Variant == "striped" {
			rate *= map[bool]float64{true: 1.03, false: 0.9}[c.Run.Requests == 200] // the fastest only on the few requests
		}
		s := served(c, p, rate, 1)
		s.Variant = c.Run.Variant
		return s, nil
	}).run)
	if err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]int{
		"200 1 l3 4 opt-66b openr1": 27, "200 2 l3 4 opt-66b openr1": 0, "200 1 gpu-only 4 opt-66b openr1": 15, // nine and five policies on three layouts
		"400 1 l3 4 opt-66b openr1": 19, "400 2 l3 4 opt-66b openr1": 1, // nine policies on two GPUs and on four, which are within 5% of striped on two, and the best again
		"400 1 gpu-only 4 opt-66b openr1": 13, "400 2 gpu-only 4 opt-66b openr1": 1, // five policies on four GPUs and on eight, one on Table 3's two, on which requests do not fit, and two again
		"400 1 gpu-only 4 gpt-175b openr1": 6, // the longest requests do not fit OPT-66B's two GPUs: eight alone hold GPT-175B, whose best runs again
	} {
		if got := points[where]; got != want {
			t.Errorf("%s: %d points, want %d", where, got, want)
		}
	}
	if len(planned) != 3 || planned[1] < 2*planned[2] {
		t.Errorf("points planned: %v", planned)
	}
	if got := cellOf(t, r, bestTitle, "opt-66b", "openr1", "l3"); got != "98.0 TP2 plain" {
		t.Errorf("l3 at its best: %s", got)
	}
}
