package gpus

import (
	"math"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestTimesOfSums: sums are limited to the longest task. The power limit stretches the exact seconds, not the rounded
// times.
func TestTimesOfSums(t *testing.T) {
	long := kernelSum{gpu.Work{Seconds: 1}, flow.LongestTask - 5}
	for add, want := range map[units.Duration]units.Duration{4: flow.LongestTask - 1, 5: flow.LongestTask, 6: flow.LongestTask, flow.LongestTask: flow.LongestTask} {
		if got := long.plus(kernelSum{time: add}).time; got != want {
			t.Errorf("%d and %d are %d, want %d", long.time, add, got, want)
		}
	}
	k := kernelSum{gpu.Work{Seconds: 2e-6}, 7}
	if k.Took(1) != 7 || k.Took(1.5) != 3*units.Microsecond {
		t.Errorf("%v and %v", k.Took(1), k.Took(1.5))
	}
}

// TestPartsByHand: a timeline shows the steps of a task in turn.
func TestPartsByHand(t *testing.T) {
	d := script(t, &scripted{})
	c := d.ModelCost
	took := func(w gpu.Work) units.Duration { return flow.TaskTime(w.Seconds * 1.5) }
	qkv := Part{"QKV generation", took(c.QKV(40))}
	rest := []Part{{"projection, all-reduce", took(c.Projection(40))}, {"feed-forward, all-reduce", took(c.FFN(40))}}
	for mask := range 4 {
		use := flow.Use{Slow: 1.5}
		var merge, choice []Part
		if mask&1 != 0 {
			use.Merge, merge = 320, []Part{{"merge", 10}}
		}
		if mask&2 != 0 {
			use.Chooses, choice = 640, []Part{{"page choice", 20}}
		}
		for of, want := range map[[2]int][]Part{
			{int(flow.OpEntry), 0}:         append([]Part{{"embedding", took(c.Embedding(40))}, qkv}, choice...),
			{int(flow.OpBlock), 0}:         append(append(append(merge[:len(merge):len(merge)], rest...), qkv), choice...),
			{int(flow.OpBlock), 30}:        append(append(append(merge[:len(merge):len(merge)], rest...), qkv), choice...),
			{int(flow.OpBlock), 31}:        append(append(merge[:len(merge):len(merge)], rest...), Part{"LM head", took(c.LMHead(7))}),
			{int(flow.OpGPUAttention), 31}: nil,
		} {
			if got := d.Parts(uint8(of[0]), 40, 7, of[1], use); !reflect.DeepEqual(got, want) {
				t.Errorf("%02b, kind %d in layer %d: %v, by hand %v", mask, of[0], of[1], got, want)
			}
		}
	}
	d = script(t, &scripted{})
	d.Help(Helper{Columns: c.FFNWidth(), Seconds: func(int, int) float64 { return 0 }})
	if got := d.Parts(flow.OpBlock, 40, 7, 0, flow.Use{Slow: 1}); got != nil {
		t.Errorf("a block of which a device computes a part has %v", got)
	}
}

// TestHelpByHand: of 65 ways to divide the network, the one with the shortest longer part is taken. Both parts run at the same time. The GPUs do
// everything else in turn, and only their energy counts.
func TestHelpByHand(t *testing.T) {
	helped, alone := 0, 0
	for _, tokens := range []int{1, 300, 5000} {
		c := New(gpusOf(t, "run.model=llama-3-8b")).ModelCost
		width := c.FFNWidth()
		own := func(columns int) gpu.Work {
			w, _ := c.NarrowFFN(tokens, width-columns)
			return w
		}
		owns := map[int]float64{}                            // seconds of the GPUs, by columns of the device
		for _, pace := range []float64{1e-13, 1e-10, 1e-5} { // seconds of a token and column
			for _, part := range []int{1, 9} {
				plain, d := script(t, &scripted{}), script(t, &scripted{})
				seconds := func(tokens, columns int) float64 { return 1e-7*float64(min(columns, 1)) + pace*float64(tokens*columns) }
				d.Help(Helper{Columns: width / part, Seconds: seconds})
				best, at := math.Inf(1), 0
				for share := range 65 {
					columns := min(width*share/64, width/part)
					if _, ok := owns[columns]; !ok {
						owns[columns] = own(columns).Seconds
					}
					if longer := max(owns[columns], seconds(tokens, columns)); longer < best {
						best, at = longer, columns
					}
				}
				columns, takes := d.Helps(tokens)
				if columns == 0 {
					alone++
					if x, want := d.Dense.At(tokens), plain.Dense.At(tokens); at != 0 || x.all != want.all || x.Block != want.Block || takes != 0 || x.helped.took(2) != (sharedFFN{}) {
						t.Errorf("%d tokens at %g: nothing is divided, by hand %d of %d", tokens, pace, at, width)
					}
					continue
				}
				helped++
				own, rest := c.NarrowFFN(tokens, width-columns)
				if columns != at || takes != seconds(tokens, columns) {
					t.Errorf("%d tokens at %g: %d of %d columns for %v s, by hand %d: %v s, not %v s", tokens, pace, columns, width, takes, at, max(own.Seconds, takes), best)
				}
				x := d.Dense.At(tokens)
				block := c.Projection(tokens).Plus(own).Plus(rest)
				for of, w := range map[string][2]gpu.Work{
					"entry": {x.entry.Work, c.Embedding(tokens).Plus(c.QKV(tokens))}, "end": {x.end.Work, block}, "block": {x.Block.Work, block.Plus(c.QKV(tokens))},
					"all":        {x.all, c.Embedding(tokens).Plus(block.Plus(c.QKV(tokens)).Times(32))},
					"projection": {x.helped.projection.Work, c.Projection(tokens)}, "network": {x.helped.network.Work, own},
				} {
					if !near(w[0].Seconds, w[1].Seconds) || !near(w[0].Dynamic, w[1].Dynamic) {
						t.Errorf("%d tokens, %s: %+v, by hand %+v", tokens, of, w[0], w[1])
					}
				}
				s := x.helped.took(2)
				if want := (sharedFFN{flow.TaskTime(2 * c.Projection(tokens).Seconds), flow.TaskTime(2 * own.Seconds), flow.TaskTime(takes)}); s != want || s.before() != want.Projection+want.GPUs {
					t.Errorf("%+v, by hand %+v", s, want)
				}
			}
		}
	}
	if helped == 0 || alone == 0 {
		t.Errorf("%d are divided, %d are not", helped, alone)
	}
	none := script(t, &scripted{})
	none.Help(Helper{Seconds: func(int, int) float64 { return 0 }})
	if columns, _ := none.Helps(9); columns != 0 {
		t.Errorf("a device without columns computes %d", columns)
	}
}

// TestLongerGroupsAreLeft: shared tokens are read once only if the whole sub-batch is then shorter, and only then count as saved. Otherwise requests decode
// as before.
func TestLongerGroupsAreLeft(t *testing.T) {
	sub := &scheduler.SubBatch{Shared: []scheduler.Shared{{Tokens: 16_384}}}
	for i := range 64 {
		sub.Decode = append(sub.Decode, scheduler.Decoding{Base: 20_000})
		sub.Shared[0].Requests = append(sub.Shared[0].Requests, int32(i))
	}
	for _, shorter := range []bool{true, false} {
		d := New(gpusOf(t, "run.model=llama-3-8b"))
		d.DecodeRuns(sub.Decode, 0)
		alone := *d.StageRuns(sub)
		alone.Layers = append([]layerCost{}, alone.Layers...)
		whole, before := d.Whole(&alone), d.Decoding[0]
		given := alone
		if !shorter {
			given = stage{} // takes nothing
		}
		got := d.Whole(d.StageGroups(sub, &scheduler.Batch{Grouped: 1}, &given))
		if spared := map[bool]int64{true: 63 * 16_384}[shorter]; d.Attends.Spared != spared || (got < whole) != shorter || !shorter && got != whole {
			t.Errorf("%v, alone %v; %d tokens are spared, by hand %d", got, whole, d.Attends.Spared, spared)
		}
		if now := d.Decoding[0]; reflect.DeepEqual(now, before) == shorter || shorter && (now.Shared != &d.Grouping.Kernel || now.Merge != d.Grouping.Merge || now.Batches[0] != d.Grouping.Rest) {
			t.Errorf("decodes %+v, before %+v", now, before)
		}
	}
	d := New(gpusOf(t, "run.model=llama-3-8b"))
	alone := &stage{Entry: 1}
	if got := d.StageGroups(&scheduler.SubBatch{Decode: sub.Decode}, &scheduler.Batch{Grouped: 2}, alone); got != alone || d.Attends.Spared != 0 {
		t.Errorf("%+v without groups", got)
	}
}
