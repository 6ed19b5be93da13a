package pcie

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// plain returns parameters in round numbers: a link of 10 GB/s, of which reads get half.
func plain() Gather {
	return Gather{
		Start: 5 * units.Microsecond, Share: 0.5, Line: 64, Round: 2 * units.Microsecond, Reach: units.MiB, Walk: 40 * units.Nanosecond, Fill: 10 * units.Nanosecond,
		Wait: 0.75, ProductWarps: 1000, RoomWarps: 16,
	}
}

const tenGB = units.Bandwidth(10e9)

// TestGatherByHand: each limit by itself.
func TestGatherByHand(t *testing.T) {
	many := Grid{Blocks: 1000, Threads: 1024} // 32,000 warps
	for _, c := range []struct {
		name string
		rows Rows
		want float64 // microseconds
	}{
		{"no rows", Rows{Bytes: 64, Region: 1, Grid: many}, 0},
		{"bytes: 65 B are two lines of 64", Rows{Count: 1e6, Bytes: 65, Region: units.MiB, Grid: many}, 5 + 1e6*128/5e3},
		{"bytes: whole lines", Rows{Count: 1e6, Bytes: 64, Region: units.MiB, Grid: many}, 5 + 1e6*64/5e3},
		{"one warp, a row of one read", Rows{Count: 100, Bytes: 512, Region: units.MiB, Grid: Grid{1, 32}}, 5 + 100*2},
		{"one warp, three reads one by one", Rows{Count: 100, Bytes: 1152, Region: units.MiB, Grid: Grid{1, 32}}, 5 + 100*3*2},
		{"one warp, four reads together", Rows{Count: 100, Bytes: 2048, Region: units.MiB, Grid: Grid{1, 32}}, 5 + 100*2},
		{"one warp, nine reads in three rounds", Rows{Count: 100, Bytes: 4608, Region: units.MiB, Grid: Grid{1, 32}}, 5 + 100*3*2},
		{"fewer rows than warps", Rows{Count: 1, Bytes: 16, Region: units.MiB, Grid: many}, 5 + 2},
		{"400 rows a warp, 800 us, beside 600 us of walks", Rows{Count: 20000, Bytes: 16, Region: 4 * units.MiB, Grid: Grid{50, 32}}, 5 + 800*math.Pow(1+math.Pow(0.75, 4), 0.25)},
		{"400 rows a warp, 800 us, beside 1,200 us of walks", Rows{Count: 40000, Bytes: 16, Region: 4 * units.MiB, Grid: Grid{100, 32}}, 5 + 1200*math.Pow(1+math.Pow(2./3, 4), 0.25)},
		{"translation: three quarters miss", Rows{Count: 1e6, Bytes: 16, Region: 4 * units.MiB, Grid: many}, 5 + 30000*math.Pow(1+math.Pow(12800./30000, 4), 0.25)},
	} {
		got, g := 0.0, plain()
		got = g.Time(&c.rows, tenGB, 1).Microseconds()
		if math.Abs(got-c.want) > 0.002*c.want {
			t.Errorf("%s: %v us, by hand %v", c.name, got, c.want)
		}
	}
}

// TestFillByHand: 100 warps have the first rows of a region of 100 pages translated anew: 100·(1 − 1/e) of these.
func TestFillByHand(t *testing.T) {
	g := plain()
	r := Rows{Count: 5000, Bytes: 64, Region: 100 * TranslatedPage, Grid: Grid{100, 32}}
	warm := g.Time(&r, tenGB, 1)
	r.Cold = true
	if got, want := (g.Time(&r, tenGB, 1) - warm).Microseconds(), 100*(1-1/math.E)*0.01; math.Abs(got-want) > 1e-5 {
		t.Errorf("%v us for cold pages, by hand %v", got, want)
	}
	few := Rows{Count: 100, Bytes: 64, Region: 100 * TranslatedPage, Cold: true, Grid: Grid{1000, 32}} // a row for one warp in ten
	cold := g.Time(&few, tenGB, 1)
	few.Cold = false
	if got, want := (cold - g.Time(&few, tenGB, 1)).Microseconds(), 100*(1-1/math.E)*0.01; math.Abs(got-want) > 1e-5 {
		t.Errorf("%v us for the pages of 100 rows, by hand %v", got, want)
	}
	if r.Cold = false; g.Time(&r, tenGB, 0) >= warm {
		t.Error("translation costs nothing")
	}
	if got := g.Start + g.Reads(&r, tenGB, 1); got != warm {
		t.Errorf("a start and reads of %v, together %v", got, warm)
	}
}

// TestBesideByHand: kernels of 100 us leave room in the last quarter of their time.
func TestBesideByHand(t *testing.T) {
	g := plain()
	for _, c := range []struct{ alone, kernel, took, share float64 }{
		{5, 100, 20, 0},            // five in the 25 us of a kernel: one in 20 us
		{25, 100, 100, 0},          // one
		{125, 100, 200, 0.5},       // waits 75 us; 100 us of it beside blocks that want its room
		{1000, 0, 1000, 1},         // kernels of no time
		{1000, 100, 1075, 0.90698}, // 975 of 1,075
	} {
		took, share := g.BesideKernel(units.FromSeconds(c.alone*1e-6), units.FromSeconds(c.kernel*1e-6))
		if math.Abs(took.Microseconds()-c.took) > 1e-3 || math.Abs(share-c.share) > 1e-4 {
			t.Errorf("%v us beside kernels of %v: %v, share %v; by hand %v, %v", c.alone, c.kernel, took.Microseconds(), share, c.took, c.share)
		}
	}
	if got := g.ProductSlowed(Grid{8, 1024}, 0.5); math.Abs(got-1.128) > 1e-12 {
		t.Errorf("256 warps for half of the time: %v", got)
	}
	if got := [2]float64{g.Taken(Grid{8, 1024}, 100), g.Taken(Grid{100, 1024}, 100)}; got != [2]float64{0.16, 1} {
		t.Errorf("8 and 100 blocks of 1,024 threads take %v of 100 multiprocessors", got)
	}
	us := func(n int64) units.Duration { return units.Duration(n) * units.Microsecond }
	for _, c := range []struct {
		reads, kernels, want units.Duration
		taken                float64
	}{
		{us(100), us(1000), us(20), 0.2}, // of 100 us of reads, 20 us of kernels are left over
		{us(1000), us(80), us(20), 0.2},  // the kernels take 100 us, of which they have 80%
		{us(1000), us(80), us(1000), 1},  // nothing runs at the same time
		{us(1000), us(80), 0, 0},
	} {
		if got := g.Stretch(c.reads, c.kernels, c.taken); got != c.want {
			t.Errorf("reads of %v beside kernels of %v: %v, by hand %v", c.reads, c.kernels, got, c.want)
		}
	}
}

// TestGatherLaws: more rows, a larger region or a slower link never make a fetch faster; more blocks never slower.
func TestGatherLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := MeasuredGather()
		r := Rows{
			Count: rapid.Int64Range(1, 1<<20).Draw(t, "rows"), Bytes: units.Bytes(rapid.IntRange(1, 20000).Draw(t, "bytes")),
			Region: units.Bytes(rapid.Int64Range(1<<20, 1<<40).Draw(t, "region")), Cold: rapid.Bool().Draw(t, "cold"), Grid: Grid{rapid.IntRange(1, 132).Draw(t, "blocks"), 512},
		}
		base := g.Time(&r, 50e9, 1)
		at := func(change func(r *Rows)) units.Duration {
			x := r
			change(&x)
			return g.Time(&x, 50e9, 1)
		}
		if at(func(x *Rows) { x.Count += 100 }) < base || at(func(x *Rows) { x.Region *= 2 }) < base || g.Time(&r, 40e9, 1) < base || g.Time(&r, 50e9, 0) > base {
			t.Fatalf("%+v takes %v", r, base)
		}
		if warm := at(func(x *Rows) { x.Cold = false }); warm > base {
			t.Fatalf("%v warm, %v cold", warm, base)
		}
		if few, some := at(func(x *Rows) { x.Cold = false }), at(func(x *Rows) { x.Cold, x.Blocks = false, x.Blocks+1 }); some > few {
			t.Fatalf("%v with a block more, %v", some, few)
		}
		if bytes := units.Bandwidth(50e9).TransferTime(units.Bytes(r.Count) * r.Bytes); base < bytes {
			t.Fatalf("faster than the link: %v for %v", base, bytes)
		}
	})
}

// TestMeasuredByHand: one case for each number of MeasuredGather, most of them on a link so fast that bytes take no time.
func TestMeasuredByHand(t *testing.T) {
	const fast = units.Bandwidth(1e18)
	g := MeasuredGather()
	for _, c := range []struct {
		name string
		rows Rows
		link units.Bandwidth
		want float64 // microseconds
	}{
		{"a start and one read", Rows{Count: 1, Bytes: 512, Region: units.MiB, Grid: Grid{1, 32}}, fast, 5.34 + 1.95},
		{"bytes: 65 B are two lines of 64, at 90.9% of 10 GB/s", Rows{Count: 1e6, Bytes: 65, Region: units.MiB, Grid: Grid{1e6, 32}}, 10e9, 5.34 + 14081.408},
		{"a region of 3,906 MiB is translated", Rows{Count: 1e6, Bytes: 16, Region: 3906 * units.MiB, Grid: Grid{1e6, 32}}, fast, 5.34 + 1.95},
		{"half of twice as much misses: 18,150 us of walks", Rows{Count: 1e6, Bytes: 16, Region: 7812 * units.MiB, Grid: Grid{1e6, 32}}, fast, 5.34 + 18150},
		{"100 (1 - 1/e) pages to fill", Rows{Count: 100, Bytes: 16, Region: 200 * units.MiB, Cold: true, Grid: Grid{100, 32}}, fast, 5.34 + 1.95 + 1.72569},
	} {
		if got := g.Time(&c.rows, c.link, 1).Microseconds(); math.Abs(got-c.want) > 1e-3*(1+c.want/1000) {
			t.Errorf("%s: %v us, by hand %v", c.name, got, c.want)
		}
	}
	if g.LookUp.Microseconds() != 6.6 {
		t.Errorf("a look-up of %v", g.LookUp)
	}
	// Kernels of 100 us leave room in their last 33 us.
	if took, share := g.BesideKernel(33*units.Microsecond, 100*units.Microsecond); took != 100*units.Microsecond || share > 1e-9 {
		t.Errorf("%v and a share of %v", took, share)
	}
	if got := g.ProductSlowed(Grid{1200, 32}, 1); got != 2 {
		t.Errorf("1,200 warps: %v", got)
	}
	if got := [2]float64{g.Taken(Grid{84, 32}, 10), g.Taken(Grid{168, 32}, 10)}; got != [2]float64{0.5, 1} {
		t.Errorf("8.4 and 16.8 warps on each of 10 multiprocessors take %v", got)
	}
}

// TestWarps: the last warp of a block may have fewer threads than 32.
func TestWarps(t *testing.T) {
	for _, c := range []struct {
		grid Grid
		want float64
	}{{Grid{3, 32}, 3}, {Grid{3, 1}, 3}, {Grid{2, 33}, 4}, {Grid{2, 1024}, 64}, {Grid{2, 1056}, 66}, {Grid{0, 512}, 0}} {
		if got := c.grid.Warps(); got != c.want {
			t.Errorf("%+v: %v warps", c.grid, got)
		}
	}
	g := plain()
	for _, r := range []Rows{{}, {Count: 1}, {Bytes: 1}, {Count: -1, Bytes: 1}, {Count: 1, Bytes: -1}} {
		r.Grid = Grid{1, 32}
		if g.Time(&r, tenGB, 1) != 0 || g.Reads(&r, tenGB, 1) != 0 {
			t.Errorf("%+v takes %v", r, g.Time(&r, tenGB, 1))
		}
	}
	if got := g.Reads(&Rows{Count: 1, Bytes: 1, Grid: Grid{1, 32}}, tenGB, 1); got != 2*units.Microsecond || g.Time(&Rows{Count: 1, Bytes: 1, Grid: Grid{1, 32}}, tenGB, 1) != 7*units.Microsecond {
		t.Errorf("a row of a byte takes %v", got)
	}
	if got := g.Taken(Grid{4, 32}, 0); got != 0.25 { // as of one multiprocessor
		t.Errorf("4 of 16 warps take %v", got)
	}
}
