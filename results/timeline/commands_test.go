package timeline

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/controller"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/perfetto"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// shown is a timeline as a reader sees it: slices and their nanoseconds by track and name.
type shown struct {
	count map[[2]string]int
	ns    map[[2]string]float64
}

func read(t *testing.T, text []byte) shown {
	t.Helper()
	events, faults, err := perfetto.Read(bytes.NewReader(text))
	if err != nil || len(faults) > 0 {
		t.Fatalf("%d faults, %v, %v", len(faults), faults[:min(3, len(faults))], err)
	}
	names, s := map[int]string{}, shown{map[[2]string]int{}, map[[2]string]float64{}}
	for _, e := range events {
		if e.Name == "thread_name" {
			names[e.Tid] = e.Args["name"].(string)
		}
		if e.Ph == "X" {
			if names[e.Tid] == "" {
				t.Fatalf("track %d of %q has no name", e.Tid, e.Name)
			}
			at := [2]string{names[e.Tid], strings.Fields(e.Name)[0]}
			s.count[at]++
			s.ns[at] += e.Dur // a microsecond on the page is a nanosecond
		}
	}
	return s
}

func part(t *testing.T, name string) *dram.Spec {
	t.Helper()
	d, err := dram.LookupSpec(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRank: the timeline of a rank has every measured command, units as busy as in the report, and refreshes: with bank and
// rank units, either activation, DDR4 and DDR5.
func TestRank(t *testing.T) {
	deep.Heavy(t)
	for i, c := range []struct {
		part, unit, activation string
		kvHeads, queries       int
	}{
		{"ddr4-3200-8gb-x8", pim.BankUnits, pim.Staggered, 2, 1},
		{"ddr4-3200-8gb-x8", pim.BankUnits, pim.Simultaneous, 2, 2},
		{"ddr4-3200-8gb-x8", pim.RankLevelUnit, pim.Staggered, 1, 2},
		{"ddr5-4800-16gb-x8", pim.BankUnits, pim.Staggered, 2, 2},
	} {
		if !deep.Case(i, 2) {
			continue
		}
		spec, d := pim.Default(), part(t, c.part)
		spec.ProcessingUnit, spec.Activation, spec.PostponedRefreshes = c.unit, c.activation, 1
		load := machine.Load{Context: 1500, KVHeads: c.kvHeads, Shape: pim.HeadShape{HeadDim: 128, Queries: c.queries, ElementBits: 16}}
		var text bytes.Buffer
		w := NewWriter(&text)
		r := NewRank(w, spec, d, load.Shape)
		m, err := machine.Measure(t.Context(), spec, d, load, r.Instruction, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(text.String(), `"dur":0.000`); n > 0 {
			t.Errorf("%+v: %d slices have no length", c, n)
		}
		s := read(t, text.Bytes())
		opened, bursts := 0, 0
		for at, n := range s.count {
			if at[1] == "row" {
				opened += n
			}
		}
		for cmd, n := range m.Commands {
			if got := s.count[[2]string{"command bus", dram.Command(cmd).String()}]; int64(got) != n {
				t.Errorf("%+v: %d %v on the command bus, %d measured", c, got, dram.Command(cmd), n)
			}
			at := [2]string{"command bus", dram.Command(cmd).String()}
			if got, want := s.ns[at], d.Nanoseconds(n*int64(d.Rules().Action(dram.Command(cmd)).Steps)); math.Abs(got-want) > 1e-6*want {
				t.Errorf("%+v: %v takes %v ns of the command bus, %v by its clocks", c, dram.Command(cmd), got, want)
			}
			bursts += s.count[[2]string{"data bus 0", dram.Command(cmd).String()}]
		}
		if want := m.Commands[dram.ACT] + int64(d.Banks())*m.Commands[dram.ACTA]; int64(opened) != want {
			t.Errorf("%+v: %d rows are open, %d activations", c, opened, want)
		}
		if n := s.count[[2]string{"refresh, rank 0", "REF"}]; int64(n) != m.Refreshes || n == 0 {
			t.Errorf("%+v: %d refreshes, %d measured", c, n, m.Refreshes)
		}
		total := d.Nanoseconds(m.TotalCycles)
		near := func(what string, ns, share float64) {
			if math.Abs(ns-share*total) > 1e-3*total {
				t.Errorf("%+v: %s is busy for %v of %v ns, want %v", c, what, ns, total, share)
			}
		}
		near("data bus", d.Nanoseconds(int64(bursts*d.BurstClocks())), m.TotalOccupancy.DataBus)
		if c.unit == pim.BankUnits {
			near("bank units", s.ns[[2]string{"bank units", "score"}]+s.ns[[2]string{"bank units", "context"}], m.TotalOccupancy.BankPUs)
		} else if s.count[[2]string{"rank-level unit", "score"}] == 0 {
			t.Errorf("%+v: nothing on the rank-level unit", c)
		}
		if n := s.count[[2]string{"softmax", "softmax"}]; n < c.kvHeads {
			t.Errorf("%+v: %d softmaxes", c, n)
		}
	}
}

// TestCommands: the timeline of a replay opens as many rows as were activated, closes them, and shows refreshes of ranks and of
// banks, on every standard, with pages that close by themselves and those that do not.
func TestCommands(t *testing.T) {
	deep.Heavy(t)
	for i, standard := range dram.Standards() {
		for j, set := range [][]string{{"page", "open"}, {"page", "closed"}, {"refresh", "bank"}} {
			if !deep.Case(i+j, 3) {
				continue
			}
			d := part(t, standard.PartNames()[0])
			policy, err := controller.LookupPolicy("default")
			if err != nil {
				t.Fatal(err)
			}
			s := &controller.Setup{Spec: d, Policy: policy, Channels: 1, Ranks: 2 * standard.PseudoChannels}
			if s.Set(set[0], set[1]) != nil || s.Validate() != nil {
				continue // the standard has no refresh of a single bank
			}
			var requests []controller.Request
			for i := range 500 {
				requests = append(requests, controller.Request{Address: uint64(i*i*7919) * 64 % (1 << 30), Write: i%3 == 0, Clock: int64(60 * i)})
			}
			var text bytes.Buffer
			w := NewWriter(&text)
			c := NewCommands(w, 0, "channel", d, s.Ranks)
			opens, reads, refreshed := 0, 0, 0
			see := func(step int64, cmd dram.Command, a dram.Address) {
				switch {
				case standard.Action(cmd).Leaves == dram.Open:
					opens++
				case cmd.IsRead():
					reads++
				case cmd == standard.Refreshes[0].Command || len(standard.Refreshes) > 1 && cmd == standard.Refreshes[1].Command:
					refreshed++
				}
				c.Command(step, cmd, a, nil)
			}
			if _, err := s.Replay(context.Background(), requests, []dram.Observe{see}); err != nil {
				t.Fatal(err)
			}
			c.Close()
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			rows, columns, resting := 0, 0, 0
			for at, n := range read(t, text.Bytes()).count {
				bank := strings.Contains(at[0], "bank")
				switch {
				case at[1] == "row":
					rows += n
				case bank && (at[1] == "RD" || at[1] == "RDA"):
					columns += n
				case strings.HasPrefix(at[1], "REF") && (bank || strings.HasPrefix(at[0], "refresh")):
					resting += n
				}
			}
			if rows != opens || columns != reads || resting < refreshed || refreshed == 0 {
				t.Errorf("%s, %v: %d rows, %d activations; %d of %d reads; %d of %d refreshes", d.Name, set, rows, opens, columns, reads, resting, refreshed)
			}
		}
	}
}
