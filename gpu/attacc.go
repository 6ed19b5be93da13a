package gpu

import "math"

// attAccTiles are the tile edges that AttAcc's simulator tries.
var attAccTiles = [...]int{8, 16, 32, 64, 128, 192, 256, 320, 384, 448, 512}

// Constants of AttAcc's tile model: an SM's shared memory, and the k depth of
// the operand slices that it holds.
const (
	attAccSharedMemory = 192 << 10 // bytes, A100's L1 and shared memory
	attAccDepth        = 64        // bytes of k a row: 32 elements of 16 bits
)

// attAccGEMM costs a product as the simulator of AttAcc (Park et al., ASPLOS
// 2024, https://github.com/scale-snu/attacc_simulator) does, on which the L3
// paper builds (section 6.1). Of the tiles tm × tn that fit shared memory,
// (tm+tn)·64 + 2·tm·tn ≤ 192 KiB, it takes the one with the least traffic/u²:
// u = tiles/(SMs·⌈tiles/SMs⌉) is the share of SMs in use over whole waves,
// traffic = ⌈n/tn⌉·m·k + ⌈m/tm⌉·n·k + m·n elements. Then u derates both rates.
// The tile minimises a score and not the time, so time is not monotone in the
// sizes.
func (s *Spec) attAccGEMM(base Cost, m, n, k, elementBits int) Cost {
	rows := m
	if m > 512 {
		rows = ceilDiv(m, 32) * 32
	}
	fm, fn, fk := float64(rows), float64(n), float64(k)
	best, use := math.Inf(1), 1.0
	for _, tm := range attAccTiles {
		for _, tn := range attAccTiles {
			if (tm+tn)*attAccDepth+2*tm*tn > attAccSharedMemory {
				continue
			}
			across, down := float64(ceilDiv(n, tn)), float64(ceilDiv(rows, tm))
			tiles, sms := across*down, float64(s.SMs)
			u := tiles / (sms * math.Ceil(tiles/sms))
			if score := (across*fm*fk + down*fn*fk + fm*fn) / (u * u); score < best {
				best, use = score, u
			}
		}
	}
	c := base
	c.Compute = 2 * fm * fn * fk / (s.MatMul.Compute * s.peak(elementBits) * use)
	c.Memory = elementBytes(fm*fk+fn*fk+fm*fn, elementBits) / (s.MatMul.Memory * float64(s.MemoryBandwidth) * use)
	return c.combine(0)
}
