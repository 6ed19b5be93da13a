package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// AloneSpec is the difference between a kernel measured alone and the same kernel in a graph.
type AloneSpec struct {
	// Overhead is the time of the surrounding events and of the launch on an idle GPU.
	Overhead units.Duration `toml:"overhead"`
	// L2 is the size of the cache (data sheet). A write clears it before each measurement. The kernel's reads evict the lines of that
	// write, and FlushShare of these are written to memory first. Prompt kernels that also decode (joins_decode) read again, in runs, what
	// the cache does not keep.
	L2         units.Bytes `toml:"l2"`
	FlushShare float64     `toml:"flush_share"`
	// SmallOverhead and SmallFlushShare are those of simple kernels, such as page-sparse ones: they start at once, and none of their work
	// overlaps with the write-back.
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

// MeasuredAlone returns the cost of a kernel when measured alone.
func (s *Spec) MeasuredAlone(c Cost) Cost {
	return s.measuredAlone(c, s.Alone.Overhead, s.Alone.FlushShare)
}

// SmallAlone is MeasuredAlone for a simple kernel.
func (s *Spec) SmallAlone(c Cost) Cost {
	return s.measuredAlone(c, s.Alone.SmallOverhead, s.Alone.SmallFlushShare)
}

// measuredAlone returns the cost in a benchmark of this kernel alone: it includes the launch between events, and the write-back of lines
// that the flush of the L2 cache left.
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
	alone.Seconds += c.Seconds - c.combine(c.ridge).Seconds // AttAcc's costs have their own sums
	return alone
}
