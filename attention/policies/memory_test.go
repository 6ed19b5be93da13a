package policies

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"pgregory.net/rapid"
)

// memory returns the tokens of a request that a layer holds on each device; the first `prompt` tokens are the prompt's.
func (l *byteLaw) memory(prompt, tokens int, filling bool) (want [2]int) {
	streamsOn := policy.Home
	if l.apart && l.StreamDevice == "gpu" {
		streamsOn = policy.GPU
	}
	window := l.Window
	if filling && l.PrefillWindow > 0 {
		window = l.PrefillWindow
	}
	share := func(of float64, n int) int { return int(math.Ceil(of * float64(n))) }
	if paged := l.paged(); paged > 0 { // a smallest and a largest key a page
		where := policy.Home
		if l.apart && l.SelectDevice == "gpu" {
			where = policy.GPU
		}
		want[where] += paged * tokens * max(1, 2*l.vector()/l.logical())
		if l.apart && l.SelectDevice != "gpu" && l.SummaryDevice == "gpu" { // those of the open page
			want[policy.GPU] += paged * 2 * l.vector()
		}
	}
	switch l.Name {
	case "streaming":
		want[policy.Home] += l.heads * l.token * min(tokens, l.Sink+window)
	case "lserve", "duo":
		want[policy.Home] += (l.heads - l.streams) * l.token * tokens
		want[streamsOn] += l.streams * l.token * min(tokens, l.Sink+window)
	case "h2o": // plus a step's own token; a prompt is held whole until its end
		held := share(l.Heavy+l.Recent, prompt+1)
		if filling {
			held = tokens
		}
		want[policy.Home] += l.heads * held * (l.token + 4*l.group)
	case "window", "hgca": // the window less a block stays
		sink := max(0, l.Sink)
		away := max(0, tokens-sink-l.Window+l.Block)
		if l.Window == 0 {
			away = max(0, tokens-sink)
		}
		near := l.token
		if l.Name == "hgca" { // with an average
			near += 4
			want[policy.Home] += l.heads * l.token * share(l.Share, away)
		}
		if l.Name == "window" || l.KeepAll {
			want[policy.Home] += l.heads * l.token * away
		}
		want[policy.GPU] += l.heads * near * min(tokens, sink+l.Window)
	case "csattention":
		want[policy.Home] += l.heads * (l.token*tokens + l.Subspaces*l.Centroids*csaEntry*share(l.TableShare, prompt) + 2*l.Centroids*l.dim)
		if l.Mode == "host" && l.Search == "lagged" { // the next step's tokens
			want[policy.GPU] += l.heads * l.token * (share(min(1, l.SelectShare*float64(l.searches())), prompt) + min(tokens, l.RecentTokens))
		}
	default:
		want[policy.Home] += l.heads * l.token * tokens
	}
	return want
}

// TestMemory compares a layer's memory with what a policy keeps of a request.
func TestMemory(t *testing.T) {
	forVariants(t, func(t *rapid.T, p policy.Costs, l *byteLaw, run int) {
		prompt, decoded := rapid.IntRange(1, 3000).Draw(t, "prompt"), rapid.IntRange(0, 3000).Draw(t, "decoded")
		decoding, filling := p.Memory(run)
		for i, held := range [][]policy.Held{decoding, filling} {
			tokens, got := prompt+decoded*(1-i), [2]int{}
			for _, h := range held {
				n := tokens
				if h.OfPrompt {
					n = prompt
				}
				if n = max(0, n-h.Skip); h.Share > 0 {
					n = int(math.Ceil(h.Share * float64(n)))
				}
				if h.Most > 0 {
					n = min(n, h.Most)
				}
				got[h.Device] += h.Heads * n * int(h.Bytes)
			}
			if want := l.memory(prompt, tokens, i == 1); got != want {
				t.Fatalf("%+v, %+v: a prompt of %d and %d in all, filling %v: %v bytes at home and on the GPUs, want %v", l, *l.keys, prompt, tokens, i == 1, got, want)
			}
		}
	})
}

// TestHeldIsAttended: with any keys, and any device as home, a layer holds all that it attends to.
func TestHeldIsAttended(t *testing.T) {
	forVariants(t, func(t *rapid.T, p policy.Costs, l *byteLaw, run int) {
		prompt := rapid.IntRange(1, 3000).Draw(t, "prompt")
		holds(t, named{p, l.Name}, []policy.Request{{Prompt: prompt, Context: prompt + rapid.IntRange(1, 3000).Draw(t, "decoded")}}, run)
	})
}
