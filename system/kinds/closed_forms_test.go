package kinds

import (
	"fmt"
	"math"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Closed forms of the costs of the real devices, in picoseconds. "Free" devices are the real ones
// with their costs set to 0 before an iteration runs.

// oneBatch is a single batch with a barrier after every layer.
const oneBatch = "scheduler.sub_batches=1"

// allAtOnce prefills all prompts in the first iteration.
const allAtOnce = "scheduler.min_prefill_tokens=1000000"

// driven is one iteration of a replica that a test drives.
type driven struct {
	batch *scheduler.Batch
	took  units.Duration
}

// drive serves requests on the first replica of a node. It applies free to the costs of every
// iteration before that runs, and calls visit afterwards.
func drive(t *testing.T, sets []string, requests []traces.Request, free func(*iterationCosts), visit func(*loop, driven)) (*loop, units.Duration) {
	t.Helper()
	r := rigOf(t, sets...).replica(requests)
	for i := range requests {
		if !r.Batcher.Add(int32(i)) {
			t.Fatalf("request %d can never run", i)
		}
	}
	e, now := r.Engine.(*l3), units.Duration(0)
	for {
		b := r.Batcher.Next()
		if b.Empty() {
			break
		}
		e.fill(&e.costs, b)
		free(&e.costs)
		e.costs.imbalance(&e.imbalance)
		e.Engine = flow.New(r.hw, e.costs.resources(r.hw.Config.Node.Ranksets), flow.Running{}).Engine
		e.costs.lay(&e.Flow)
		end, err := e.Flow.Run(now)
		if err != nil {
			t.Fatal(err)
		}
		visit(r, driven{b, end - now})
		now = end
		r.Batcher.Complete(func(int32, int) {})
	}
	if err := r.check.Err(); err != nil {
		t.Fatal(err)
	}
	return r, now
}

func keep(*iterationCosts) {}
func unseen(*loop, driven) {}

// freeGPUAndTransfers leaves only attention time, and boundaries one clock apart.
func freeGPUAndTransfers(c *iterationCosts) {
	for s := range c.sub {
		sub := &c.sub[s]
		sub.entry, sub.prefillAttention, sub.block, sub.exit = 0, 0, 0, 0
	}
	for i := range c.groups {
		g := &c.groups[i]
		g.Decode, g.Prompt.Shipment, g.Up, g.UpBus = ranks.Shipment{Pieces: 1}, ranks.Shipment{Pieces: 1}, 0, 0
	}
	c.latency, c.upLatency, c.vacate, c.reactivate, c.step = 0, 0, 0, 0, 1
}

// freePIM leaves only transfers and GPUs.
func freePIM(c *iterationCosts) {
	for i := range c.groups {
		c.groups[i].Compute = 0
	}
}

// TestImbalanceClosedForms: one rankset has no imbalance. Equal lengths balance exactly in
// multiples of twice the ranksets over two sub-batches, and in multiples of the ranksets in one.
// Round-robin offsets, dealt alternately to two sub-batches, give each of them every second
// rankset. One request is on one rankset.
func TestImbalanceClosedForms(t *testing.T) {
	for _, c := range []struct {
		name     string
		ranksets int
		sets     []string
		requests []traces.Request
		want     float64
	}{
		{"one rankset", 1, []string{oneBatch}, uneven(9), 1},
		{"one rankset, two sub-batches", 1, nil, uneven(9), 1},
		{"a multiple of the ranksets", 4, []string{oneBatch, allAtOnce}, equal(12, 700, 20), 1},
		{"twice the ranksets", 4, []string{allAtOnce}, equal(8, 700, 20), 1},
		{"six times the ranksets", 3, []string{allAtOnce}, equal(18, 90, 20), 1},
		{"without rotation", 4, []string{allAtOnce, "comm.rotation=false"}, equal(8, 700, 20), 1},
		{"in turn", 4, []string{allAtOnce, "comm.balance=round-robin"}, equal(8, 700, 20), 2},
		{"in turn, one batch", 4, []string{oneBatch, allAtOnce, "comm.balance=round-robin"}, equal(8, 700, 20), 1},
		{"one request", 5, nil, equal(1, 700, 20), 5},
		{"one request too many", 4, []string{oneBatch, allAtOnce}, equal(5, 700, 20), 4 * 2 / 5.0},
	} {
		sets := append([]string{fmt.Sprint("node.ranksets=", c.ranksets)}, c.sets...)
		r, _ := drive(t, sets, c.requests, keep, unseen)
		// Two requests of one rankset share the fill of the first head, so they take less than twice one.
		tolerance := 0.0
		if c.want != math.Trunc(c.want) {
			tolerance = 2e-3
		}
		if got := r.Engine.(*l3).imbalance.Ratio(c.ranksets); math.Abs(got-c.want) > tolerance {
			t.Errorf("%s: busiest over mean %v, want %v", c.name, got, c.want)
		}
	}
}

// TestOneRequestTakesRTimesItsShare: if only attention takes time, one request on R ranksets takes
// as long as R equal ones. That is R times what its attention takes when spread over all of them.
func TestOneRequestTakesRTimesItsShare(t *testing.T) {
	const ranksets = 4
	for _, rotation := range []bool{true, false} {
		sets := []string{oneBatch, allAtOnce, fmt.Sprint("node.ranksets=", ranksets), fmt.Sprint("comm.rotation=", rotation)}
		one, alone := drive(t, sets, equal(1, 1000, 30), freeGPUAndTransfers, unseen)
		_, together := drive(t, sets, equal(ranksets, 1000, 30), freeGPUAndTransfers, unseen)
		if alone != together || alone == 0 {
			t.Errorf("rotation %t: one request takes %v, %d take %v", rotation, alone, ranksets, together)
		}
		share := one.Engine.(*l3).Flow.Work.Time[flow.OfPIM] / ranksets
		if alone != ranksets*share {
			t.Errorf("rotation %t: one request takes %v, %d times its share are %v", rotation, alone, ranksets, ranksets*share)
		}
	}
}

// TestSingleRequestIsTheSerialSum: with nothing to overlap, an iteration is its tasks one after
// another, with the devices' own costs. Vectors and results move at the rate of the links, or of
// the channels' bursts if these are slower.
func TestSingleRequestIsTheSerialSum(t *testing.T) {
	const input, output = 1000, 40
	for _, sets := range [][]string{
		{}, {oneBatch}, {"run.model=opt-66b"}, {"run.model=gpt-89b", "comm.rotation=false"},
		{"pcie.generation=6"}, {"run.model=llama-3-70b", "node.ranksets=2"}, {"pcie.latency=0ps", "pim.activation=simultaneous"},
	} {
		sets = append(sets, allAtOnce)
		node := rigOf(t, sets...)
		cfg := node.cfg
		g, m, s := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model), &cfg.Model, &cfg.DRAM.Spec
		ps := func(w gpu.Work) units.Duration { return units.FromSeconds(w.Seconds) } // this GPU stays below its power limit
		layers := units.Duration(m.Layers)
		ends := func(tokens int) units.Duration { // embedding, QKV of layer 0 and the LM head
			return ps(g.Embedding(tokens)) + ps(g.QKV(tokens)) + ps(g.LMHead(1))
		}
		links := units.Bandwidth(m.TensorParallel) * cfg.PCIe.Bandwidth()
		refreshed := func(clocks int64) units.Duration {
			return units.Duration((clocks*int64(s.TREFI)+int64(s.TREFI-s.TRFC)-1)/int64(s.TREFI-s.TRFC)) * s.TCK
		}
		bursts := func(n units.Bytes) units.Duration { // of n bytes over all channels, one after the other
			return refreshed(int64(n) / int64(cfg.ReplicaChannels()*s.BurstBytes()) * int64(s.BurstClocks()))
		}
		heads := int64(m.KVHeads / cfg.ReplicaChannels())
		i := 0
		drive(t, sets, equal(1, input, output), keep, func(_ *loop, d driven) {
			tokens, want := 1, units.Duration(0)
			if i == 0 {
				tokens = input
				want = layers * ps(g.PrefillAttention(input, 0))
			} else {
				context := input + i
				clocks := node.CommandTables.Kernels.Table.Alone(context) + (heads-1)*node.CommandTables.Kernels.Table.InSequence(context)
				qkv, out := m.QKVBytesPerTokenLayer(), m.AttentionBytesPerTokenLayer()
				want = layers * (cfg.PCIe.Latency + units.Duration(s.CWL)*s.TCK + max(links.TransferTime(qkv), bursts(qkv)) +
					refreshed(heads*int64(s.BurstClocks())) + // a descriptor of 64 bytes a head
					refreshed(clocks) +
					2*122*units.Nanosecond + // the host's accesses to start and to notice
					cfg.PCIe.Latency + units.Duration(s.CL)*s.TCK + max(links.TransferTime(out), bursts(out)))
			}
			want += ends(tokens) + layers*ps(g.ProjectionFFN(tokens)) + (layers-1)*ps(g.QKV(tokens))
			if d.took != want {
				t.Errorf("%v, iteration %d takes %v, its tasks in turn %v", sets, i, d.took, want)
			}
			i++
		})
		if i != output {
			t.Errorf("%v: %d iterations for %d tokens", sets, i, output)
		}
	}
}

// TestThroughputIsPIMBound: if only attention takes time, throughput is the bound of the PIM's peak
// bandwidth, times the share of it that the kernels reach, over the imbalance. With a single batch
// that holds to the clock; two sub-batches fill each other's gaps and can only be faster.
func TestThroughputIsPIMBound(t *testing.T) {
	for _, c := range []struct {
		batches  int
		ranksets int
		sets     []string
	}{
		{1, 4, nil}, {1, 3, []string{"comm.balance=random"}}, {1, 4, []string{"comm.rotation=false", "run.model=gpt-89b"}},
		{1, 16, []string{"comm.balance=round-robin"}},
		{2, 4, nil}, {2, 3, []string{"comm.balance=random"}}, {2, 4, []string{"comm.rotation=false", "run.model=gpt-89b"}},
		{2, 16, []string{"comm.balance=round-robin"}},
	} {
		sets := append([]string{fmt.Sprint("scheduler.sub_batches=", c.batches), fmt.Sprint("node.ranksets=", c.ranksets)}, c.sets...)
		var tokens, read int64 // tokens attended over
		var clocks float64     // of all heads on one channel
		r, took := drive(t, sets, uneven(40), freeGPUAndTransfers, func(r *loop, d driven) {
			for s := range d.batch.Sub {
				first := map[int32]bool{}
				for _, q := range d.batch.Sub[s].Decode {
					context := q.Context(d.batch.Step)
					tokens++
					read += int64(context)
					n := int64(r.Engine.(*l3).ranks.HeadsEach()) * r.Engine.(*l3).ranks.Table.InSequence(context)
					if !first[q.Offset] { // a rank's first head is hidden behind no other
						n += r.Engine.(*l3).ranks.Table.Alone(context) - r.Engine.(*l3).ranks.Table.InSequence(context)
						first[q.Offset] = true
					}
					clocks += float64(n)
				}
			}
		})
		e := r.Engine.(*l3)
		d := e.ranks
		peak := float64(read) * float64(d.HeadsEach()) * 4 // at a burst each tCCD_L: 2 a token for scores, 2 for context
		efficiency := peak / clocks * (1 - float64(r.hw.Config.DRAM.TRFC)/float64(r.hw.Config.DRAM.TREFI))
		if efficiency < 0.5 || efficiency >= 1 {
			t.Errorf("%v: kernels reach %v of the peak", sets, efficiency)
		}
		bound := float64(tokens) * float64(d.PIMPeak) / (float64(read) * float64(e.Model.KVBytesPerToken()))
		imbalance := r.Engine.(*l3).imbalance.Ratio(c.ranksets)
		got, want := float64(tokens)/took.Seconds(), bound*efficiency/imbalance
		t.Logf("%v: PIM bound %.1f tokens/s, efficiency %.3f, imbalance %.3f: %.1f, measured %.1f", sets, bound, efficiency, imbalance, want, got)
		// A group's clocks are rounded up, and with two sub-batches a transfer waits for the end of a
		// clock.
		const rounding = 1e-4
		if got < want*(1-rounding) || c.batches == 1 && got > want*(1+rounding) {
			t.Errorf("%v: %v tokens/s, want %v", sets, got, want)
		}
	}
}

// TestFreePIMReadsTheWeightsTwice: with free attention and few requests, the GPUs are always busy,
// and read all weights for each sub-batch.
func TestFreePIMReadsTheWeightsTwice(t *testing.T) {
	for _, model := range []string{"gpt-175b", "gpt-89b", "opt-66b"} {
		for _, onlyRead := range []bool{false, true} {
			sets := []string{"run.model=" + model, allAtOnce}
			if onlyRead {
				sets = append(sets, onlyReads...)
			}
			busy, iteration := units.Duration(0), 0
			drive(t, sets, equal(2, 100, 20), freePIM, func(r *loop, d driven) {
				work := r.Engine.(*l3).Flow.Work.Time[flow.OfGPU] - busy
				busy += work
				iteration++
				if iteration == 1 { // the prompts'
					return
				}
				twice := r.Engine.(*l3).GPU(&d.batch.Sub[0], d.batch.Step) + r.Engine.(*l3).GPU(&d.batch.Sub[1], d.batch.Step)
				if len(d.batch.Sub[0].Decode) != 1 || d.took != work || work != twice {
					t.Fatalf("%s: an iteration takes %v, the GPUs work for %v, operations of both sub-batches take %v", model, d.took, work, twice)
				}
				m := r.Engine.(*l3).Model
				weights := units.Bytes(m.Layers)*m.LayerWeightBytes() + units.Bytes(m.Vocab*m.Hidden*m.ElementBits/8)
				read := 2 * r.Engine.(*l3).HBMPeak.TransferTime(weights)
				if more := float64(d.took)/float64(read) - 1; more < 0 || onlyRead && more > 0.002 {
					t.Fatalf("%s: an iteration takes %v, reading all weights twice %v", model, d.took, read)
				}
			})
		}
	}
}

// onlyReads are GPUs that take time only for reading, at their peak bandwidth.
var onlyReads = []string{
	"gpu.peak_16bit=1000000PFLOP/s", "gpu.gemm.memory_efficiency=1.0", "gpu.gemm.ridge=0.0", "gpu.gemm.overhead=0ps",
	"gpu.gemm.step_latency_ns=0.0", "gpu.gemm.split_overhead_us=0.0", "gpu.gemm.split_traffic=0.0",
	"gpu.fused.overhead=0ps", "gpu.fused.row_element_latency=0ps", "gpu.fused.norm_memory_efficiency=1.0",
	"gpu.fused.activation_memory_efficiency=1.0", "gpu.fused.copy_memory_efficiency=1.0", "gpu.all_reduce.skew=0.0",
	"gpu.all_reduce.small_latency=0ps", "gpu.all_reduce.small_latency_per_gpu=0ps", "gpu.all_reduce.small_bandwidth=1000000TB/s",
	"gpu.all_reduce.second_shot_latency=0ps", "gpu.all_reduce.second_shot_latency_per_gpu=0ps", "gpu.all_reduce.second_shot_bandwidth=1000000TB/s",
}
