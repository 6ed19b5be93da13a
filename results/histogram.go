package results

import (
	"math/bits"

	"github.com/l3sim/l3sim/units"
)

// histogram counts samples in buckets whose width is at most 2^-10 of their values,
// as HdrHistogram does (Tene, hdrhistogram.org): a value is known by its highest bit
// and the ten below it, and exactly below 2048.
type histogram struct {
	counts      [2][]int64 // of values from 0 on, and of -1-v for negative ones v
	least, most int64
	sum         units.Total
}

const bucketBits = 10

// bucketOf returns the bucket of a value.
func bucketOf(v uint64) int {
	shift := max(bits.Len64(v)-bucketBits-1, 0)
	return shift<<bucketBits + int(v>>shift)
}

// bucketMiddle returns the value that stands for those of a bucket, half its width
// away from any at most.
func bucketMiddle(bucket int) uint64 {
	shift := max(bucket>>bucketBits-1, 0)
	return uint64(bucket-shift<<bucketBits)<<shift + (1<<shift-1)/2
}

// magnitude returns the side of a histogram that v is on, and its place there.
func magnitude(v int64) (side int, m uint64) {
	if v < 0 {
		return 1, uint64(-1 - v)
	}
	return 0, uint64(v)
}

func (h *histogram) add(value, count int64) {
	side, m := magnitude(value)
	h.at(side, bucketOf(m), count)
	h.least, h.most = min(h.least, value), max(h.most, value)
	h.sum.AddTimes(units.Duration(value), count)
}

// at counts samples in a bucket.
func (h *histogram) at(side, bucket int, count int64) {
	c := h.counts[side]
	if bucket >= len(c) {
		c = append(c, make([]int64, bucket+1-len(c))...)
		h.counts[side] = c
	}
	c[bucket] += count
}

func (h *histogram) addAll(other *histogram) {
	for side := range other.counts {
		for bucket, n := range other.counts[side] {
			if n > 0 {
				h.at(side, bucket, n)
			}
		}
	}
	h.least, h.most = min(h.least, other.least), max(h.most, other.most)
	h.sum.AddTotal(other.sum)
}

// ranked returns the middle of the bucket of the sample with a rank of 1 to count.
func (h *histogram) ranked(rank, count int64) int64 {
	if rank >= count {
		return h.most
	}
	clamp := func(v int64) int64 { return min(max(v, h.least), h.most) }
	for bucket := len(h.counts[1]) - 1; bucket >= 0; bucket-- {
		if rank -= h.counts[1][bucket]; rank <= 0 {
			return clamp(-1 - int64(bucketMiddle(bucket)))
		}
	}
	for bucket, n := range h.counts[0] {
		if rank -= n; rank <= 0 {
			return clamp(int64(bucketMiddle(bucket)))
		}
	}
	return h.most
}
