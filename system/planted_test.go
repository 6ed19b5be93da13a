package system

import (
	"fmt"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
)

// plant breaks a law in a schedule and returns it with its end.
type plant struct {
	name string
	law  flow.Law
	set  func(f *flow.Flow, spans []dataflow.Span) ([]dataflow.Span, bool)
}

// waiting returns the first span of the last layer whose operation waits for others, on
// a resource of the given discipline.
func waiting(f *flow.Flow, spans []dataflow.Span, d dataflow.Discipline) int {
	for i := len(spans) - 1; i >= 0; i-- {
		o := &f.Iteration.Ops[spans[i].Op]
		if !spans[i].Claim && o.After.From < o.After.To && disciplineOf(f, spans[i].Resource) == d {
			return i
		}
	}
	return -1
}

var plants = []plant{
	{"an operation before what it waits for", flow.LawCausality, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := waiting(f, s, dataflow.FIFO)
		d := s[i].Start - s[0].Start
		s[i].Start, s[i].End = s[i].Start-d, s[i].End-d
		return s, true
	}},
	{"a lane before what it waits for", flow.LawCausality, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := waiting(f, s, dataflow.Lanes)
		if i < 0 {
			return s, false
		}
		d := s[i].Start - s[0].Start
		s[i].Start, s[i].End = s[i].Start-d, s[i].End-d
		return s, true
	}},
	{"two operations at once", flow.LawExclusive, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := waiting(f, s, dataflow.FIFO)
		twice := s[i]
		twice.Start += (twice.End - twice.Start) / 2
		return append(s, twice), true
	}},
	{"an operation that waits for nothing", flow.LawIdle, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := waiting(f, s, dataflow.FIFO)
		s[i].Start, s[i].End = s[i].Start+1e9, s[i].End+1e9
		return s, true
	}},
	{"an end before its start", flow.LawExclusive, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := waiting(f, s, dataflow.FIFO)
		s[i].End = s[i].Start - 1
		return s, true
	}},
	{"both directions of a bus", flow.LawExclusive, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := slices.IndexFunc(s, func(x dataflow.Span) bool { return !x.Claim && f.Resources[x.Resource].Twin > 0 && x.End-x.Start > 1 })
		if i < 0 {
			return s, false
		}
		back := int8(f.Resources[s[i].Resource].Twin - 1)
		j := slices.IndexFunc(s, func(x dataflow.Span) bool { return !x.Claim && x.Resource == back })
		if j < 0 {
			return s, false
		}
		s[j].Start, s[j].End = s[i].Start+1, s[i].Start+1+s[j].End-s[j].Start
		return s, true
	}},
	{"work on another resource", flow.LawTraffic, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := waiting(f, s, dataflow.FIFO)
		s[i].Resource = (s[i].Resource + 1) % int8(len(f.Resources))
		return s, len(f.Resources) > 1
	}},
	{"an operation left out", flow.LawTraffic, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := waiting(f, s, dataflow.FIFO)
		return slices.Delete(s, i, i+1), true
	}},
	{"an operation that takes longer", flow.LawTraffic, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		s[waiting(f, s, dataflow.FIFO)].End++
		return s, true
	}},
	{"an operation of no layer", flow.LawTraffic, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		s[waiting(f, s, dataflow.FIFO)].Layer += 1000
		return s, true
	}},
	{"a transfer left out", flow.LawTraffic, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := slices.IndexFunc(s, func(x dataflow.Span) bool { return !x.Claim && disciplineOf(f, x.Resource) == dataflow.Link })
		if i < 0 {
			return s, false
		}
		return slices.Delete(s, i, i+1), true
	}},
	{"work on another lane", flow.LawTraffic, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := slices.IndexFunc(s, func(x dataflow.Span) bool { return !x.Claim && disciplineOf(f, x.Resource) == dataflow.Lanes })
		if i < 0 {
			return s, false
		}
		s[i].Lane = 1 - min(s[i].Lane, 1)
		return s, true
	}},
	{"work while receiving", flow.LawExclusive, func(f *flow.Flow, s []dataflow.Span) ([]dataflow.Span, bool) {
		i := slices.IndexFunc(s, func(x dataflow.Span) bool { return x.Claim })
		if i < 0 {
			return s, false
		}
		j := slices.IndexFunc(s, func(x dataflow.Span) bool { return !x.Claim && x.Resource == s[i].Resource && x.Lane == s[i].Lane })
		s[j].Start = s[i].Start
		return s, true
	}},
}

// TestPlantedViolations breaks every law of schedules in an iteration of every system, with every policy, and checks
// that it is found, and that of two at once both are; for L3 also with one PCIe bus for both directions.
func TestPlantedViolations(t *testing.T) {
	deep.Heavy(t)
	for _, s := range Systems(everything()) {
		for _, policy := range s.Policies() {
			t.Run(s.Name+"/"+policy, func(t *testing.T) { plantAll(t, s.Name, setsOn(s, policy)...) })
		}
	}
	for _, buffer := range []string{"0B", "256KiB"} {
		t.Run("l3/one bus, buffer "+buffer, func(t *testing.T) {
			applied := plantAll(t, "l3", "pcie.generation=6", "pim.mc_buffer="+buffer)
			if !slices.Contains(applied, "both directions of a bus") {
				t.Errorf("planted are %q", applied)
			}
		})
	}
}

// plantAll returns the names of the violations that can be planted in a system.
func plantAll(t *testing.T, system string, sets ...string) (applied []string) {
	f, _ := busyIteration(t, system, sets...)
	end := f.Engine.Run(&f.Iteration, 0)
	if found := f.Engine.Verify(&f.Iteration, f.Engine.Record(&f.Iteration, 0), 0, end); len(found) > 0 {
		t.Fatalf("%s: nothing is planted: %v", system, found)
	}
	for i, p := range plants {
		spans, applies := p.set(f, slices.Clone(f.Engine.Record(&f.Iteration, 0)))
		if !applies {
			continue
		}
		applied = append(applied, p.name)
		slices.SortStableFunc(spans, func(a, b dataflow.Span) int { return int(a.Start - b.Start) })
		if !breaks(f.Engine.Verify(&f.Iteration, spans, 0, end), p.law) {
			t.Errorf("%s: %s breaks no law %q", system, p.name, p.law)
		}
		// Together with a wrong end of the iteration.
		if found := f.Engine.Verify(&f.Iteration, spans, 0, end*1000); !breaks(found, p.law) || !breaks(found, flow.LawIteration) {
			t.Errorf("%s: %s and a late end: %v", system, p.name, found)
		}
		if i == 0 && breaks(f.Engine.Verify(&f.Iteration, f.Engine.Record(&f.Iteration, 0), 0, end-1), "") {
			t.Errorf("%s: an early end breaks no law", system)
		}
	}
	return applied
}

// breaks says whether a law is among the broken ones; "" means none is broken.
func breaks(found []dataflow.Violation, law flow.Law) bool {
	if law == "" {
		return len(found) == 0
	}
	return slices.ContainsFunc(found, func(v dataflow.Violation) bool { return v.Law == law })
}

// busyIteration returns a flow filled with an iteration of a system that prefills and
// decodes, on all its devices.
func busyIteration(t *testing.T, system string, sets ...string) (*flow.Flow, *replica) {
	sets = append(sets, "run.system="+system, "run.model=gpt-89b", "model.layers=4", "batching.max_num_batched_tokens=2048")
	if system == "cpu-offload" {
		sets = append(sets, "cpu_offload.policy=fastdecode")
	}
	cfg, err := everything().Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	r := mustNode(t, cfg).replica(0, equalLengths(24, 900, 40), Options{})
	for i := range r.requests {
		r.assembly.Batcher.Add(int32(i))
	}
	f := r.assembly.Engine.Core()
	for range 60 {
		b := r.assembly.Batcher.Next()
		if _, err := r.assembly.Engine.Run(b, 0); err != nil {
			t.Fatal(err)
		}
		kinds := f.Iteration.Totals().ByKind
		if b.Decoding() > 2 && kinds[flow.OpAttention]+kinds[flow.OpHostAttention]+kinds[flow.OpGPUAttention] > 0 {
			r.iteration.batch = b
			return f, r
		}
		r.assembly.Batcher.Complete(func(int32, int) {})
	}
	t.Fatal(fmt.Sprint(system, ": no iteration decodes"))
	return nil, nil
}

// discipline returns how a resource serves its operations.
func disciplineOf(f *flow.Flow, resource int8) dataflow.Discipline {
	return f.Resources[resource].Discipline
}
