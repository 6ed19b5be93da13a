package system

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/scheduler"
)

// TestWholeIsPlace: one loop over requests whose heads are alike sets the groups that adding them one by one does.
func TestWholeIsPlace(t *testing.T) {
	fewCases(t)
	nodes := map[string]*Node{}
	for _, model := range []string{"gpt-89b", "llama-3-8b"} {
		for _, p := range []string{"dense", "window"} {
			nodes[model+", "+p] = nodeOf(t, "run.model="+model, "policy.name="+p)
		}
	}
	names := slices.Sorted(maps.Keys(nodes))
	rapid.Check(t, func(t *rapid.T) {
		node := nodes[rapid.SampledFrom(names).Draw(t, "node")]
		d := devicesOf(node)
		var requests []scheduler.Decoding
		for range rapid.IntRange(0, 12).Draw(t, "requests") {
			prompt := rapid.IntRange(1, 3000).Draw(t, "prompt")
			requests = append(requests, scheduler.Decoding{
				Request: int32(len(requests)), Offset: int32(rapid.IntRange(0, 3).Draw(t, "offset")), Prompt: int32(prompt),
				Base: int64(prompt + rapid.IntRange(0, 100_000).Draw(t, "emitted")),
			})
		}
		x := d.decode(requests, 0, 7)
		c := d.whole(x)
		if c == nil {
			t.Fatal("heads that are alike are added one by one")
		}
		got, want := make([]groupCost, 4), make([]groupCost, 4)
		d.attendWhole(got, requests, c)
		for i := range requests {
			d.place(&want[requests[i].Offset], x, i, 0, -1)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, one by one %+v", got, want)
		}
	})
}

// TestHeadsGoRound: a request's heads lie on all channels, as many on each, in blocks of two; where
// they begin is even over requests that are any number apart.
func TestHeadsGoRound(t *testing.T) {
	d := &devices{headMap: headMap{perChannel: 2, channels: 4}}
	for stride := int32(1); stride <= 16; stride++ {
		var first [4]int
		for i := range int32(400) {
			begins := d.channelOf(i*stride, 0)
			first[begins]++
			for h := range 8 {
				if got := d.channelOf(i*stride, h); got != (begins+h/2)%4 {
					t.Fatalf("request %d: head %d is on channel %d, head 0 on %d", i*stride, h, got, begins)
				}
			}
		}
		for channel, n := range first {
			if n < 60 || n > 140 {
				t.Errorf("of every %d-th of 400 requests %d begin on channel %d", stride, n, channel)
			}
		}
	}
}
