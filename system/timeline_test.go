package system

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/perfetto"
	"github.com/l3sim/l3sim/results/timeline"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// timelineOf runs a few requests with a timeline of all of them. Tests share the run, and must not change it.
func timelineOf(t *testing.T, system string, trace *traces.Trace, sets ...string) (*Result, []perfetto.Event) {
	t.Helper()
	type timed struct {
		result *Result
		events []perfetto.Event
	}
	id := fmt.Sprint(system, len(trace.Requests), sets)
	if known, ok := timelines.Load(id); ok {
		return known.(*timed).result, known.(*timed).events
	}
	sets = append(sets, "run.system="+system, "run.model=gpt-89b", "model.layers=6", "memory.admission=current")
	cfg, err := everything().Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	r, err := mustNode(t, cfg).Run(t.Context(), trace, Options{Timeline: &Window{To: units.Duration(math.MaxInt64)}})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	w := timeline.NewWriter(&text)
	WriteTimeline(w, r.Recordings)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	events, faults, err := perfetto.Read(&text)
	if err != nil || len(faults) > 0 {
		t.Fatalf("%s: %d faults, %v, %v", system, len(faults), faults[:min(3, len(faults))], err)
	}
	timelines.Store(id, &timed{r, events})
	return r, events
}

var timelines sync.Map // made by timelineOf, by their inputs

func fewRequests(n int) *traces.Trace {
	trace := &traces.Trace{Name: "few"}
	for i := range n {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: 100 + 700*(i%3), Output: 3 + 5*i})
	}
	return trace
}

// TestTimelineNames: events of one kind of work have one name, so that times add up by it; layer
// and sub-batch are arguments, and the category is the resource's.
func TestTimelineNames(t *testing.T) {
	deep.Heavy(t)
	trace := fewRequests(7)
	for _, system := range everyName() {
		r, events := timelineOf(t, system, trace)
		names, busy := map[string]bool{}, map[string]float64{}
		for _, e := range events {
			if e.Ph != "X" || e.Cat == "sub-batch" {
				continue
			}
			names[e.Name] = true
			if _, ok := e.Args["layer"].(float64); !ok || e.Args["sub-batch"] != "A" && e.Args["sub-batch"] != "B" {
				t.Fatalf("%s: %+v", system, e)
			}
			if !slices.Contains([]string{"gpu", "pcie", "channel", "attention"}, e.Cat) {
				t.Fatalf("%s: category %q of %q", system, e.Cat, e.Name)
			}
			busy[e.Name] += e.Dur / 1e6
		}
		for name := range names {
			if strings.ContainsAny(name, "0123456789") {
				t.Errorf("%s: a name of its own for %q", system, name)
			}
		}
		// The GPUs' events, summed by name, equal their busy time.
		gpu := busy["entry"] + busy["block"] + busy["attention"] + busy["prefill attention"]
		want := r.busy.GPU * r.end.Seconds() * float64(len(r.Recordings))
		if math.Abs(gpu-want) > 1e-6*want {
			t.Errorf("%s: %v s on the GPUs by name, %v s in the run", system, gpu, want)
		}
		// So do the parts of a mean iteration.
		dense, attention := busy["entry"]+busy["block"], busy["attention"]+busy["prefill attention"]
		i, n := r.iteration, float64(r.iterations)/1e3
		if math.Abs(i.Dense*n-dense) > 1e-6*dense || math.Abs(i.Attention*n-attention) > 1e-6*dense {
			t.Errorf("%s: %v s dense, %v s of attention by name; %d iterations of %+v", system, dense, attention, r.iterations, i)
		}
		waits := map[string]bool{"gpu-only": false, "hbm-pim": true, "rank-pim": true, "l3": true}
		if want, ok := waits[system]; ok && want != (i.Waiting > 0) {
			t.Errorf("%s: its GPUs wait %v ms of an iteration", system, i.Waiting)
		}
	}
}

// TestTimelineOfWindows: events of a window have names, and times by name equal those of the run:
// the merge is a step of the block, and attention.
func TestTimelineOfWindows(t *testing.T) {
	deep.Heavy(t)
	for _, name := range []string{"window", "hgca"} {
		r, events := timelineOf(t, "l3", fewRequests(7), policySets(name)...)
		busy := map[string]float64{}
		for _, e := range events {
			if e.Ph == "X" {
				busy[e.Name] += e.Dur / 1e6
			}
		}
		for _, work := range []string{"window attention", "merge", "leaving k v", "prompt k v", "results"} {
			if busy[work] == 0 {
				t.Errorf("%s: nothing is called %q", name, work)
			}
		}
		attention, dense := busy["prefill attention"]+busy["window attention"]+busy["merge"], busy["entry"]+busy["block"]-busy["merge"]
		i, n := r.iteration, float64(r.iterations)/1e3
		if math.Abs(i.Dense*n-dense) > 1e-6*dense || math.Abs(i.Attention*n-attention) > 1e-6*dense {
			t.Errorf("%s: %v s dense, %v s of attention by name; %d iterations of %+v", name, dense, attention, r.iterations, i)
		}
	}
}

// TestTimelineRequests: a request has a track from its prompt to its last token; its phases have
// all tokens of the prompt and all but the first of the output.
func TestTimelineRequests(t *testing.T) {
	deep.Heavy(t)
	trace := fewRequests(7)
	for _, system := range everyName() {
		r, events := timelineOf(t, system, trace)
		type seen struct {
			open   []string
			tokens map[string]float64
			end    float64
		}
		requests := map[string]*seen{}
		for _, e := range events {
			if e.Cat != "request" {
				continue
			}
			q := requests[e.ID2.Local]
			if q == nil {
				q = &seen{tokens: map[string]float64{}}
				requests[e.ID2.Local] = q
			}
			switch e.Ph {
			case "b":
				if q.open = append(q.open, e.Name); e.Ts < q.end || (len(q.open) == 1) != (e.Name == "request") {
					t.Fatalf("%s: %+v begins in %v, at %v", system, e, q.open, q.end)
				}
				if n, ok := e.Args["tokens"].(float64); ok {
					q.tokens[e.Name] += n
				}
			case "e":
				if n := len(q.open); n == 0 || q.open[n-1] != e.Name || e.Ts < q.end {
					t.Fatalf("%s: %+v ends in %v", system, e, q.open)
				}
				q.open, q.end = q.open[:len(q.open)-1], e.Ts
			}
		}
		for i := range r.Requests {
			q, want := requests[string('0'+rune(i))], r.Requests[i]
			if q == nil || len(q.open) > 0 || math.Abs(q.end-1e6*want.Finish.Seconds()) > 1e-3 {
				t.Fatalf("%s: request %d ends at %v: %+v", system, i, want.Finish, q)
			}
			if q.tokens["prefill"] != float64(want.Request.Input) || q.tokens["decode"] != float64(want.Request.Output-1) {
				t.Errorf("%s: request %d has %v of %+v", system, i, q.tokens, want.Request)
			}
		}
	}
}

// TestTimelineSubBatches: an iteration of a sub-batch is divided by activity, with the numbers of decoding requests and
// prompt tokens; each attention away from the GPUs has a chain of arrows.
func TestTimelineSubBatches(t *testing.T) {
	deep.Heavy(t)
	for _, system := range everyName() {
		r, events := timelineOf(t, system, fewRequests(7))
		busy, tokens, requests := map[string]float64{}, 0.0, 0.0
		chains, attention := 0, map[[4]any]bool{}
		for _, e := range events {
			switch {
			case e.Ph == "s":
				chains++
			case e.Cat == "sub-batch":
				busy[e.Name] += e.Dur
				if e.Name == "iteration" {
					tokens += e.Args["prompt tokens"].(float64)
					requests += e.Args["decoding requests"].(float64)
				}
			case e.Ph == "X":
				busy[e.Name] += e.Dur
				if e.Name == "decode attention" {
					attention[[4]any{e.Args["sub-batch"], e.Args["layer"], e.Args["offset"], e.Pid}] = true
					if e.Args["decoding requests"].(float64) < 1 || e.Args["context tokens"].(float64) < 100 {
						t.Fatalf("%s: %+v attends for nobody", system, e)
					}
				}
			}
		}
		if on, dense := busy["on the GPUs"], busy["entry"]+busy["block"]; math.Abs(on-dense) > 1e-6*dense {
			t.Errorf("%s: sub-batches are on the GPUs for %v us, dense operators for %v us", system, on, dense)
		}
		if parts := busy["on the GPUs"] + busy["attends"] + busy["waits for the GPUs"]; parts > busy["iteration"]*(1+1e-9) || parts < 0.4*busy["iteration"] {
			t.Errorf("%s: parts of iterations last %v us, iterations %v us", system, parts, busy["iteration"])
		}
		input, decoded := 0, 0
		for i := range r.Requests {
			input += r.Requests[i].Request.Input
			decoded += r.Requests[i].Request.Output - 1
		}
		if tokens != float64(input) || requests != float64(decoded) {
			t.Errorf("%s: %v prompt tokens and %v decoded, want %d and %d", system, tokens, requests, input, decoded)
		}
		if len(attention) > chains || (len(attention) == 0) != (chains == 0) {
			t.Errorf("%s: %d chains of arrows, %d layers attend on devices", system, chains, len(attention))
		}
	}
}

// TestTimelineArrows: an attention of L3 leads from the GPUs down to its rankset and up to the GPUs.
func TestTimelineArrows(t *testing.T) {
	_, events := timelineOf(t, "l3", fewRequests(7))
	names := map[[2]int]string{}
	chains := map[int][]string{}
	for _, e := range events {
		switch {
		case e.Name == "thread_name":
			names[[2]int{e.Pid, e.Tid}] = strings.Trim(e.Args["name"].(string), " 0123456789")
		case strings.Contains("stf", e.Ph):
			chains[e.ID] = append(chains[e.ID], e.Ph+" "+names[[2]int{e.Pid, e.Tid}])
		}
	}
	for id, chain := range chains {
		if got := strings.Join(chain, ", "); got != "s GPU, t PCIe down, t rankset, t PCIe up, f GPU" {
			t.Fatalf("chain %d is %s", id, got)
		}
	}
}

// TestTimelineChoosesWindow: a window chosen by the run shows iterations with nearly the largest batch and, if possible, no
// prompts.
func TestTimelineChoosesWindow(t *testing.T) {
	for _, system := range []string{"l3", "gpu-only"} {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=" + system, "run.model=gpt-89b", "model.layers=6", "memory.admission=current"}})
		if err != nil {
			t.Fatal(err)
		}
		n := mustNode(t, cfg)
		r, err := n.Run(t.Context(), fewRequests(40), Options{Timeline: &Window{}, Iterations: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range r.Recordings {
			most := 0
			for _, i := range r.Iterations {
				if i.Replica == rec.Replica && i.PromptTokens == 0 {
					most = max(most, i.Decoding)
				}
			}
			if len(rec.Samples) != steadyIterations || rec.Samples[0].Prefill > 0 || 5*rec.Samples[0].Decoding <= 4*most || rec.From != rec.Samples[0].At || rec.To != rec.Samples[1].End {
				t.Errorf("%s: %d decode in %+v, at most %d", system, rec.Samples[0].Decoding, rec.Window, most)
			}
			for id, all := range rec.phases {
				for _, p := range all {
					if p.start < rec.From || p.end > rec.To {
						t.Fatalf("%s: request %d: %+v lies outside %+v", system, id, p, rec.Window)
					}
				}
			}
			for _, s := range rec.Spans {
				if s.Start < rec.From || s.End > rec.To {
					t.Fatalf("%s: %+v lies outside %+v", system, s, rec.Window)
				}
			}
		}
		// Prompts alone: nothing decodes, and the window shows the first iterations.
		none := &traces.Trace{Requests: []traces.Request{{Input: 100, Output: 1}}}
		if r, err = n.Run(t.Context(), none, Options{Timeline: &Window{}}); err != nil || len(r.Recordings[0].Samples) != 1 || r.Recordings[0].From != 0 {
			t.Errorf("%s: %+v, %v", system, r, err)
		}
	}
}

// TestTracksByHand: a track for the GPUs, one for each direction of PCIe and of the channels, and one for each rankset. A transfer on a link is also
// on the channels' track of its direction at the same time, and on no other.
func TestTracksByHand(t *testing.T) {
	_, events := timelineOf(t, "l3", fewRequests(3), "node.ranksets=2")
	names, at := map[int]string{}, map[int]map[string]int{}
	for _, e := range events {
		switch {
		case e.Ph == "M" && e.Name == "thread_name" && e.Pid == events[0].Pid:
			names[e.Tid], _ = e.Args["name"].(string)
		case e.Ph == "X" && e.Cat != "sub-batch" && e.Pid == events[0].Pid:
			if at[e.Tid] == nil {
				at[e.Tid] = map[string]int{}
			}
			at[e.Tid][e.Name]++
		}
	}
	for thread, want := range map[int]string{0: "sub-batch A", 1: "sub-batch B", 2: "GPU", 3: "PCIe down", 4: "PCIe up", 5: "channels, writes", 6: "channels, reads", 7: "rankset 0", 8: "rankset 1", 9: ""} {
		if names[thread] != want {
			t.Errorf("track %d is %q, by hand %q", thread, names[thread], want)
		}
	}
	if len(at[3]) == 0 || len(at[4]) == 0 || !maps.Equal(at[3], at[5]) || !maps.Equal(at[4], at[6]) || maps.Equal(at[5], at[6]) {
		t.Errorf("the links carry %v and %v, the channels %v and %v", at[3], at[4], at[5], at[6])
	}
}

// TestCountersByHand: at each iteration the batch, the allocated memory and the watts of the iteration; at its end those of waiting, unless the next one
// begins there or, by rounding, before. Until the first iteration of a window the GPUs wait.
func TestCountersByHand(t *testing.T) {
	const us = units.Microsecond
	sample := func(at, end units.Duration, n int) Sample {
		return Sample{At: at * us, End: end * us, Decoding: n, Prefill: 10 * n, KVBytes: int64(1000 * n), Watts: float64(n) + 0.5, IdleWatts: 0.25}
	}
	r := &Recording{Window: Window{From: 5 * us}, Samples: []Sample{sample(10, 20, 1), sample(20, 30, 2), sample(50, 60, 3)}}
	var text bytes.Buffer
	w := timeline.NewWriter(&text)
	WriteTimeline(w, []*Recording{r})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var file struct{ TraceEvents []perfetto.Event }
	if err := json.Unmarshal(text.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, e := range file.TraceEvents {
		if e.Ph != "C" {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(e.Args)) {
			name := e.Name + ", " + key
			got[name] = append(got[name], fmt.Sprintf("%v: %v", e.Ts, e.Args[key]))
		}
	}
	for name, want := range map[string][]string{
		"batch, decoding requests":     {"10: 1", "20: 2", "50: 3"},
		"batch, prompt tokens":         {"10: 10", "20: 20", "50: 30"},
		"KV memory (bytes), allocated": {"10: 1000", "20: 2000", "50: 3000"},
		"GPU power (W), watts":         {"5: 0.25", "10: 1.5", "20: 2.5", "30: 0.25", "50: 3.5", "60: 0.25"},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s: %q, by hand %q", name, got[name], want)
		}
	}
}
