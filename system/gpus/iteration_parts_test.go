package gpus

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
)

// TestIterationPartsByHand: how the time of an iteration of a chunk and two requests divides, on GPUs below their power limit. Joining the outputs of
// both kernels in a layer counts as part of its attention.
func TestIterationPartsByHand(t *testing.T) {
	steps := []policy.Step{
		{
			Attend: []policy.Class{{Heads: 6, Tokens: []int{100, 300}}, {Heads: 2, Tokens: []int{10, 20}}}, Merged: 2,
			Choose: []policy.Choice{{Heads: 8, Scored: []int{600, 700}, Ranked: []int{600, 700}, Keep: 40}}, Passes: []policy.Pass{{Kernels: 1, Bytes: 5e6, FLOPs: 2e6}},
		},
		{Attend: []policy.Class{{Heads: 8, Tokens: []int{1000, 2000}}}},
	}
	p := &scripted{prompts: []policy.Prompt{{Pieces: []policy.Piece{{Heads: 8, Count: 1, Tokens: 70, Behind: 90}}, Passes: []policy.Pass{{Kernels: 2, Bytes: 3e6}}}, {Pieces: []policy.Piece{{Heads: 4, Count: 2, Tokens: 30}}}}}
	for mask := range 4 {
		d := script(t, p, "gpu.preset=a100-sxm-80gb", "node.gpus=2", "model.tensor_parallel=2")
		c := d.ModelCost
		var layers [2][partCount]float64
		var decode []policy.Request
		var chunks []scheduler.Chunk
		a := [2]gpu.Attention{c.Attention(), c.Attention()}
		tokens, sampled := 0, 0
		if mask&1 != 0 {
			chunks, tokens, sampled = []scheduler.Chunk{{Tokens: 70, Finished: 90, Last: true}}, 70, 1
			layers[0][PartPrefillAttention], layers[1][PartPrefillAttention] = a[0].Prompts(1, 70, 90, 8).Seconds, a[1].Prompts(2, 30, 0, 4).Seconds
			layers[0][PartPasses] = c.Pass(2, 3e6, 0).Seconds
		}
		p.steps = make([]policy.Step, 2)
		if mask&2 != 0 {
			p.steps = steps
			decode, tokens, sampled = []policy.Request{{Prompt: 60, Context: 100}, {Prompt: 70, Context: 300}}, tokens+2, sampled+2
			layers[0][PartDecodeAttention] = a[0].Decoding(gpu.DecodeBatch{Requests: 2, Tokens: 400, Longest: 300, KVHeads: 6}).Plus(a[0].Decoding(gpu.DecodeBatch{Requests: 2, Tokens: 30, Longest: 20, KVHeads: 2})).Seconds
			layers[1][PartDecodeAttention] = a[1].Decoding(gpu.DecodeBatch{Requests: 2, Tokens: 3000, Longest: 2000, KVHeads: 8}).Seconds
			pages := gpu.DecodeBatch{Requests: 2, Tokens: 1300, Longest: 700, KVHeads: 8}
			s := gpu.Selection{PageScores: gpu.PageScores{Pages: pages, Lists: 1}, Ranked: pages}
			scores := c.Select(s).Seconds
			s.Keep = 40
			layers[0][PartScores], layers[0][PartChoice] = scores, c.Select(s).Seconds-scores
			layers[0][PartPasses] += c.Pass(1, 5e6, 2e6).Seconds
		}
		var want [partCount]float64
		whole := 0.0
		for run, n := range d.Attends.Runs {
			all := 0.0
			for _, seconds := range layers[run] {
				all += seconds
			}
			stretch := 1.0
			if mask == 3 {
				stretch += (a[run].Total(gpu.Work{Seconds: 1}, gpu.Work{Seconds: 1}, 72).Seconds - 2) / all
			}
			for part, seconds := range layers[run] {
				want[part] += float64(n) * stretch * seconds
			}
		}
		if mask&2 != 0 {
			want[PartMerge] = 20 * c.Merge(2).Seconds
		}
		if mask > 0 {
			entry, block, exit := c.TaskParts(tokens, sampled)
			for g := range entry {
				seconds := entry[g].Seconds + 31*block[g].Seconds + exit[g].Seconds
				switch gpu.Group(g) {
				case gpu.Embedding, gpu.SmallKernels:
					want[PartSmall] += seconds
				case gpu.AllReduce:
					want[PartAllReduce] += seconds
				default:
					want[PartProducts] += seconds
				}
			}
		}
		iterations := GPUIterations{d}
		x := iterations.Parts(decode, chunks...)
		for part, seconds := range want {
			whole += seconds
			if got := x[part].Seconds(); math.Abs(got-seconds) > 1e-9 {
				t.Errorf("%02b, %v: %v s, by hand %v s", mask, IterationPart(part), got, seconds)
			}
		}
		if got := x.Total().Seconds(); math.Abs(got-whole) > 1e-9 || mask > 0 && x.Total() != d.Whole(&iterations.side.Staged) {
			t.Errorf("%02b: %v s in all, by hand %v s", mask, got, whole)
		}
	}
}
