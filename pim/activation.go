package pim

import "github.com/l3sim/l3sim/dram"

// ActivationClocks returns the clocks from the first to the last ACT of an
// all-bank activation on a rank of d: 114 staggered on DDR4-3200 x8, 0
// simultaneous.
func (s *Spec) ActivationClocks(d *dram.Spec) int64 {
	return activationSpan(d, s.Activation == Simultaneous)
}
