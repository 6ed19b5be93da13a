package system

import "testing"

// The steps before which TestWaveLaws breaks something, all in the second layer
// of sub-batch 0: it starts, or its attention ends.
func layerStarts(w *waves) bool   { return w.sub[0].layer == 0 && !w.sub[0].attention && w.next() == 0 }
func attentionEnds(w *waves) bool { return w.sub[0].layer == 1 && w.sub[0].attention && w.next() == 0 }

// TestWaveLaws has every law that waves can break broken: the recurrence is run
// up to a step, something in it is set wrong, and the checker names the law.
func TestWaveLaws(t *testing.T) {
	decodes := func() *iterationCosts {
		c := handCosts()
		c.layers = 40
		c.sub[1].prefillAttention = 0
		c.groups[3].promptTokens = 0
		return c
	}
	for _, test := range []struct {
		name string
		law  Law
		at   func(w *waves) bool // the step before which to break
		set  func(w *waves)
	}{
		{"nothing", "", nil, nil},
		{"the link was busy for longer", LawExclusive, layerStarts, func(w *waves) { w.check.downEnd += 1000 * ns }},
		{"the link starts late", LawIdle, layerStarts, func(w *waves) { w.linkFree += 1000 * ns }},
		{"a group ends early", LawTraffic, attentionEnds, func(w *waves) { w.sub[0].due[1] -= ns }},
		{"a group is left behind", LawCausality, attentionEnds, func(w *waves) { w.sub[0].due[1] += 1000 * ns }},
		{"the up link was busy for longer", LawExclusive, attentionEnds, func(w *waves) { w.check.upEnd += 1000 * ns }},
		{"results wait for nothing", LawIdle, attentionEnds, func(w *waves) { w.upFree += 1000 * ns }},
		{"the GPU was busy for longer", LawExclusive, attentionEnds, func(w *waves) { w.check.gpuEnd += 1000 * ns }},
		{"the GPU waits for nothing", LawIdle, attentionEnds, func(w *waves) { w.gpuFree += 1000 * ns }},
		{"a layer is left out", LawTraffic, layerStarts, func(w *waves) { w.sub[0].layer++ }},
	} {
		w := newWaves(2)
		w.check = newChecker(2)
		broken := test.set == nil
		w.begin(decodes(), ns)
		for more := true; more; more = w.step() {
			if !broken && test.at(&w) {
				broken = true
				test.set(&w)
			}
		}
		w.check.finished(&w)
		switch v := w.check.violation; {
		case !broken:
			t.Errorf("%s: never came", test.name)
		case v == nil && test.law != "":
			t.Errorf("%s: no law is broken, want %q", test.name, test.law)
		case v != nil && v.Law != test.law:
			t.Errorf("%s: %v, want law %q", test.name, v, test.law)
		}
	}
}
