package gpu

import (
	"math"

	"github.com/l3sim/l3sim/units"
)

// attAcc is the model of AttAcc's published simulator (Park et al., ASPLOS 2024, https://github.com/scale-snu/attacc_simulator), on which
// the L3 paper builds (section 6.1). For products and attention it uses only the two efficiencies.
type attAcc struct{ *Spec }

// attAccTiles are the tile edges in AttAcc's simulator.
var attAccTiles = [...]int{8, 16, 32, 64, 128, 192, 256, 320, 384, 448, 512}

// Constants of AttAcc's tile model: an SM's shared memory, and the k depth of the operand slices in it.
const (
	attAccSharedMemory = 192 << 10 // bytes, A100's combined L1 and shared memory
	attAccDepth        = 32        // elements of k
)

// product uses tiles of tm × tn. Among those that fit shared memory, (tm+tn)·64 + 2·tm·tn ≤ 192 KiB for 16 bits, the simulator takes the
// one with the least traffic/u². u = tiles/(SMs·⌈tiles/SMs⌉) is the share of SMs in use over whole waves, and traffic = ⌈n/tn⌉·m·k +
// ⌈m/tm⌉·n·k + m·n elements. u then reduces both rates. Rows beyond 512 are padded to multiples of 32. The published code does not pad, and
// is up to 6% faster where m is not a multiple of 32. The tile minimises a score and not the time, so the time is not monotone in the
// sizes.
func (s attAcc) product(c Cost, m, n, k, elementBits int) Cost {
	rows := m
	if m > 512 {
		rows = ceilDiv(m, 32) * 32
	}
	fm, fn, fk := float64(rows), float64(n), float64(k)
	best, use := math.Inf(1), 1.0
	for _, tm := range attAccTiles {
		for _, tn := range attAccTiles {
			if ((tm+tn)*attAccDepth+tm*tn)*elementBits/8 > attAccSharedMemory {
				continue
			}
			across, down := float64(ceilDiv(n, tn)), float64(ceilDiv(rows, tm))
			tiles, sms := across*down, float64(s.SMs)
			u := tiles / (sms * math.Ceil(tiles/sms))
			if score := (float64(across*fm*fk) + float64(down*fn*fk) + float64(fm*fn)) / (u * u); score < best {
				best, use = score, u
			}
		}
	}
	padding := float64(elementBytes(float64(rows-m)*(fk+fn), elementBits))
	c.Executed = c.FLOPs
	c.Compute = 2 * fm * fn * fk / (s.MatMul.Compute * s.peak(elementBits) * use)
	c.Memory = (c.Bytes + padding) / (s.MatMul.Memory * float64(s.MemoryBandwidth) * use)
	return c.combine(0)
}

// block costs attention of one head and request, with rows queries over keys keys. Scores, softmax and context are three kernels, each a
// thread block on one SM with its share of both rates. All scores are computed, including the masked half, and go through memory. It
// returns the seconds of the kernels bound by each limit. A group of query heads reads its keys and values once, unlike in the simulator.
func (s attAcc) block(e *Efficiency, rows, keys float64, h Heads) (compute, memory float64) {
	sms, dim, scores := float64(s.SMs), float64(h.ends()/2), float64(rows*keys)
	rate, bandwidth := e.Compute*s.peak(h.ElementBits)/sms, e.Memory*float64(s.MemoryBandwidth)/sms
	kernel := func(times, flops, bytes float64) {
		if computes, moves := flops/rate, bytes/bandwidth; computes > moves {
			compute += float64(times * computes)
		} else {
			memory += float64(times * moves)
		}
	}
	// The score kernel reads q and K and writes scores; the context kernel reads scores and V and writes as much as q.
	ends, scored := float64(elementBytes(rows*dim, h.ElementBits)), float64(elementBytes(scores, h.ElementBits)) // compilers turn 2·x into x + x
	kernel(2, 2*dim*scores, ends+float64(keys*h.kvBytes()/2)/float64(h.group())+scored)
	kernel(1, 5*scores, 2*scored)
	return compute, memory
}

// waves sets the parts of c to the time of whole waves of equal thread blocks, given the times of one. heads × requests blocks share the
// SMs.
func (s attAcc) waves(c *Cost, requests int, h Heads, compute, memory float64) {
	waves := float64(ceilDiv(requests*h.Query, s.SMs))
	c.Compute, c.Memory = float64(waves*compute), float64(waves*memory)
	c.Overhead = 0
	c.Seconds = c.Compute + c.Memory
}

func (s attAcc) prefill(batch, chunk, finished int, h Heads) Cost {
	p := &s.attention().Prefill
	c := s.prefillWork(p, batch, chunk, finished, h)
	compute, memory := s.block(&p.Efficiency, float64(chunk), float64(finished+chunk), h)
	s.waves(&c, batch, h, compute, memory)
	return c
}

// wave is the last wave of thread blocks in a kernel that prefills several requests' prompts.
type wave struct {
	free    int     // SMs without a block
	longest float64 // seconds of its longest block
}

// prompt places a chunk's blocks, one for each head, next to those of other requests in the same kernel.
func (s attAcc) prompt(w wave, chunk, finished int, h Heads) (Cost, wave) {
	if chunk <= 0 {
		return Cost{}, w
	}
	p := &s.attention().Prefill
	c := s.prefillWork(p, 1, chunk, finished, h)
	compute, memory := s.block(&p.Efficiency, float64(chunk), float64(finished+chunk), h)
	seconds := compute + memory
	for left := h.Query; left > 0; {
		if w.free == 0 {
			w = wave{free: s.SMs}
		}
		if seconds > w.longest { // the wave waits for this block
			c.Seconds += seconds - w.longest
			w.longest = seconds
		}
		placed := min(left, w.free)
		left -= placed
		w.free -= placed
	}
	return c, w
}

// decode also accepts unequal requests, which the simulator does not have. They take the time of equal ones with their mean context, and at
// least the time of the longest one's block.
func (s attAcc) decode(b DecodeBatch, h Heads) Cost {
	e := &s.attention().Decode.Efficiency
	requests, tokens, longest := float64(b.Requests), float64(b.Tokens), float64(b.Longest)
	qBytes, kvBytes := h.decodeBytes(requests, tokens)
	c := Cost{FLOPs: h.pairFLOPs() * float64(h.Query) * tokens, Bytes: kvBytes + qBytes}
	compute, memory := s.block(e, 1, longest, h)
	c.Latency = compute + memory
	if mean := tokens / requests; mean != longest {
		compute, memory = s.block(e, 1, mean, h)
	}
	s.waves(&c, b.Requests, h, compute, memory)
	c.Seconds = max(c.Seconds, c.Latency)
	return c
}

func (s attAcc) decodeAhead(costs *[aheadSteps]Cost, b *DecodeBatch, h Heads) int {
	costs[0] = s.decode(*b, h)
	return 1
}

// shared runs separate waves of blocks for each group.
func (s attAcc) shared(groups []Shared, h Heads) (sum Cost) {
	query := h.Query
	for _, g := range groups {
		h.Query = g.Requests * query
		c := s.DecodeAttentionCost(UniformBatch(1, g.Tokens), h)
		c.Latency, c.Overhead = 0, 0
		sum = sum.then(c)
	}
	return sum
}

// attAccPass is the time of a kernel that passes over activations: a fixed part and a part for each byte, measured on a GPU with
// attAccBandwidth.
type attAccPass struct{ fixedUs, perByteUs float64 }

// Linear times of AttAcc's simulator. Activations reach 2.24 TB/s on a memory of 1.555 TB/s, since these tensors are in the L2.
var (
	attAccActivation = attAccPass{fixedUs: 8.29, perByteUs: 0.447e-6}
	attAccNorm       = attAccPass{fixedUs: 6.87, perByteUs: 1.6e-6}
)

// attAccBandwidth is the bandwidth of the GPU on which the times were measured.
const attAccBandwidth = 1555e9 // bytes/s, A100-40GB

// pass costs a pass over m rows of width d.
func (s attAcc) pass(law attAccPass, operands, m, d, elementBits int) Cost {
	if m <= 0 || d <= 0 {
		return Cost{}
	}
	c := Cost{Bytes: rowBytes(operands, m, d, elementBits), Overhead: law.fixedUs * 1e-6}
	c.Memory = law.perByteUs * 1e-6 * c.Bytes * attAccBandwidth / float64(s.MemoryBandwidth)
	return c.combine(0)
}

// norm also reads the residual stream.
func (s attAcc) norm(_ bool, m, d, elementBits int) Cost {
	return s.pass(attAccNorm, 3, m, d, elementBits)
}

func (s attAcc) activation(_ bool, operands, m, d, elementBits int) Cost {
	return s.pass(attAccActivation, operands, m, d, elementBits)
}

// lookUp is not a kernel of the simulator: it uses the fitted model.
func (s attAcc) lookUp(m, d, elementBits int) Cost { return s.Elementwise(2, m, d, elementBits) }

// copies are not in the simulator, and neither is choice.
func (attAcc) copies(int, float64) Cost { return Cost{} }

func (attAcc) choice(int, int, int) Cost { return Cost{} }

// allReduce takes T−1 steps of max(latency + slope · s, s/bandwidth), s = bytes/T. A ring takes 2(T−1).
func (s attAcc) allReduce(gpus int, n units.Bytes) Cost {
	a := &s.Collective
	steps, step := float64(gpus)-1, float64(n)/float64(gpus)
	c := Cost{Bytes: steps * step, Latency: steps * (a.Latency.Seconds() + float64(a.LatencySlope*1e-9*step))}
	c.Memory = c.Bytes / float64(a.Bandwidth)
	return c.combine(0)
}
