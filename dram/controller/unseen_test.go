package controller

import (
	"fmt"
	"math/rand/v2"

	"github.com/l3sim/l3sim/dram"
)

// unseen is a generated trace; testdata/dramsim3_unseen.csv has DRAMsim3's results for it. No decision of the controller was tuned to these
// traces.
type unseen struct {
	part  string // a key of unseenParts, or a kind of otherSetup
	ranks int
	kind  string // a key of unseenKinds
	reads int    // per cent
	gap   int    // mean clocks between requests, 0: all at clock 0
}

// unseenParts has the parts by their names in traces.
var unseenParts = map[string]string{"x8": ddr43200, "x4": "ddr4-3200-8gb-x4", "x16": "ddr4-3200-8gb-x16", "2400": "ddr4-2400-8gb-x8"}

// unseenTraces are the traces, in the order of their seeds.
var unseenTraces = []unseen{
	{"x8", 4, "hot", 50, 0}, {"x16", 2, "hot", 67, 0}, {"x16", 4, "streams", 67, 0}, {"x4", 4, "rand", 50, 0}, {"x4", 4, "rand", 80, 0}, {"x4", 2, "rand", 67, 0},
	{"x8", 2, "hot", 67, 0}, {"x4", 1, "hot", 80, 0}, {"x4", 2, "hot", 50, 0}, {"2400", 4, "hot", 67, 0}, {"2400", 1, "hot", 67, 0}, {"x16", 1, "hot", 67, 0},
	{"x16", 2, "rand", 80, 0}, {"x16", 4, "rand", 50, 0}, {"x8", 1, "rand", 67, 0}, {"x8", 4, "rand", 67, 0}, {"x4", 1, "local", 50, 0}, {"x8", 4, "local", 67, 0},
	{"x16", 2, "local", 67, 0}, {"2400", 2, "local", 67, 0}, {"2400", 4, "local", 80, 0}, {"x16", 2, "streams", 50, 0}, {"x4", 2, "streams", 67, 0}, {"x4", 4, "streams", 50, 0},
	{"x8", 4, "rand", 67, 12}, {"x8", 2, "rand", 67, 6}, {"x4", 2, "hot", 67, 5}, {"x16", 1, "rand", 67, 20}, {"2400", 4, "rand", 50, 7}, {"x8", 1, "streams", 67, 6},
	{"x8", 4, "rand", 100, 0}, {"x8", 1, "rand", 100, 0}, {"x8", 4, "rand", 0, 0}, {"x8", 2, "rand", 90, 0}, {"2400", 2, "rand", 67, 0}, {"x8", 1, "hot", 67, 0},
	{"x8", 4, "stride", 67, 0}, {"x16", 2, "stride", 80, 0}, {"2400", 1, "stride", 50, 0}, {"x4", 2, "stride", 100, 0}, {"x8", 2, "phases", 50, 0}, {"x8", 4, "phases", 67, 0},
	{"x16", 1, "phases", 80, 0}, {"2400", 2, "phases", 67, 4}, {"x8", 1, "copy", 50, 0}, {"x8", 4, "copy", 50, 0}, {"x16", 2, "copy", 50, 0}, {"2400", 4, "copy", 50, 5},
	{"x8", 2, "walks", 100, 0}, {"x8", 4, "walks", 80, 0}, {"x4", 1, "walks", 67, 0}, {"2400", 2, "walks", 67, 6}, {"x8", 1, "rand", 33, 0}, {"x8", 2, "rand", 33, 0},
	{"x4", 4, "local", 90, 0}, {"x16", 4, "hot", 33, 0},
}

// unseenOthers are like unseenTraces, for the standards of testdata/other.
var unseenOthers = []unseen{
	{"hbm2", 1, "rand", 67, 0}, {"hbm2", 1, "hot", 50, 0}, {"hbm2", 1, "streams", 67, 0}, {"hbm2", 1, "walks", 80, 0}, {"hbm2", 1, "stride", 67, 0},
	{"hbm2", 1, "rand", 80, 8}, {"gddr6", 1, "rand", 67, 0}, {"gddr6", 1, "hot", 67, 0}, {"gddr6", 1, "streams", 50, 0}, {"gddr6", 1, "walks", 67, 0},
	{"gddr6bg", 1, "hot", 67, 0}, {"gddr6bg", 1, "copy", 50, 0}, {"gddr6bg", 1, "local", 80, 0}, {"gddr6bg", 1, "stride", 67, 0}, {"lpddr4", 2, "rand", 67, 0},
	{"lpddr4", 2, "rand", 33, 0}, {"lpddr4", 2, "hot", 80, 0}, {"lpddr4", 2, "streams", 67, 0}, {"lpddr4", 2, "phases", 67, 0}, {"lpddr4", 2, "walks", 67, 10},
}

// unseenKinds are the shapes of traffic: each gives the next address, in bursts, and may give its direction.
var unseenKinds = map[string]func(g *generator, write *bool) uint64{
	// Anywhere.
	"rand": func(g *generator, _ *bool) uint64 { return g.rng.Uint64N(g.bursts) },
	// Four of five stay in one row of each bank, for 100 of its 128 bursts.
	"hot": func(g *generator, _ *bool) uint64 {
		if g.rng.IntN(5) == 0 {
			return g.rng.Uint64N(g.bursts)
		}
		bank := g.rng.Uint64N(g.banks)
		if g.left[bank] == 0 {
			g.left[bank], g.row[bank] = g.columns*100/128, g.rng.Uint64N(g.rows)
		}
		g.left[bank]--
		return g.at(g.row[bank], bank, g.left[bank])
	},
	// Eight streams, some of which write.
	"streams": func(g *generator, write *bool) uint64 {
		k := g.rng.IntN(8)
		*write = 100*k >= 8*g.reads
		g.stream[k]++
		return g.stream[k]
	},
	// Sixteen rows of every bank.
	"local": func(g *generator, _ *bool) uint64 {
		return g.at(g.rng.Uint64N(16), g.rng.Uint64N(g.banks), g.rng.Uint64N(g.columns))
	},
	// Steps of a power of two, up to a row of every bank.
	"stride": func(g *generator, _ *bool) uint64 {
		if g.n%512 == 0 {
			g.stream[0], g.step = g.rng.Uint64N(g.bursts), 1<<g.rng.Uint64N(15)
		}
		g.stream[0] += g.step
		return g.stream[0]
	},
	// About a hundred reads, then writes by their share.
	"phases": func(g *generator, write *bool) uint64 {
		*write = g.n%300 >= 3*g.reads
		return g.rng.Uint64N(g.bursts)
	},
	// Eight bursts are read, then written elsewhere.
	"copy": func(g *generator, write *bool) uint64 {
		*write = g.n/8%2 == 1
		k := g.n / 8 % 2
		g.stream[k]++
		return g.stream[k]
	},
	// Short walks of one to sixteen bursts from anywhere.
	"walks": func(g *generator, _ *bool) uint64 {
		if g.length == 0 {
			g.length, g.stream[0] = 1+g.rng.Uint64N(16), g.rng.Uint64N(g.bursts)
		}
		g.length--
		g.stream[0]++
		return g.stream[0]
	},
}

// generator is the state of one trace.
type generator struct {
	rng                       *rand.Rand
	reads, n                  int
	bursts, banks, rows, step uint64 // of the channel; rows of a bank
	length, columns           uint64
	stream                    [8]uint64
	row, left                 []uint64 // for each bank
}

// at returns the burst at a row, a bank over all ranks (bank group lowest) and a column, with the mapping rochrababgco.
func (g *generator) at(row, bank, column uint64) uint64 { return (row*g.banks+bank)*g.columns + column }

// name is the name of the trace's row in the table.
func (u unseen) name() string {
	gap := ""
	if u.gap > 0 {
		gap = fmt.Sprintf("_gap%d", u.gap)
	}
	return fmt.Sprintf("%s_%s_%drank_r%d%s", u.kind, u.part, u.ranks, u.reads, gap)
}

// requests returns the trace: 12,000 requests of one burst each.
func (u unseen) requests(spec *dram.Spec, seed uint64) []Request {
	rng := rand.New(rand.NewPCG(seed, 20))
	g := &generator{rng: rng, reads: u.reads, banks: uint64(u.ranks * spec.Banks()), rows: uint64(spec.Rows), columns: uint64(spec.RowBursts())}
	g.bursts = g.rows * g.banks * g.columns
	g.row, g.left = make([]uint64, g.banks), make([]uint64, g.banks)
	for i := range g.stream {
		g.stream[i] = rng.Uint64N(g.bursts>>13) << 13
	}
	seen := map[uint64]bool{}
	var list []Request
	for clock := int64(0); len(list) < 12_000; g.n++ {
		write := rng.IntN(100) >= u.reads
		burst := unseenKinds[u.kind](g, &write) % g.bursts
		if seen[burst] {
			continue
		}
		seen[burst] = true
		if u.gap > 0 {
			clock += int64(rng.IntN(2*u.gap + 1))
		}
		list = append(list, Request{Clock: clock, Address: burst * uint64(spec.BurstBytes()), Write: write})
	}
	return list
}
