package kinds

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// parts are the times of one sub-batch in a layer.
type parts struct{ entry, fetch, attention, block, exit units.Duration }

// lockstep runs two sub-batches of so many layers on a GPU and a link, each serving operations in the order in which they become
// ready.
func lockstep(layers int, p [2]parts) (end units.Duration) {
	var gpu, link units.Duration
	var ready [2]units.Duration // for the GPU
	var layer, step [2]int      // 0: entry, 1: attention, 2: block
	for layer[0] < layers || layer[1] < layers {
		s := 0
		if layer[0] == layers || layer[1] < layers && ready[1] < ready[0] {
			s = 1
		}
		took := [3]units.Duration{p[s].entry, p[s].attention, p[s].block}[step[s]]
		if step[s] == 2 && layer[s] == layers-1 {
			took = p[s].exit
		}
		gpu = max(gpu, ready[s]) + took
		ready[s] = gpu
		if step[s] == 2 {
			layer[s]++
		}
		if step[s] != 1 { // the fetch of the next layer
			step[s] = 0
			if layer[s] < layers && p[s].fetch > 0 {
				link = max(link, gpu) + p[s].fetch
				ready[s] = link
			}
		}
		step[s]++
		end = max(end, gpu)
	}
	return end
}

// TestSparseTwoInLockstep: sub-batches of different sizes, each slowed by the other's fetches, take the time that lockstep gives for their
// operations; short fetches are hidden, long ones bind. A sub-batch without fetches, because its rows fit the buffer or it only has a prompt, waits
// for no join, but the other's fetches still slow it.
func TestSparseTwoInLockstep(t *testing.T) {
	prompt := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 3000, Last: true}}}
	for which, subs := range [][]scheduler.SubBatch{
		{steps(10000, 30000, 5000, 9000), steps(20000)}, {prompt, steps(10000, 30000)}, {steps(10000, 30000), prompt}, {steps(4000, 3000), steps(20000)}, {steps(20000), steps(4000)},
	} {
		for _, hits := range []string{"1", "0.9", "0"} {
			for _, lanes := range []string{"1", "16"} {
				_, e := sparseOf(t, "sparse_offload.schedule=two", "pcie.join=3us", "sparse_offload.hit_rate="+hits, "pcie.lanes="+lanes)
				var p [2]parts
				var chooses, kernels, slower [2]units.Duration
				for s := range subs {
					e.decode(&subs[s], s, 0)
					copy(e.Decoding, e.decodes[s])
					g := e.StageRuns(&subs[s])
					l := g.Layers[0]
					chooses[s], kernels[s] = l.Chooses, g.Block+l.Attention+l.Chooses
					p[s] = parts{g.Entry + l.Chooses, e.fetch[s][0].took, l.Attention, g.Block, g.Exit}
				}
				for s := range p {
					slower[s] = e.gather.Stretch(e.fetch[1-s][0].reads, kernels[s], e.taken)
					if p[s].fetch > 0 {
						slower[s] += 3 * units.Microsecond
					}
					p[s].block += chooses[s] + slower[s]
					p[s].exit += slower[s]
				}
				if got, want := e.runs(t, subs...), lockstep(6, p); got != want {
					t.Errorf("pair %d, hits %s, %s lanes: %v, by account %v", which, hits, lanes, got, want)
				}
				if next, want := e.Staged.Layers[0].Next, p[1].block-e.Staged.Block; next != want { // of the second one, during the first one's fetch
					t.Errorf("pair %d, hits %s, %s lanes: a block is longer by %v, by hand %v", which, hits, lanes, next, want)
				}
				if one := p[0].fetch == 0 || p[1].fetch == 0; one != (which > 0) || hits == "0" && slower[0]+slower[1] == 0 {
					t.Errorf("pair %d, hits %s: fetches of %v and %v, slower by %v", which, hits, p[0].fetch, p[1].fetch, slower)
				}
			}
		}
	}
}

// TestSparseNewRows: rows of prompts and of steps go down once for each copy, in the background. The iteration takes at
// least as long.
func TestSparseNewRows(t *testing.T) {
	for name, n := range map[string]units.Bytes{PerRank: 2, PerNode: 1} {
		e := rigOf(t, slices.Concat(indexedModel, []string{"run.system=sparse-offload", "node.gpus=2", "model.tensor_parallel=2", "sparse_offload.host_copies=" + name, "pcie.efficiency=0.002", "model.layer_pattern=GIS"})...).replica(nil).Engine.(*sparseOffload)
		sub := steps(10000)
		sub.Prefill = []scheduler.Chunk{{Tokens: 3000, Last: true}}
		end := e.runs(t, sub)
		down := flow.TransferTime(e.gpuLink, n*4*3001*144) // of the layers that choose
		if got := e.Flow.Work.Time[flow.OfDown]; got != down || e.gpuLink != 2*e.link || e.Peak() != e.HBMPeak {
			t.Errorf("%s: rows go down for %v, by hand %v", name, got, down)
		}
		if name == PerRank && end != down {
			t.Errorf("an iteration of %v, its rows take %v", end, down)
		}
		if c := e.Attends.Counted.Tokens; !slices.Equal(c, []int64{10000, 500, 500, 0, 0, 0}) {
			t.Errorf("%d tokens attended to, those of runs that repeat another one not again", c)
		}
	}
}
