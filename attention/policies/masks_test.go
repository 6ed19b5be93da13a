package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"testing"
)

// TestPromptMasks: prompts have full attention; only streaming heads have a window, that of decode steps or their own.
func TestPromptMasks(t *testing.T) {
	shape := policy.Shape{Layers: 2, QueryHeads: 4, KVHeads: 4, Dim: 8, ElementBits: 16}
	for _, c := range []struct {
		name         string
		prefill      int
		head         int
		sink, window int
	}{
		{"streaming", 0, 0, 4, 508}, {"streaming", 600, 0, 4, 600}, {"lserve", 0, 3, 128, 256}, {"lserve", 8192, 2, 128, 8192},
		{"lserve", 0, 1, 0, 0}, {"duo", 0, 2, 128, 256}, {"duo", 9, 0, 0, 0}, {"dense", 0, 0, 0, 0}, {"quest", 0, 0, 0, 0}, {"window", 0, 0, 0, 0},
	} {
		s := newKeys(c.name)
		s.PrefillWindow = c.prefill
		v, err := policy.NewValues(s.spec(), shape)
		if err != nil {
			t.Fatal(err)
		}
		if sink, window := v.NewState(1, c.head, 1000).PromptMask(); sink != c.sink || window != c.window {
			t.Errorf("%+v: sink %d, window %d", c, sink, window)
		}
	}
}

// TestWindowByHand: windows of no token and of one.
func TestWindowByHand(t *testing.T) {
	for _, c := range []struct{ window, near, home int }{{0, 0, 10}, {1, 1, 9}, {2, 2, 8}} {
		s := newKeys("window")
		s.Window, s.Block = c.window, 1
		w := newWindowState(keysOf[WindowSpec](s), 1)
		w.Prompt(nil, make([]float32, 9), nil)
		w.Append(nil, nil)
		if parts := w.Select(nil).Parts; parts[0].Tokens() != c.near || parts[1].Tokens() != c.home || parts[0].Device != policy.GPU {
			t.Errorf("%+v: %+v", c, parts)
		}
	}
}
