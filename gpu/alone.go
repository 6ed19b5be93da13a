package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// AloneSpec is what measuring a kernel alone adds to what it takes in a graph.
type AloneSpec struct {
	// Overhead is the time of the events around it and of its launch on an idle GPU.
	Overhead units.Duration `toml:"overhead"`
	// L2 is the size of the cache (data sheet). A write clears it before each measurement; what a
	// kernel reads displaces the lines of that write, and FlushShare of these go to memory first.
	// Prompts' kernels that decode, too (joins_decode), read again in runs what it does not keep.
	L2         units.Bytes `toml:"l2"`
	FlushShare float64     `toml:"flush_share"`
	// SmallOverhead and SmallFlushShare are those of kernels of a few lines, as page-sparse
	// ones are: they begin at once, and nothing of theirs overlaps with writing back.
	SmallOverhead   units.Duration `toml:"small_overhead"`
	SmallFlushShare float64        `toml:"small_flush_share"`
}

// Check has the rules of the section [gpu.alone].
func (a *AloneSpec) Check(c *input.Check) {
	duration(c, "overhead", a.Overhead)
	duration(c, "small_overhead", a.SmallOverhead)
	input.Within(c, "l2", a.L2, 1, units.TiB)
	c.That(a.FlushShare >= 0 && a.FlushShare <= 1, "flush_share", a.FlushShare, "0 to 1")
	c.That(a.SmallFlushShare >= 0 && a.SmallFlushShare <= 1, "small_flush_share", a.SmallFlushShare, "0 to 1")
}

// MeasuredAlone returns the cost of a kernel as measuring it alone shows it.
func (s *Spec) MeasuredAlone(c Cost) Cost {
	return s.measuredAlone(c, s.Alone.Overhead, s.Alone.FlushShare)
}

// SmallAlone is MeasuredAlone of a kernel of a few lines.
func (s *Spec) SmallAlone(c Cost) Cost {
	return s.measuredAlone(c, s.Alone.SmallOverhead, s.Alone.SmallFlushShare)
}

// measuredAlone returns what a benchmark of this kernel alone reads: with the launch between events, and with the
// lines that the flush of the L2 cache left to write back.
func (s *Spec) measuredAlone(c Cost, overhead units.Duration, share float64) Cost {
	if c.Seconds == 0 {
		return c
	}
	alone := c
	alone.Overhead += overhead.Seconds()
	if c.Bytes > 0 {
		alone.Memory += float64(share * (c.Memory / c.Bytes) * min(c.Bytes, float64(s.Alone.L2)))
	}
	alone = alone.combine(c.ridge)
	alone.Seconds += c.Seconds - c.combine(c.ridge).Seconds // AttAcc's costs have sums of their own
	return alone
}
