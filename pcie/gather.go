package pcie

import (
	"math"

	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// Gather describes how a GPU kernel reads scattered rows from pinned host memory, one warp for each row. MeasuredGather has
// measured values.
type Gather struct {
	Start units.Duration // time of a fetch beyond its reads: launch and latency of the first read
	Share float64        // share of the rate of large copies (Spec.Bandwidth) that the reads of a kernel reach
	Line  units.Bytes    // a read touches whole lines of this size
	// Round is the time of one read of a warp (WarpRead) on an idle link. A warp waits for each read before it issues the next,
	// so few blocks have few bytes in flight.
	Round units.Duration
	// Reach is the amount of host memory whose address translations the GPU caches. If rows lie in a larger region, the share of
	// it beyond Reach misses, and Walk is the time between two translations.
	Reach units.Bytes
	Walk  units.Duration
	// Fill is the time to translate one page (TranslatedPage) again at the start of a fetch, after other kernels have evicted the
	// translations.
	Fill units.Duration
	// LookUp is the time to find the rows that miss, in a kernel before the fetch.
	LookUp units.Duration

	// Wait is the share of a kernel's time in which its blocks leave no room for blocks of a fetch. A fetch that begins later
	// runs where blocks have ended.
	Wait float64
	// ProductWarps is the number of a fetch's warps that doubles the time of a matrix product running beside it.
	ProductWarps float64
	// RoomWarps is the number of a fetch's warps that keeps the kernels of an iteration off one multiprocessor.
	RoomWarps float64
}

// Constants of the hardware that Gather describes.
const (
	WarpRead       = units.Bytes(512) // 32 lanes of 16 bytes
	TranslatedPage = 2 * units.MiB
	warpThreads    = 32
	readsTogether  = 4
)

// Grid is the thread blocks of a kernel.
type Grid struct{ Blocks, Threads int }

// Warps returns the warps of all blocks.
func (g Grid) Warps() float64 { return float64(g.Blocks) * math.Ceil(float64(g.Threads)/warpThreads) }

// Rows is one fetch.
type Rows struct {
	Count  int64
	Bytes  units.Bytes // of a row
	Region units.Bytes // in which the rows lie anywhere
	Cold   bool        // other kernels have run since the last fetch
	Grid
}

// Moved returns the bytes that the link carries for a row: whole lines.
func (g *Gather) Moved(row units.Bytes) units.Bytes { return (row + g.Line - 1) / g.Line * g.Line }

// Time returns how long a fetch takes by itself. link is the bandwidth of large copies, and translation scales the measured cost
// of address translation: 1 for 4 KiB pages in a virtual machine, 0 for none. No rows take no time.
func (g *Gather) Time(r *Rows, link units.Bandwidth, translation float64) units.Duration {
	if r.Count <= 0 || r.Bytes <= 0 {
		return 0
	}
	return g.Reads(r, link, translation) + g.Start + units.FromSeconds(g.filling(r, translation))
}

// reading returns the seconds in which rows arrive, once all warps read.
func (g *Gather) reading(r *Rows, link units.Bandwidth, translation float64) float64 {
	rows := float64(r.Count)
	bytes := rows * float64(g.Moved(r.Bytes)) / (float64(link) * g.Share)
	flight := rows / min(r.Warps(), rows) * float64(rounds(r.Bytes)) * g.Round.Seconds()
	missed := max(0, 1-float64(g.Reach)/float64(max(r.Region, 1)))
	walks := rows * missed * g.Walk.Seconds() * translation
	return norm(max(bytes, flight), walks)
}

// norm returns the 4-norm of two limits: where they are similar, neither fully hides behind the other.
func norm(a, b float64) float64 {
	longest := max(a, b)
	x, y := a/longest, b/longest
	x, y = x*x, y*y
	return longest * math.Sqrt(math.Sqrt(float64(x*x)+float64(y*y)))
}

// rounds returns how often a warp waits for its reads of a row. The compiler unrolls the loop over the row to four reads at a
// time, and does the rest one by one.
func rounds(row units.Bytes) units.Bytes {
	reads := (row + WarpRead - 1) / WarpRead
	return reads/readsTogether + reads%readsTogether
}

// filling returns the seconds to translate the page of each warp's first row again.
func (g *Gather) filling(r *Rows, translation float64) float64 {
	if !r.Cold {
		return 0
	}
	pages := float64(r.Region) / float64(TranslatedPage)
	first := min(float64(r.Count), r.Warps())
	touched := pages * (1 - portable.Exp(-first/pages))
	return touched * g.Fill.Seconds() * translation
}

// BesideKernel returns how long each of many successive fetches takes beside a stream of kernels of the given length, and the
// share of that time by which it slows the kernels. A fetch waits for the kernels' blocks to end, and slows nothing where it fits
// into the rest of a kernel's time.
func (g *Gather) BesideKernel(alone, kernel units.Duration) (took units.Duration, share float64) {
	f, k := alone.Seconds(), kernel.Seconds()
	rest := k - float64(g.Wait*k)
	t := min(f/(1-g.Wait), f+float64(g.Wait*k))
	return units.FromSeconds(t), max(0, f-rest) / t
}

// ProductSlowed returns the factor on the time of a matrix product when a fetch of these blocks runs for a share of its time.
func (g *Gather) ProductSlowed(x Grid, share float64) float64 {
	return 1 + float64(share*x.Warps()/g.ProductWarps)
}

// Taken returns the share of a GPU's multiprocessors (sms) that a fetch of these blocks keeps from the kernels of an iteration.
func (g *Gather) Taken(x Grid, sms int) float64 {
	return min(1, x.Warps()/(g.RoomWarps*float64(max(sms, 1))))
}

// Stretch returns how much longer the other kernels of an iteration run beside a fetch. They take the time kernels by themselves,
// and lose the share taken of the GPU during reads.
func (g *Gather) Stretch(reads, kernels units.Duration, taken float64) units.Duration {
	if taken < 1 {
		reads = min(reads, units.FromSeconds(kernels.Seconds()/(1-taken)))
	}
	return units.FromSeconds(taken * reads.Seconds())
}

// Reads returns the part of a fetch in which rows arrive. It excludes the start, in which other kernels continue.
func (g *Gather) Reads(r *Rows, link units.Bandwidth, translation float64) units.Duration {
	if r.Count <= 0 || r.Bytes <= 0 {
		return 0
	}
	return units.FromSeconds(g.reading(r, link, translation))
}

// MeasuredGather returns the parameters of an H200 behind 16 lanes of PCIe 5, in a virtual machine with 4 KiB pages (lab/hostkv
// fits them; lab/docs/model-gpu.md has the errors). Fetches of several GPUs at once were not measured.
func MeasuredGather() Gather {
	return Gather{
		Start: 5340 * units.Nanosecond, Share: 0.909, Line: 64, Round: 1950 * units.Nanosecond,
		Reach: 3906 * units.MiB, Walk: 36300 * units.Picosecond, Fill: 27300 * units.Picosecond, LookUp: 6600 * units.Nanosecond,
		Wait: 0.67, ProductWarps: 1200, RoomWarps: 16.8,
	}
}
