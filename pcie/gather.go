package pcie

import (
	"math"

	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// Gather is how a kernel of a GPU reads scattered rows out of pinned host memory, a warp a row. MeasuredGather has the numbers.
type Gather struct {
	Start units.Duration // of a fetch beyond its reads: launch, and the way of the first read
	Share float64        // of the rate of large copies (Spec.Bandwidth) that the reads of a kernel reach
	Line  units.Bytes    // the memory that a read touches is whole lines of so many bytes
	// Round is the time of one read of a warp (WarpRead) on an idle link. A warp waits for one before it begins the next, so that few
	// blocks have few bytes in flight.
	Round units.Duration
	// Reach is the host memory whose addresses the GPU keeps translated. Rows of a larger region miss as often as they lie beyond it, and
	// Walk is the time between two translations then.
	Reach units.Bytes
	Walk  units.Duration
	// Fill is the time of a page (TranslatedPage) that the first rows of a fetch have translated anew, where other kernels have displaced it.
	Fill units.Duration
	// LookUp is what finding the rows that miss takes, in a kernel before the fetch.
	LookUp units.Duration

	// Wait is the share of a kernel's time for which its blocks leave no room for those of a fetch. What begins later runs in the room of
	// blocks that have ended.
	Wait float64
	// ProductWarps is how many warps of a fetch make a product beside it take twice as long.
	ProductWarps float64
	// RoomWarps is how many warps of a fetch on a multiprocessor keep the kernels of an iteration off it.
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
	Cold   bool        // other kernels have run since the fetch before
	Grid
}

// Moved returns the bytes that the link carries of a row: whole lines.
func (g *Gather) Moved(row units.Bytes) units.Bytes { return (row + g.Line - 1) / g.Line * g.Line }

// Time returns how long a fetch takes by itself, with a link of that bandwidth for large copies. translation is the share of the measured
// cost of translation: 1 for pages of 4 KiB in a virtual machine, 0 for none. No rows take no time.
func (g *Gather) Time(r *Rows, link units.Bandwidth, translation float64) units.Duration {
	if r.Count <= 0 || r.Bytes <= 0 {
		return 0
	}
	return g.Reads(r, link, translation) + g.Start + units.FromSeconds(g.filling(r, translation))
}

// reading returns the seconds in which the rows come, once all warps read.
func (g *Gather) reading(r *Rows, link units.Bandwidth, translation float64) float64 {
	rows := float64(r.Count)
	bytes := rows * float64(g.Moved(r.Bytes)) / (float64(link) * g.Share)
	flight := rows / min(r.Warps(), rows) * float64(rounds(r.Bytes)) * g.Round.Seconds()
	missed := max(0, 1-float64(g.Reach)/float64(max(r.Region, 1)))
	walks := rows * missed * g.Walk.Seconds() * translation
	return norm(max(bytes, flight), walks)
}

// norm returns the 4-norm of two limits: near the point where they are alike neither hides fully behind the other.
func norm(a, b float64) float64 {
	longest := max(a, b)
	x, y := a/longest, b/longest
	x, y = x*x, y*y
	return longest * math.Sqrt(math.Sqrt(float64(x*x)+float64(y*y)))
}

// rounds returns how often a warp waits for reads of a row: the compiler has four of them together in the loop over the row, and the rest
// one by one.
func rounds(row units.Bytes) units.Bytes {
	reads := (row + WarpRead - 1) / WarpRead
	return reads/readsTogether + reads%readsTogether
}

// filling returns the seconds in which the first row of each warp has its page translated.
func (g *Gather) filling(r *Rows, translation float64) float64 {
	if !r.Cold {
		return 0
	}
	pages := float64(r.Region) / float64(TranslatedPage)
	first := min(float64(r.Count), r.Warps())
	touched := pages * (1 - portable.Exp(-first/pages))
	return touched * g.Fill.Seconds() * translation
}

// BesideKernel returns how long a fetch takes, one of many in succession, that runs beside a stream of kernels of that length each, and what
// share of its own time alone it slows them for: it waits for their blocks to end, and what fits the rest of a kernel's time costs nothing.
func (g *Gather) BesideKernel(alone, kernel units.Duration) (took units.Duration, share float64) {
	f, k := alone.Seconds(), kernel.Seconds()
	rest := k - float64(g.Wait*k)
	t := min(f/(1-g.Wait), f+float64(g.Wait*k))
	return units.FromSeconds(t), max(0, f-rest) / t
}

// ProductSlowed returns by how much longer a product takes while a fetch of these blocks runs for a share of its time.
func (g *Gather) ProductSlowed(x Grid, share float64) float64 {
	return 1 + float64(share*x.Warps()/g.ProductWarps)
}

// Taken returns the share of a GPU of that many multiprocessors that a fetch of these blocks keeps from the kernels of an iteration.
func (g *Gather) Taken(x Grid, sms int) float64 {
	return min(1, x.Warps()/(g.RoomWarps*float64(max(sms, 1))))
}

// Stretch returns for how much longer the other kernels of an iteration run that take kernels by themselves, beside a fetch: their share of
// the GPU is smaller while it reads.
func (g *Gather) Stretch(reads, kernels units.Duration, taken float64) units.Duration {
	if taken < 1 {
		reads = min(reads, units.FromSeconds(kernels.Seconds()/(1-taken)))
	}
	return units.FromSeconds(taken * reads.Seconds())
}

// Reads returns the part of a fetch in which rows come: without its start, in which other kernels go on.
func (g *Gather) Reads(r *Rows, link units.Bandwidth, translation float64) units.Duration {
	if r.Count <= 0 || r.Bytes <= 0 {
		return 0
	}
	return units.FromSeconds(g.reading(r, link, translation))
}

// MeasuredGather returns the parameters of an H200 behind 16 lanes of generation 5, in a virtual machine whose memory has pages of 4 KiB
// (lab/hostkv fits them; lab/docs/model-gpu.md has the errors). Several GPUs that read at once were not measured.
func MeasuredGather() Gather {
	return Gather{
		Start: 5340 * units.Nanosecond, Share: 0.909, Line: 64, Round: 1950 * units.Nanosecond,
		Reach: 3906 * units.MiB, Walk: 36300 * units.Picosecond, Fill: 27300 * units.Picosecond, LookUp: 6600 * units.Nanosecond,
		Wait: 0.67, ProductWarps: 1200, RoomWarps: 16.8,
	}
}
