package policies

import (
	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
)

// drawSpec returns a valid section of any policy.
func drawSpec(t *rapid.T) *keys {
	return drawSpecOf(t, rapid.SampledFrom(plainNames()).Draw(t, "policy"))
}

// drawSpecOf returns a valid section of a policy.
func drawSpecOf(t *rapid.T, name string) *keys {
	s := newKeys(name)
	number := func(key string, low, high int) int { return rapid.IntRange(low, high).Draw(t, key) }
	share := func(key string) float64 { return float64(number(key, 1, 100)) / 100 }
	switch s.Name {
	case "quest", "lserve":
		s.Page = 1 << number("log page", 2, 7)
		s.Budget = s.Page * number("pages", 1, 40)
		s.SelectGroup = rapid.SampledFrom([]string{"sum", "softmax-sum", "max", "per-head"}).Draw(t, "group")
	case "h2o":
		s.Heavy, s.Recent = share("heavy")/2, share("recent")/2
	case "csattention":
		s.Subspaces, s.Centroids = 1<<number("log subspaces", 0, 3), number("centroids", 1, 200)
		s.TableShare, s.SelectShare, s.RecentTokens, s.Period = share("table"), share("select"), number("recent", 1, 300), number("period", 1, 8)
		s.SelectGroup = rapid.SampledFrom([]string{"mean", "per-head"}).Draw(t, "what searches")
	case "streaming":
		s.Sink, s.Window, s.PrefillWindow = number("sink", 0, 200), number("window", 1, 900), number("prefill window", 0, 900)
	case "window", "hgca":
		s.Window = number("window", 1, 4000)
		s.Block = number("block", 1, s.Window)
	}
	switch s.Name {
	case "quest":
		s.SkipLayers = number("skip", 0, 12)
	case "lserve":
		s.LogicalPage, s.Reuse = s.Page>>number("log logical", 0, 2), number("reuse", 1, 9)
		fallthrough
	case "duo":
		s.StaticSparsity = float64(number("streaming heads", 0, 4)) / 4
	case "hgca":
		s.Share = share("share")
	case "window":
		s.Sink = number("sink", 0, 500)
		if number("empty", 0, 3) == 0 {
			s.Window = 0
		}
	}
	if err := input.Validate(s.spec()); err != nil {
		t.Fatalf("%+v: %v", *s, err)
	}
	return s
}
