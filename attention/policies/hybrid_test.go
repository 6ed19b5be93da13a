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
	return s.spec().Costs(policy.Shape{Layers: 2, QueryHeads: 8, KVHeads: 4, Dim: 16, ElementBits: 16}).(*hybridCost), *s
}

// arrived adds up what leaves for home, of all tokens and of the salient ones, and checks that
// it follows what is there.
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

// TestTokensLeaveOnce follows a request of a prompt in chunks and its steps: every token that
// has left the window went home once, in order, before it is attended to there; the rest
// is on the GPUs, as the policy's values have it; memory is for what is held.
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
		for context := prompt + 1; context < prompt+100; context++ {
			left := context
			if s.Window > 0 {
				left = window.Evicted(context - 1)
			}
			away := max(0, left-c.sink)
			x := c.Decode([]policy.Request{{Prompt: prompt, Context: context}}, 0)
			if s.Window == 0 {
				home[0] = away // with the vectors
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
			checkHeld(t, c, context-1, near-1, home)
			arrived(t, x.Leave, c.salient, &home)
		}
	})
}

// checkHeld checks that memory is enough for what a request with so many tokens has.
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
