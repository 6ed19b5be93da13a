package gpu

import "math"

// attAccTiles are the tile edges that AttAcc's simulator tries.
var attAccTiles = [...]int{8, 16, 32, 64, 128, 192, 256, 320, 384, 448, 512}

// Constants of AttAcc's tile model: an SM's shared memory, and the k depth of
// the operand slices that it holds.
const (
	attAccSharedMemory = 192 << 10 // bytes, A100's L1 and shared memory
	attAccDepth        = 32        // elements of k
)

// attAccLaw is the time of a kernel that passes over activations: a fixed part,
// and one for each byte, measured on a GPU of attAccBandwidth.
type attAccLaw struct {
	operands         int // read and written, where each kernel has the same
	fixed, perByteUs float64
}

// The laws of AttAcc's simulator. Its norms read the residual stream as well.
// An activation reaches 2.24 TB/s of a bandwidth of 1.555 TB/s: those tensors
// lie in the L2.
var (
	attAccActivation = attAccLaw{fixed: 8.29, perByteUs: 0.447e-6}
	attAccNorm       = attAccLaw{fixed: 6.87, perByteUs: 1.6e-6, operands: 3}
)

// attAccBandwidth is the bandwidth of the GPU that the laws were measured on.
const attAccBandwidth = 1555e9 // bytes/s, A100-40GB

// attAccPass costs a pass over m rows of width d.
func (s *Spec) attAccPass(law attAccLaw, m, d, elementBits int) Cost {
	if m <= 0 || d <= 0 {
		return Cost{}
	}
	c := Cost{Bytes: elementBytes(float64(law.operands)*float64(m)*float64(d), elementBits), Overhead: law.fixed * 1e-6}
	c.Memory = law.perByteUs * 1e-6 * c.Bytes * attAccBandwidth / float64(s.MemoryBandwidth)
	return c.combine(0)
}

// attAccBlock costs attention of one head and request, rows queries over keys
// keys: scores, softmax and context are three kernels of a thread block on one
// SM, which has its share of both rates. All scores are computed, the causal
// mask's half too, and go through memory. It returns the seconds of the kernels that each
// limit binds. A group of query heads reads its keys and values once, which the simulator
// does not have.
func (s *Spec) attAccBlock(e *Efficiency, rows, keys float64, h Heads) (compute, memory float64) {
	sms, dim, scores := float64(s.SMs), float64(h.Dim), float64(rows*keys)
	rate, bandwidth := e.Compute*s.peak(h.ElementBits)/sms, e.Memory*float64(s.MemoryBandwidth)/sms
	kernel := func(times, flops, bytes float64) {
		if computes, moves := flops/rate, bytes/bandwidth; computes > moves {
			compute += float64(times * computes)
		} else {
			memory += float64(times * moves)
		}
	}
	// Scores read q and K and write scores; context reads scores and V and writes
	// as much as q.
	ends, scored := float64(elementBytes(rows*dim, h.ElementBits)), float64(elementBytes(scores, h.ElementBits)) // 2·x is x + x to compilers
	kernel(2, 2*dim*scores, ends+float64(keys*h.kvBytes()/2)/float64(h.group())+scored)
	kernel(1, 5*scores, 2*scored)
	return compute, memory
}

// attAccWaves sets the parts of c to those of whole waves of equal thread
// blocks, with the times of one: heads × requests of them share the SMs.
func (c *Cost) attAccWaves(waves int, compute, memory float64) {
	c.Compute, c.Memory = float64(float64(waves)*compute), float64(float64(waves)*memory)
	c.Overhead = 0
	c.Seconds = c.Compute + c.Memory
}

// attAccGEMM costs a product as the simulator of AttAcc (Park et al., ASPLOS
// 2024, https://github.com/scale-snu/attacc_simulator) does, on which the L3
// paper builds (section 6.1). Of the tiles tm × tn that fit shared memory,
// (tm+tn)·64 + 2·tm·tn ≤ 192 KiB for 16 bits, it takes the one with the least traffic/u²:
// u = tiles/(SMs·⌈tiles/SMs⌉) is the share of SMs in use over whole waves,
// traffic = ⌈n/tn⌉·m·k + ⌈m/tm⌉·n·k + m·n elements. Then u derates both rates.
// Rows beyond 512 are padded to 32, which the published code does not do: it is up
// to 6% faster there where m is no multiple of 32. The tile minimises a score and
// not the time, so time is not monotone in the sizes.
func (s *Spec) attAccGEMM(base Cost, m, n, k, elementBits int) Cost {
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
	c := base
	c.Compute = 2 * fm * fn * fk / (s.MatMul.Compute * s.peak(elementBits) * use)
	padding := float64(elementBytes(float64(rows-m)*(fk+fn), elementBits))
	c.Memory = (base.Bytes + padding) / (s.MatMul.Memory * float64(s.MemoryBandwidth) * use)
	return c.combine(0)
}
