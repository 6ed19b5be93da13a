package power

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/energy"
)

// TestSideBandECC: a rank with nine chips in place of eight draws nine eighths, whatever it does.
func TestSideBandECC(t *testing.T) {
	var draws [2]rankDraw
	for i, ecc := range []string{"none", "side-band"} {
		c := metered(t, `dram.ecc="`+ecc+`"`)
		point := c.Energy.At(energy.Mid)
		draws[i] = newRankDraw(&c.DRAM.Spec, &point)
	}
	a, b := draws[0], draws[1]
	for i, pair := range [][2]float64{{a.idle(), b.idle()}, {a.io, b.io}, {a.read, b.read}, {a.write, b.write}, {a.activate, b.activate}, {a.opens, b.opens}} {
		if math.Abs(pair[1]/pair[0]-9./8) > 1e-9 {
			t.Errorf("%d: %v with eight chips, %v with nine", i, pair[0], pair[1])
		}
	}
}
