package system

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/lab/perfetto"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// timelineEvent is an event of a timeline, as Perfetto reads it.
type timelineEvent struct {
	Name, Cat, Ph string
	ID2           struct{ Local string }
	Ts, Dur       float64 // microseconds
	Pid, Tid      int
	Args          map[string]any
}

// timelineOf runs a trace with a timeline of all of it.
func timelineOf(t *testing.T, system string, trace *traces.Trace, sets ...string) (*Result, []timelineEvent) {
	t.Helper()
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
	if err := WriteTimeline(&text, r.Recordings); err != nil {
		t.Fatal(err)
	}
	if _, faults, err := perfetto.Faults(bytes.NewReader(text.Bytes())); err != nil || len(faults) > 0 {
		t.Errorf("%s: %d faults, %v, %v", system, len(faults), faults[:min(3, len(faults))], err)
	}
	var document struct{ TraceEvents []timelineEvent }
	if err := json.Unmarshal(text.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	return r, document.TraceEvents
}

func fewRequests(n int) *traces.Trace {
	trace := &traces.Trace{Name: "few"}
	for i := range n {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: 100 + 700*(i%3), Output: 3 + 5*i})
	}
	return trace
}

// TestTimelineNames: events of one kind of work have one name, so that times add up by
// it; layer and sub-batch are arguments, and the category is the resource's.
func TestTimelineNames(t *testing.T) {
	trace := fewRequests(7)
	for _, system := range everyName() {
		r, events := timelineOf(t, system, trace)
		names, busy := map[string]bool{}, map[string]float64{}
		for _, e := range events {
			if e.Ph != "X" {
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
		// What the GPUs do, added up by name, is what they were busy for.
		gpu := busy["entry"] + busy["block"] + busy["attention"] + busy["prefill attention"]
		want := r.busy.GPU * r.end.Seconds() * float64(len(r.Recordings))
		if math.Abs(gpu-want) > 1e-6*want {
			t.Errorf("%s: %v s on the GPUs by name, %v s in the run", system, gpu, want)
		}
		// So are the parts of a mean iteration.
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

// TestTimelineOfWindows: what a window adds has names, and times by name are those of the run: the
// merge is a step of the block, and attention.
func TestTimelineOfWindows(t *testing.T) {
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

// TestTimelineRequests: a request has a track from its prompt to its last token, with all
// tokens of the prompt and all but the first of the output in its phases.
func TestTimelineRequests(t *testing.T) {
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
