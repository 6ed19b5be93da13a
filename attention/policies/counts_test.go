package policies

import (
	"testing"

	"pgregory.net/rapid"
)

// TestHGCAWindow simulates the window token by token: when it is full, whole blocks leave until it is not. The closed forms must agree
// after any prompt.
func TestHGCAWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 70).Draw(t, "window")
		w := hgcaWindow{Size: size, Block: rapid.IntRange(1, size).Draw(t, "block")}
		prompt := rapid.IntRange(1, 300).Draw(t, "prompt")
		held, left := prompt, 0
		evict := func() (n int) {
			for held >= w.Size {
				held, n = held-w.Block, n+w.Block
			}
			left += n
			return n
		}
		evict()
		if left != w.Evicted(prompt) {
			t.Fatalf("%d tokens leave after a prompt of %d, want %d", w.Evicted(prompt), prompt, left)
		}
		for context := prompt + 1; context < prompt+200; context++ {
			held++
			if held != w.Held(context) || held > w.Size {
				t.Fatalf("context %d: the window holds %d, want %d", context, w.Held(context), held)
			}
			if n := evict(); n != w.Leaving(context) || left != w.Evicted(context) || left+held != context {
				t.Fatalf("context %d: %d leave, %d have left, want %d, %d", context, w.Leaving(context), w.Evicted(context), n, left)
			}
			if least := min(context, w.Size-w.Block); held < least || held >= w.Size {
				t.Fatalf("context %d: %d tokens stay, want %d to %d", context, held, least, w.Size-1)
			}
		}
	})
}

// TestHGCAWindowByHand: W 512 in blocks of 128 keeps 384 tokens of a prompt of 2,048.
func TestHGCAWindowByHand(t *testing.T) {
	w := hgcaWindow{Size: 512, Block: 128}
	for _, c := range []struct{ context, evicted, held, leaving int }{
		{1, 0, 1, 0}, {511, 0, 511, 0}, {512, 128, 512, 128}, {513, 128, 385, 0}, {639, 128, 511, 0}, {640, 256, 512, 128},
		{2048, 1664, 512, 128}, {2049, 1664, 385, 0}, {2175, 1664, 511, 0}, {2176, 1792, 512, 128},
	} {
		if e, h, l := w.Evicted(c.context), w.Held(c.context), w.Leaving(c.context); e != c.evicted || h != c.held || l != c.leaving {
			t.Errorf("context %d: %d evicted, %d held, %d leaving, want %+v", c.context, e, h, l, c)
		}
	}
}

// TestH2OCounts checks the budgets of the released code by hand, and short prompts.
func TestH2OCounts(t *testing.T) {
	if h := (H2OSpec{0.1, 0.1}).budget(2048); h != (h2oBudget{204, 204}) || h.Kept(2048) != 408 || h.Attended(2049) != 409 || h.Attended(6000) != 409 {
		t.Errorf("%+v", h)
	}
	if h := (H2OSpec{0.1, 0.1}).budget(9); h.Kept(9) != 0 || h.Attended(10) != 1 {
		t.Errorf("a prompt of 9: %+v", h) // budgets below one token: only a step's own
	}
	if h := (H2OSpec{1, 1}).budget(8); h.Kept(8) != 8 || h.Attended(9) != 9 || h.Attended(16) != 16 || h.Attended(40) != 17 {
		t.Errorf("budgets of twice the prompt: %+v", h)
	}
}

// TestCSACounts: the paper's defaults take 1,536 bytes a token, three times the keys and values.
func TestCSACounts(t *testing.T) {
	keys := keysOf[CSAttentionSpec](newKeys("csattention"))
	s := keys.Tables(32000, 1)
	const centroids = 128 * 128 * 2
	if s.Entries != 8000 || s.Selected != 1600 || s.bytes(128) != 1536*32000+centroids || s.Gathered() != 2*32000 {
		t.Errorf("%+v: %d bytes, %d entries gathered", s, s.bytes(128), s.Gathered())
	}
	if s.attended(32001, 0, 1, 0) != 1632 || s.attended(1000, 0, 1, 0) != 1000 {
		t.Errorf("%d tokens", s.attended(32001, 0, 1, 0))
	}
	if got, want := s.buildFLOPs(128, 10, 32000, 4), int64(10*32000*4*128*128*2+32000*128*128*2); got != want {
		t.Errorf("%d FLOPs, want %d", got, want)
	}
	keys.RecentTokens = 0
	if s := keys.Tables(1, 4); s != (CSATables{8, 4, 1, 1, 1}) || s.attended(2, 0, 1, 0) != 2 || s.attended(3, 0, 1, 0) != 2 {
		t.Errorf("a prompt of one token: %+v", s)
	}
}

// Leaving returns the number of tokens that leave after a step with this context: 0 or a block. Evicted counts those that leave at a
// prompt's end.
func (w hgcaWindow) Leaving(context int) int { return w.Evicted(context) - w.Evicted(context-1) }
