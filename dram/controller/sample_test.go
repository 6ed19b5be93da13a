package controller

import "testing"

// TestSampleByHand: activations limit a bus if its 128 bursts of 4 clocks take less than three quarters of the time and there are more than
// three quarters of the activations that the ranks allow: 4 in 32 clocks for each.
func TestSampleByHand(t *testing.T) {
	s := &sched{channel: &channel{spec: part(t, ddr43200)}}
	s.limits.actSteps, s.limits.acts = 32, 4
	for _, c := range []struct {
		ranks      int
		steps      int64
		activates  int64
		rowsAreOut bool
	}{
		// 512 clocks are three quarters of 682.7. In 683 clocks, more than 64.03 activations are more than three quarters.
		{1, 683, 64, false}, {1, 683, 65, true}, {1, 682, 65, false}, {2, 683, 128, false}, {2, 683, 129, true}, {4, 683, 257, true}, {4, 683, 256, false}, {1, 2000, 187, false}, {1, 2000, 188, true},
	} {
		b := &dataBus{first: 3, end: 3 + c.ranks, columns: sampleColumns, acts: c.activates, sampled: 5000, rowBound: !c.rowsAreOut}
		if s.sample(b, 5000+c.steps); b.rowBound != c.rowsAreOut {
			t.Errorf("%+v: %v", c, b.rowBound)
		}
		if b.acts != 0 || b.columns != 0 || b.sampled != 5000+c.steps {
			t.Errorf("%+v is left", b)
		}
	}
}
