package power

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/system/ranks"
)

// TestSideBandECC: a rank with nine chips instead of eight draws nine eighths in everything.
func TestSideBandECC(t *testing.T) {
	var draws [2]ranks.Draw
	for i, ecc := range []string{"none", "side-band"} {
		c := metered(t, `dram.ecc="`+ecc+`"`)
		point := c.Energy.At(energy.Mid)
		draws[i] = ranks.NewDraw(&c.DRAM.Spec, &point)
	}
	a, b := &draws[0], &draws[1]
	x, y, host, hostECC := a.OfEach(), b.OfEach(), a.Stream(1e9, 1, 2), b.Stream(1e9, 1, 2)
	pairs := [][2]float64{{a.Idle(), b.Idle()}, {x.Activates, y.Activates}, {x.Reads, y.Reads}, {x.Writes, y.Writes}, {x.Open, y.Open}}
	for i := range host {
		if host[i] != 0 {
			pairs = append(pairs, [2]float64{host[i], hostECC[i]})
		}
	}
	if len(pairs) != 5+5 {
		t.Errorf("%d pairs", len(pairs))
	}
	for i, pair := range pairs {
		if math.Abs(pair[1]/pair[0]-9./8) > 1e-9 {
			t.Errorf("%d: %v with eight chips, %v with nine", i, pair[0], pair[1])
		}
	}
}
