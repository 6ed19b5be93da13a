package results

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/l3sim/l3sim/units"
)

// exactValues is the number of distinct values that a Distribution keeps exactly. With more, it
// keeps counts in buckets at most 0.1% wide.
const exactValues = 1 << 20

// Distribution holds integer samples with their multiplicity: exactly up to exactValues distinct
// values (16 bytes each, for a time twice that), beyond that in a histogram of 450 KB. A run of
// 12.7 million gaps between tokens has about half a million distinct values. Count, Mean and Max
// are exact in both; a percentile of the histogram is within 0.05% of the sample of that rank.
//
// The zero value is empty. Results depend on the samples alone, not on their order or on how they
// were spread over distributions.
type Distribution struct {
	pairs  []pair
	sorted int // pairs[:sorted] are sorted and distinct
	count  int64
	coarse *histogram // replaces pairs once there are too many values
}

type pair struct{ value, count int64 } // a value and how often it occurred

// Add records value count times; a count of 0 or less records nothing.
func (d *Distribution) Add(value, count int64) {
	if count <= 0 {
		return
	}
	d.count += count
	if d.coarse != nil {
		d.coarse.add(value, count)
		return
	}
	if n := len(d.pairs); n > 0 && d.pairs[n-1].value == value {
		d.pairs[n-1].count += count
		return
	}
	if len(d.pairs) == cap(d.pairs) {
		d.makeRoom()
		if d.coarse != nil {
			d.coarse.add(value, count)
			return
		}
	}
	d.pairs = append(d.pairs, pair{value, count})
}

// makeRoom joins equal values once a good part of the pairs is unsorted, and grows the slice by a
// quarter if that freed less. Merging thus costs a few operations a pair, and memory stays within
// 1.5 times the distinct values.
func (d *Distribution) makeRoom() {
	const least = 512
	d.merge()
	if d.coarse == nil && cap(d.pairs)-len(d.pairs) < len(d.pairs)/8+least/2 {
		larger := make([]pair, len(d.pairs), len(d.pairs)+len(d.pairs)/4+least)
		copy(larger, d.pairs)
		d.pairs = larger
	}
}

// AddAll records all samples of other.
func (d *Distribution) AddAll(other *Distribution) {
	if other.coarse == nil {
		for _, p := range other.pairs {
			d.Add(p.value, p.count)
		}
		return
	}
	if d.coarse == nil {
		d.coarsen()
	}
	d.count += other.count
	d.coarse.addAll(other.coarse)
}

// merge sorts the pairs and joins those of equal value. If too many are left, it replaces them by a
// histogram.
func (d *Distribution) merge() {
	tail := slices.Clone(d.pairs[d.sorted:])
	if len(tail) == 0 {
		return
	}
	slices.SortFunc(tail, func(a, b pair) int { return cmp.Compare(a.value, b.value) })
	tail = join(tail)
	// From the largest on, into the space after the sorted ones.
	i, j := d.sorted-1, len(tail)-1
	k := d.sorted + len(tail)
	end := k
	for j >= 0 {
		k--
		switch {
		case i < 0 || d.pairs[i].value < tail[j].value:
			d.pairs[k] = tail[j]
			j--
		case d.pairs[i].value > tail[j].value:
			d.pairs[k] = d.pairs[i]
			i--
		default:
			d.pairs[k] = pair{tail[j].value, d.pairs[i].count + tail[j].count}
			i, j = i-1, j-1
		}
	}
	d.sorted = i + 1 + copy(d.pairs[i+1:], d.pairs[k:end])
	d.pairs = d.pairs[:d.sorted]
	if d.sorted > exactValues {
		d.coarsen()
	}
}

// join adds up the counts of successive equal values.
func join(pairs []pair) []pair {
	kept := 0
	for _, p := range pairs[1:] {
		if p.value == pairs[kept].value {
			pairs[kept].count += p.count
			continue
		}
		kept++
		pairs[kept] = p
	}
	return pairs[:kept+1]
}

// coarsen moves the samples to a histogram.
func (d *Distribution) coarsen() {
	d.coarse = &histogram{least: math.MaxInt64, most: math.MinInt64}
	for _, p := range d.pairs {
		d.coarse.add(p.value, p.count)
	}
	d.pairs, d.sorted = nil, 0
}

// Count returns the number of samples.
func (d *Distribution) Count() int64 { return d.count }

// Sum returns the sum of the samples.
func (d *Distribution) Sum() float64 {
	d.merge()
	if d.coarse != nil {
		return d.coarse.sum.Picoseconds()
	}
	sum := 0.0
	for _, p := range d.pairs {
		sum += float64(float64(p.value) * float64(p.count))
	}
	return sum
}

// Mean returns the mean, 0 without samples.
func (d *Distribution) Mean() float64 {
	if d.count == 0 {
		return 0
	}
	return d.Sum() / float64(d.count)
}

// Percentile returns the value of nearest rank: the smallest sample that at least percent (0 to
// 100) of the samples do not exceed. It is 0 without samples.
func (d *Distribution) Percentile(percent int) int64 {
	if d.count == 0 {
		return 0
	}
	d.merge()
	rank := max(d.count/100*int64(percent)+(d.count%100*int64(percent)+99)/100, 1)
	if d.coarse != nil {
		return d.coarse.ranked(rank, d.count)
	}
	for _, p := range d.pairs {
		if rank -= p.count; rank <= 0 {
			return p.value
		}
	}
	return d.pairs[len(d.pairs)-1].value
}

// Max returns the largest value, 0 without samples.
func (d *Distribution) Max() int64 { return d.Percentile(100) }

// Milliseconds summarises a distribution of picoseconds.
func (d *Distribution) Milliseconds() Latency {
	const ps = 1e9 // in a millisecond
	return Latency{
		Mean: d.Mean() / ps,
		P50:  float64(d.Percentile(50)) / ps,
		P90:  float64(d.Percentile(90)) / ps,
		P95:  float64(d.Percentile(95)) / ps,
		P99:  float64(d.Percentile(99)) / ps,
		Max:  float64(d.Max()) / ps,
	}
}

// histogram counts samples in buckets whose width is at most 2^-10 of their values, as HdrHistogram
// does (Tene, hdrhistogram.org): it keeps the highest bit of a value and the ten below, so values
// below 2048 are exact.
type histogram struct {
	counts      [2][]int64 // of values from 0 on, and of -1-v for negative v
	least, most int64
	sum         units.Total
}

const bucketBits = 10

func bucketOf(v uint64) int {
	shift := max(bits.Len64(v)-bucketBits-1, 0)
	return shift<<bucketBits + int(v>>shift)
}

// bucketMiddle returns the value that represents a bucket, at most half its width from any of its
// values.
func bucketMiddle(bucket int) uint64 {
	shift := max(bucket>>bucketBits-1, 0)
	return uint64(bucket-shift<<bucketBits)<<shift + (1<<shift-1)/2
}

// magnitude returns the side of a histogram for v, and its offset there.
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

func (h *histogram) at(side, bucket int, count int64) {
	c := h.counts[side]
	if bucket >= len(c) {
		c = append(c, make([]int64, bucket+1-len(c))...)
		h.counts[side] = c
	}
	c[bucket] += count
}

// addAll adds the counts of another histogram; all have the same buckets.
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
