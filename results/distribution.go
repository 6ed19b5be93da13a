package results

import (
	"cmp"
	"slices"
)

// Distribution holds integer samples with their multiplicity, exactly. A run
// of 12.7 million gaps between tokens has about half a million distinct
// (value, count) pairs, 16 bytes each.
//
// The zero value is empty. What the methods return depends on the samples
// alone, not on their order.
type Distribution struct {
	pairs  []pair
	sorted int // pairs[:sorted] are sorted and distinct
	count  int64
}

// pair is a value and how often it occurred.
type pair struct{ value, count int64 }

// Add records value count times; a count of 0 or less records nothing.
func (d *Distribution) Add(value, count int64) {
	if count <= 0 {
		return
	}
	d.count += count
	if n := len(d.pairs); n > 0 && d.pairs[n-1].value == value {
		d.pairs[n-1].count += count
		return
	}
	// Merging when the slice is full keeps it within twice the distinct values.
	if len(d.pairs) == cap(d.pairs) && len(d.pairs) >= 2*d.sorted {
		d.merge()
	}
	d.pairs = append(d.pairs, pair{value, count})
}

// AddAll records all samples of other.
func (d *Distribution) AddAll(other *Distribution) {
	for _, p := range other.pairs {
		d.Add(p.value, p.count)
	}
}

// merge sorts the pairs and joins those of one value.
func (d *Distribution) merge() {
	if d.sorted == len(d.pairs) {
		return
	}
	sortPairs(d.pairs)
	kept := 0
	for _, p := range d.pairs[1:] {
		if p.value == d.pairs[kept].value {
			d.pairs[kept].count += p.count
			continue
		}
		kept++
		d.pairs[kept] = p
	}
	d.pairs = d.pairs[:kept+1]
	d.sorted = len(d.pairs)
}

// sortPairs sorts by value. Large slices are sorted by radix (least significant
// digit first), which for a run's half million pairs is several times faster
// than comparing them; digits in which no two values differ are passed over.
func sortPairs(pairs []pair) {
	const digitBits, few = 11, 512
	if len(pairs) < few {
		slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.value, b.value) })
		return
	}
	const signBit = 1 << 63 // flipped, so that negative values sort first
	differ := uint64(0)
	for _, p := range pairs {
		differ |= uint64(p.value) ^ uint64(pairs[0].value)
	}
	from, to := pairs, make([]pair, len(pairs))
	for shift := 0; shift < 64; shift += digitBits {
		if differ>>shift&(1<<digitBits-1) == 0 {
			continue
		}
		var next [1 << digitBits]int // where the next value with each digit goes
		for _, p := range from {
			next[(uint64(p.value)^signBit)>>shift&(1<<digitBits-1)]++
		}
		at := 0
		for digit, n := range next {
			next[digit] = at
			at += n
		}
		for _, p := range from {
			digit := (uint64(p.value) ^ signBit) >> shift & (1<<digitBits - 1)
			to[next[digit]] = p
			next[digit]++
		}
		from, to = to, from
	}
	if &from[0] != &pairs[0] {
		copy(pairs, from)
	}
}

// Count returns the number of samples.
func (d *Distribution) Count() int64 { return d.count }

// Mean returns the mean, 0 where there is no sample.
func (d *Distribution) Mean() float64 {
	if d.count == 0 {
		return 0
	}
	d.merge()
	sum := 0.0
	for _, p := range d.pairs {
		sum += float64(float64(p.value) * float64(p.count))
	}
	return sum / float64(d.count)
}

// Percentile returns the value of nearest rank: the smallest of which at least
// percent (0 to 100) of the samples are not above it; 0 where there is no
// sample.
func (d *Distribution) Percentile(percent int) int64 {
	if d.count == 0 {
		return 0
	}
	d.merge()
	rank := max(d.count/100*int64(percent)+(d.count%100*int64(percent)+99)/100, 1)
	for _, p := range d.pairs {
		if rank -= p.count; rank <= 0 {
			return p.value
		}
	}
	return d.pairs[len(d.pairs)-1].value
}

// Max returns the largest value, 0 where there is no sample.
func (d *Distribution) Max() int64 { return d.Percentile(100) }

// Milliseconds summarises a distribution of picoseconds.
func (d *Distribution) Milliseconds() Latency {
	const ps = 1e9 // in a millisecond
	return Latency{
		Mean: d.Mean() / ps,
		P50:  float64(d.Percentile(50)) / ps,
		P90:  float64(d.Percentile(90)) / ps,
		P99:  float64(d.Percentile(99)) / ps,
		Max:  float64(d.Max()) / ps,
	}
}
