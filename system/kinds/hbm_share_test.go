package kinds

import (
	"math"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// decoding returns a sub-batch of requests with one context.
func decoding(requests, context int) *scheduler.SubBatch {
	s := &scheduler.SubBatch{}
	for range requests {
		s.Decode = append(s.Decode, scheduler.Decoding{Base: int64(context) - 1})
	}
	return s
}

// TestUnitsReadWeights: if the GPUs' arithmetic is no limit, the units' share is that of AttAcc's second optimisation. They read all
// weights of their columns for each token, f times as fast as a GPU, so they get 64 · f / (f + tokens) of 64 parts. Both end at about the
// same time: a part more or less, or none or all of it, never ends sooner.
func TestUnitsReadWeights(t *testing.T) {
	e := rigOf(t, "run.system=hbm-pim", "run.model=gpt-175b", "gpu.preset=a100-paper", "hbm_pim.feed_forward=1").hbm()
	width := e.ModelCost.FFNWidth()
	for _, tokens := range []int{1, 3, 8, 16} {
		columns, seconds := e.Helps(tokens)
		share := 64 * 16 / float64(16+tokens)
		if got := 64 * float64(columns) / float64(width); math.Abs(got-share) > 4 { // a GPU's narrow products do not fill whole waves
			t.Errorf("%d tokens: the units have %.1f of 64 parts, want %.1f", tokens, got, share)
		}
		// At 0.85 of 16 times 2.039 TB/s; vectors cross at the memory's rate.
		bytes := float64(2*columns*12288*2) * float64(tokens)
		crossing := float64(tokens*(2*12288+2*columns)*2) / 2.039e12
		if want := bytes/(0.85*16*2.039e12) + crossing; math.Abs(seconds/want-1) > 1e-12 {
			t.Errorf("%d tokens: %v s, want %v", tokens, seconds, want)
		}
	}
	longer := func(tokens, columns int) float64 {
		own, _ := e.ModelCost.NarrowFFN(tokens, width-columns)
		return max(own.Seconds, e.weightBytes(tokens, columns)/e.reading.rate+float64(tokens*(2*12288+2*columns)*2)/e.reading.link)
	}
	for _, tokens := range []int{1, 5, 40, 300, 5000} {
		columns, _ := e.Helps(tokens)
		for _, other := range []int{0, max(0, columns-width/64), min(width, columns+width/64), width} {
			if a, b := longer(tokens, columns), longer(tokens, other); a > b {
				t.Errorf("%d tokens: %d columns take %v s, %d take %v", tokens, columns, a, other, b)
			}
		}
	}
	part := rigOf(t, "run.system=hbm-pim", "run.model=gpt-175b", "gpu.preset=a100-paper", "hbm_pim.feed_forward=0.25").hbm()
	if columns, _ := part.Helps(1); columns != width/4 {
		t.Errorf("a quarter of %d columns: %d", width, columns)
	}
	if experts := rigOf(t, "run.system=hbm-pim", "run.model=mixtral-8x7b", "hbm_pim.feed_forward=1").hbm(); experts != nil {
		if columns, _ := experts.Helps(1); columns != 0 {
			t.Errorf("of experts the units have %d columns", columns)
		}
	}
}

// TestSharedNetworkIteration: in each layer, a decode step takes its attention, the projection, the longer part of the network and
// the rest. The units are busy with attention and their part of the network, the GPUs with the rest.
func TestSharedNetworkIteration(t *testing.T) {
	for _, sets := range [][]string{{"hbm_pim.feed_forward=1"}, {"hbm_pim.feed_forward=0.1"}, {"hbm_pim.feed_forward=1", "hbm_pim.model=commands"}} {
		e := rigOf(t, append(sets, "run.system=hbm-pim", "run.model=gpt-89b", "hbm_pim.sub_batches=never")...).hbm()
		sub := decoding(6, 900)
		end, err := e.Run(&scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{*sub}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		g, layers := e.StageRuns(sub), units.Duration(e.Model.Layers)
		s := g.Shared
		rest := g.Block - s.Projection - s.GPUs
		device := e.device[0]
		want := g.Entry + layers*(device+s.Projection+max(s.GPUs, s.Device)+rest) + g.Exit - g.Block
		if end != want || s.Device == 0 {
			t.Errorf("%v: %v, want %v of %+v", sets, end, want, s)
		}
		if busy := e.Work.Time[flow.OfPIM]; busy != layers*(device+s.Device) {
			t.Errorf("%v: the units are busy for %v, want %v", sets, busy, layers*(device+s.Device))
		}
		if busy := e.Work.Time[flow.OfGPU]; busy != g.Entry+(layers-1)*g.Block+g.Exit {
			t.Errorf("%v: the GPUs are busy for %v", sets, busy)
		}
	}
}

// TestMemoryBeside: keys and values have the units' stacks less the copies of weights, or the free memory of the
// GPUs.
func TestMemoryBeside(t *testing.T) {
	gib := func(sets ...string) float64 {
		n := rigOf(t, append(sets, "run.system=hbm-pim", "run.model=gpt-175b")...)
		return float64(n.Memory.Unit) * float64(n.Memory.Capacity) / float64(units.GiB)
	}
	// 96 layers, two matrices of 12,288 by 49,152 elements of two bytes: 216 GiB.
	for _, c := range []struct {
		want float64
		sets []string
	}{
		{640, []string{"hbm_pim.memory_beside=80GiB"}}, {640 - 216, []string{"hbm_pim.memory_beside=80GiB", "hbm_pim.feed_forward=1"}},
		{640 - 54, []string{"hbm_pim.memory_beside=80GiB", "hbm_pim.feed_forward=0.25"}}, {480 - 27, []string{"hbm_pim.memory_beside=80GiB", "hbm_pim.capacity_share=0.75", "hbm_pim.feed_forward=0.25", "model.weight_bits=8"}},
		{gib(), []string{"hbm_pim.feed_forward=1"}}, {640, []string{"hbm_pim.memory_beside=80GiB", "hbm_pim.placement=channel"}},
	} {
		if got := gib(c.sets...); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%v: %v GiB, want %v", c.sets, got, c.want)
		}
	}
}

// TestLongestInChannel: a request in one channel has an eightieth of the memory: 8 GiB of 640, and 2 * 96 * 12,288 elements of two bytes a token.
func TestLongestInChannel(t *testing.T) {
	for placement, channels := range map[string]int{"channel": 80, "heads": 1} {
		n := rigOf(t, "run.system=hbm-pim", "run.model=gpt-175b", "hbm_pim.memory_beside=80GiB", "hbm_pim.placement="+placement)
		want := (640 << 30) / channels / (2 * 96 * 12288 * 2)
		if got := n.replica(nil).Batcher.Ledger.Most(); got > want || got < want-16 {
			t.Errorf("%s: %d tokens, want %d in pages of 16", placement, got, want)
		}
	}
}

// TestCrossing: to units beside the GPUs, a request sends queries, keys and values of a GPU's 12 heads, and as many results return: 4 · 12 · 128
// elements of two bytes at 300 GB/s.
func TestCrossing(t *testing.T) {
	took := func(sets ...string) units.Duration {
		return unitsTake(rigOf(t, append(sets, "run.system=hbm-pim", "run.model=gpt-175b")...).hbm(), decoding(10, 1000))
	}
	want := 10 * 4 * 12 * 128 * 2 / 300e9
	if got := (took("hbm_pim.memory_beside=80GiB") - took()).Seconds(); math.Abs(got-want) > 1e-12 {
		t.Errorf("%v s, want %v", got, want)
	}
}

// TestUnitsWithoutKernels: without the fixed part of the GPUs' kernel, the units take only bytes over bandwidth.
func TestUnitsWithoutKernels(t *testing.T) {
	for _, model := range []string{"factor", "commands"} {
		took := func(overhead string) (*hbmPIM, float64) {
			e := rigOf(t, "run.system=hbm-pim", "gpu.preset=a100-sxm-80gb", "hbm_pim.model="+model, "hbm_pim.kernel_overhead="+overhead).hbm()
			return e, unitsTake(e, decoding(1, 1000)).Seconds()
		}
		e, with := took("true")
		_, without := took("false")
		if fixed := e.units.DecodeBatchCost(e.one(1000)).Overhead; math.Abs(with-without-fixed) > 2e-12 || fixed < 1e-6 {
			t.Errorf("%s: %v and %v s, want %v apart", model, with, without, fixed)
		}
	}
}

// TestRequestsInChannels: requests in the same channel take turns; those in different ones do not wait for each other. Equal
// numbers of equal requests in each channel take the time of their heads dealt out over all channels.
func TestRequestsInChannels(t *testing.T) {
	for _, model := range []string{"factor", "commands"} {
		sets := []string{"run.system=hbm-pim", "run.model=llama-3-8b", "gpu.preset=a100-sxm-80gb", "hbm_pim.model=" + model, "hbm_pim.kernel_overhead=false"}
		e := rigOf(t, append(sets, "hbm_pim.placement=channel", "hbm_pim.memory_beside=80GiB")...).hbm()
		take := func(context int, channels ...int32) units.Duration {
			s := decoding(len(channels), context)
			for i := range s.Decode {
				s.Decode[i].Offset = channels[i]
			}
			return unitsTake(e, s) - e.crossing(len(channels))
		}
		one := take(1000, 7)
		if two, apart := take(1000, 7, 7), take(1000, 7, 9); math.Abs(float64(two)/float64(one)-2) > 0.15 || apart != one {
			t.Errorf("%s: one request %v, two in its channel %v, in two %v", model, one, two, apart)
		}
		var each []int32
		for channel := range int32(80) {
			each = append(each, channel)
		}
		dealt := rigOf(t, sets...).hbm()
		all := unitsTake(dealt, decoding(80, 4000))
		if got := take(4000, each...); math.Abs(float64(got)/float64(all)-1) > 0.03 {
			t.Errorf("%s: 80 requests in 80 channels take %v, dealt out %v", model, got, all)
		}
		if got := take(4000, slices.Repeat([]int32{3}, 4)...); float64(got) < 3.8*float64(take(4000, 3)) {
			t.Errorf("%s: four requests in one channel take %v", model, got)
		}
	}
}
