package kinds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// TestLawOfShipmentsByHand: two pieces hold the links for 3 s and 2 s. The channels may carry data for at most as long: vectors, keys and
// values of prompts, or data that leave the GPUs. Empty shipments are not checked. With a buffer the links may be free sooner.
func TestLawOfShipmentsByHand(t *testing.T) {
	e := rigOf(t).l3()
	ships := func(data units.Duration) ranks.Shipment {
		return ranks.Shipment{Pieces: 2, Link: 3 * units.Second, Last: 2 * units.Second, Data: data * units.Second}
	}
	laws := func(g *ranks.GroupCost) (string, [2]units.Duration) {
		e.Check = &flow.Checker{}
		costs := newIterationCosts(2, 3, dataflow.Run{})
		costs.sub[1].groups[2] = *g
		pim, channel := e.layerTraffic(&scheduler.SubBatch{}, &costs.sub[1], 0, 0, 0, 1)
		return fmt.Sprint(e.Check.Err()), [2]units.Duration{pim / units.Second, channel / units.Second}
	}
	for _, of := range []struct {
		what string
		set  func(g *ranks.GroupCost, x ranks.Shipment, n int)
	}{
		{"vectors", func(g *ranks.GroupCost, x ranks.Shipment, n int) { g.Requests, g.Decode = n, x }},
		{"keys and values", func(g *ranks.GroupCost, x ranks.Shipment, n int) {
			g.Prompt = ranks.Cargo{Tokens: int64(n), Shipment: x}
		}},
		{"keys and values", func(g *ranks.GroupCost, x ranks.Shipment, n int) {
			g.Leaving = ranks.Cargo{Tokens: int64(n), Shipment: x}
		}},
	} {
		for _, c := range []struct {
			data            units.Duration
			n               int
			buffered, fails bool
		}{{5, 1, false, false}, {6, 1, false, true}, {6, 0, false, false}, {6, 1, true, false}} {
			g := ranks.GroupCost{}
			of.set(&g, ships(c.data), c.n)
			e.costs.buffered = c.buffered
			want := "the " + of.what + " of group 2 of sub-batch 1 go down in 5s, the channels carry them for 6s"
			if err, _ := laws(&g); strings.Contains(err, want) != c.fails || !c.fails && strings.Contains(err, "go down in") {
				t.Errorf("%+v: %s; %q is to fail: %t", c, err, want, c.fails)
			}
		}
	}
	g := ranks.GroupCost{Requests: 1, Compute: 7 * units.Second, Decode: ships(3), UpBus: 2 * units.Second, Prompt: ranks.Cargo{Tokens: 1, Shipment: ships(5)}, Leaving: ranks.Cargo{Tokens: 1, Shipment: ships(4)}}
	g.Prefix.Tokens, g.Prefix.Data = 1, 11*units.Second
	if _, got := laws(&g); got != [2]units.Duration{7, 3 + 2 + 5 + 4 + 11} {
		t.Errorf("the rank computes and the channels carry data for %d s, by hand 7 s and 25 s", got)
	}
}
