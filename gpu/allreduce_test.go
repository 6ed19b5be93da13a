package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestAllReduceMeasured checks the fitted A100 against NCCL on 2, 4 and 8 GPUs
// of one DGX A100 at 64 MiB, and that the direct kernel stays below NCCL's
// launch.
func TestAllReduceMeasured(t *testing.T) {
	s := loadPreset(t, "a100-sxm-80gb")
	for gpus, us := range map[int]float64{2: 430, 4: 603, 8: 675} {
		if got := 1e6 * s.AllReduce(gpus, 64*units.MiB); math.Abs(got/us-1) > 0.12 {
			t.Errorf("64 MiB on %d GPUs: %.2f us, measured %.2f", gpus, got, us)
		}
		small, large := s.AllReduce(gpus, s.Collective.SmallLimit), s.AllReduce(gpus, s.Collective.SmallLimit+1)
		if small >= large {
			t.Errorf("%d GPUs: %g s directly, %g s by NCCL", gpus, small, large)
		}
	}
}
