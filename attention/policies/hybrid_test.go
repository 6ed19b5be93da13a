package policies

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"pgregory.net/rapid"
)

// drawHybrid draws a policy with a window on the GPUs and its settings.
func drawHybrid(t *rapid.T) (*hybridCost, keys) {
	s := newKeys(rapid.SampledFrom([]string{"window", "hgca"}).Draw(t, "policy"))
	low := 1
	if s.Name == "window" {
		low, s.Sink = 0, rapid.IntRange(0, 20).Draw(t, "sink")
	} else {
		s.Share, s.KeepAll = rapid.SampledFrom([]float64{0, 0.1, 0.37, 1}).Draw(t, "share"), rapid.Bool().Draw(t, "keep all")
	}
	s.Window = rapid.IntRange(low, 60).Draw(t, "window")
	s.Block = rapid.IntRange(1, max(1, s.Window)).Draw(t, "block")
	verified := rapid.IntRange(0, 4).Draw(t, "verified")
	return s.spec().Costs(policy.Shape{Layers: 2, QueryHeads: 8, KVHeads: 4, Dim: 16, ElementBits: 16, Verified: verified}).(*hybridCost), *s
}

// arrived adds up the tokens that leave for home, all and the salient ones, and checks that they
// follow those already there.
func arrived(t *rapid.T, leave []policy.Leaving, hgca bool, home *[2]int) {
	for i, l := range leave {
		kind := 0
		if hgca && i == len(leave)-1 {
			kind = 1
		}
		if l.Heads != 4 || l.Tokens[0] < 0 || l.From[0] != home[kind] || l.Copies != (kind == 1 && len(leave) == 2) {
			t.Fatalf("%+v leaves where %v are at home", leave, *home)
		}
		home[kind] += l.Tokens[0]
	}
}

// TestTokensLeaveOnce follows a request through its prompt in chunks and its steps: every token that has left the
// window was sent home once, in order, before it is attended to there. The rest, and all tokens that the step
// verifies, are on the GPUs, as in the policy's values. Memory covers what is held.
func TestTokensLeaveOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := drawHybrid(t)
		var home [2]int // tokens of each head, and copies of salient ones
		prompt := rapid.IntRange(1, 150).Draw(t, "prompt")
		for finished := 0; finished < prompt; {
			chunk := rapid.IntRange(1, prompt-finished).Draw(t, "chunk")
			p := c.Prompt(0, chunk, finished, finished+chunk == prompt)
			if c.salient && finished+chunk < prompt && len(p.Leave) > 1 {
				t.Fatalf("what is salient is known before the prompt ends: %+v", p.Leave)
			}
			arrived(t, p.Leave, c.salient && (finished+chunk == prompt || !c.all), &home)
			finished += chunk
		}
		window := hgcaWindow{Size: s.Window, Block: s.Block}
		step := 1 + c.shape.Ahead()
		for before, accepted := prompt, 0; before < prompt+100; before += 1 + accepted {
			context, left := before+step, before+step
			accepted = rapid.IntRange(0, step-1).Draw(t, "accepted")
			if s.Window > 0 {
				left = window.Evicted(before)
			}
			away := max(0, left-c.sink)
			x := c.Decode([]policy.Request{{Prompt: prompt, Context: context, Accepted: accepted}}, 0)
			if s.Window == 0 {
				home[0] = away // sent with the vectors
			}
			near, far := 0, x.Attend[len(x.Attend)-1]
			if len(x.Attend) == 2 {
				near = x.Attend[0].Tokens[0]
			}
			want := away
			if c.salient {
				want = int(math.Ceil(s.Share * float64(away)))
			}
			if near != context-away || far.Device != policy.Home || far.Tokens[0] != want || (x.Merged == 1) != (near > 0 && want > 0) {
				t.Fatalf("context %d: %+v, want %d on the GPUs and %d at home", context, x, context-away, want)
			}
			if c.all && home[0] != away || c.salient && home[1] != want {
				t.Fatalf("context %d: %v are at home, %d have left and %d are attended to", context, home, away, want)
			}
			if s.Window > 0 { // else the step's own tokens are also at home
				checkHeld(t, c, before, near-step, home)
			}
			checkHeld(t, c, context, near, home)
			arrived(t, x.Leave, c.salient, &home)
		}
	})
}

// checkHeld checks that memory suffices for a request with so many tokens.
func checkHeld(t *rapid.T, c *hybridCost, tokens, near int, home [2]int) {
	sum := map[policy.Device]int{}
	held, _ := c.Memory(0)
	for _, h := range held {
		n := max(tokens-h.Skip, 0)
		if h.Share > 0 {
			n = int(math.Ceil(h.Share * float64(n)))
		}
		if h.Most > 0 {
			n = min(n, h.Most)
		}
		if !h.Index && h.Bytes > 0 {
			sum[h.Device] += n
		}
	}
	if sum[policy.GPU] < near || sum[policy.Home] < home[0]+home[1]-1 {
		t.Fatalf("%d tokens: %d on the GPUs, %v at home, memory for %v", tokens, near, home, sum)
	}
}

// TestWindowOfDrafts: by hand, three tokens a step, a window of 8 that loses 4 at once after a sink of 2. All tokens of a step attend to the window
// before the step and to one another; the accepted ones push tokens out after it.
func TestWindowOfDrafts(t *testing.T) {
	k := newKeys("window")
	k.Sink, k.Window, k.Block = 2, 8, 4
	c := k.spec().Costs(policy.Shape{Layers: 1, QueryHeads: 2, KVHeads: 1, Dim: 8, ElementBits: 16, Verified: 3})
	for _, s := range []struct{ before, accepted, near, away, leave int }{
		{6, 0, 9, 0, 0}, {6, 1, 9, 0, 2}, {6, 2, 9, 0, 2}, // 8 tokens fill the window: 0 to 3 leave it, of which the sink keeps 2
		{11, 0, 12, 2, 4}, {11, 2, 12, 2, 4}, {13, 0, 10, 6, 0}, {13, 1, 10, 6, 0}, {13, 2, 10, 6, 4},
	} {
		x := c.Decode([]policy.Request{{Prompt: 5, Context: s.before + 3, Accepted: s.accepted}}, 0)
		leave := 0
		for _, l := range x.Leave {
			leave += l.Tokens[0]
		}
		if near, away := x.Attend[0].Tokens[0], x.Attend[1].Tokens[0]; near != s.near || away != s.away || leave != s.leave {
			t.Errorf("%+v: %d on the GPUs, %d at home, %d leave", s, near, away, leave)
		}
	}
	held, _ := c.Memory(0)
	if most := held[len(held)-1].Most; most != 2+8+2 {
		t.Errorf("the GPUs hold %d tokens at most, want sink, window and two drafts", most)
	}
}

// TestSharesOfAProfileByHand: of a window of 10 tokens in blocks of 4, 4 tokens are at home in steps of up to 14 tokens, 8 up to 18, then 12. Each layer
// has its own share of them by bucket: 1/4, 1/2 and 1/8, or 1, 1/2 and 1/4. After a step, as many tokens go home as the next step attends to in
// addition, or none.
func TestSharesOfAProfileByHand(t *testing.T) {
	k := newKeys("hgca")
	k.Window, k.Block, k.KeepAll = 10, 4, false
	p := &policy.Profile{Model: policy.ProfileModel{Layers: 2, KVHeads: 1}, Measured: policy.ProfileMeasured{Prompt: 12, Last: 30, Contexts: []int{13, 15, 19}},
		Heads: []policy.ProfileHead{{Share: []float64{0.25, 0.5, 0.125}}, {Share: []float64{1, 0.5, 0.25}}}}
	c := hgca.Costs(&policy.Use{Keys: *keysOf[HGCASpec](k), Shape: policy.Shape{Layers: 2, QueryHeads: 1, KVHeads: 1, Dim: 8, ElementBits: 16}, Profile: p})
	for _, x := range []struct{ context, run, away, far, more int }{
		{13, 0, 4, 1, 0}, {14, 0, 4, 1, 3}, {15, 0, 8, 4, 0}, {18, 0, 8, 4, 0}, {19, 0, 12, 2, 0}, {13, 1, 4, 4, 0}, {14, 1, 4, 4, 0}, {18, 1, 8, 4, 0}, {19, 1, 12, 3, 0},
	} {
		s := c.Decode([]policy.Request{{Prompt: 12, Context: x.context}}, x.run)
		more := 0
		if len(s.Leave) > 0 {
			more = s.Leave[0].Tokens[0]
		}
		if near, far := s.Attend[0].Tokens[0], s.Attend[1].Tokens[0]; near != x.context-x.away || far != x.far || more != x.more {
			t.Errorf("%+v: %d tokens on the GPUs, %d at home, %d follow", x, near, far, more)
		}
	}
	for run, want := range []int{1, 4} {
		if got := c.Prompt(run, 12, 0, true).Leave[0].Tokens[0]; got != want {
			t.Errorf("layer %d: %d tokens of the prompt go home, want %d", run, got, want)
		}
	}
}

// TestShareRisesWithinABlock: 8 tokens are at home in steps of 15 to 18 tokens; a step attends to 1/4 of them, from 17 tokens on to 3/4. After the
// step of 16 tokens no block leaves the window of 10 in blocks of 4, but 4 more tokens are attended to and go home as copies after the 2 there.
func TestShareRisesWithinABlock(t *testing.T) {
	p := &policy.Profile{Model: policy.ProfileModel{Layers: 1, KVHeads: 1}, Measured: policy.ProfileMeasured{Prompt: 12, Last: 30, Contexts: []int{13, 17}},
		Heads: []policy.ProfileHead{{Share: []float64{0.25, 0.75}}}}
	for _, keepAll := range []bool{false, true} {
		k := newKeys("hgca")
		k.Window, k.Block, k.KeepAll = 10, 4, keepAll
		c := hgca.Costs(&policy.Use{Keys: *keysOf[HGCASpec](k), Shape: policy.Shape{Layers: 1, QueryHeads: 1, KVHeads: 1, Dim: 8, ElementBits: 16}, Profile: p})
		for context, want := range map[int][2]int{15: {2, 0}, 16: {2, 4}, 17: {6, 0}} {
			s := c.Decode([]policy.Request{{Prompt: 12, Context: context}}, 0)
			if far := s.Attend[1].Tokens[0]; far != want[0] {
				t.Errorf("%d tokens: attends to %d at home, by hand %d", context, far, want[0])
			}
			if want[1] == 0 {
				if len(s.Leave) > 0 {
					t.Errorf("%d tokens: %+v leave", context, s.Leave)
				}
				continue
			}
			if len(s.Leave) != 1 || s.Leave[0].Tokens[0] != want[1] || s.Leave[0].From[0] != want[0] || s.Leave[0].Heads != 1 || s.Leave[0].Copies != keepAll {
				t.Errorf("%d tokens: %+v leave, by hand %d behind %d", context, s.Leave, want[1], want[0])
			}
		}
	}
}
