package pim

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/lab/parts"
)

// orderCheck follows a program in its own order.
type orderCheck struct {
	geometry         *Geometry
	count            [sequencers]uint32
	scored, weighted map[int32]int // query heads by token
	open             map[[2]int8]int32
}

// see checks one instruction: what it waits for has come, and row and column
// are those that the geometry says.
func (c *orderCheck) see(t *rapid.T, in *instruction) {
	g := c.geometry
	for s, w := range in.wait {
		if w > c.count[s] {
			t.Fatalf("%+v waits for what has not come", in)
		}
	}
	c.count[in.sequencer]++
	if in.head != 0 {
		return
	}
	switch in.op {
	case opActivate:
		if in.bank < 0 {
			clear(c.open)
		}
		c.open[[2]int8{in.bankGroup, in.bank}] = in.row
	case opScore:
		if want := g.keyColumn(int(in.token)) + int32(in.burst); in.column != want || in.row != g.keyRow(int(in.token)) {
			t.Fatalf("token %d scored at row %d column %d, want %d", in.token, in.row, in.column, want)
		}
		c.scored[in.token] += int(in.queries)
	case opContext:
		if want := g.valueColumn(int(in.token)); in.column != want || in.row != g.valueRow(int(in.token)) {
			t.Fatalf("token %d weighted at row %d column %d, want %d", in.token, in.row, in.column, want)
		}
		c.weighted[in.token] += int(in.queries)
	}
	if in.command != dram.MACA {
		return
	}
	for at, row := range c.open {
		if row != in.row {
			t.Fatalf("%+v reads row %d, bank %v has %d open", in, in.row, at, row)
		}
	}
}

func TestProgramOrder(t *testing.T) {
	d := parts.DDR4(t)
	rapid.Check(t, func(t *rapid.T) {
		spec, shape := drawSpec(t)
		spec.ProcessingUnit = BankUnits
		context := rapid.IntRange(1, 3000).Draw(t, "context")
		heads := []headRun{{context: context, appends: true}, {context: 40, firstRow: 900}}
		p, err := newProgram(spec, d, shape, heads)
		if err != nil {
			t.Fatal(err)
		}
		g := &p.geometry
		c := orderCheck{geometry: g, scored: map[int32]int{}, weighted: map[int32]int{}, open: map[[2]int8]int32{}}
		for buffer := p.next(nil); len(buffer) > 0; buffer = p.next(buffer[:0]) {
			for i := range buffer {
				c.see(t, &buffer[i])
			}
		}
		for token := 0; token < context; token += g.ChunkTokens {
			if n := c.scored[int32(token)]; n < shape.Queries*g.TokenBursts {
				t.Errorf("chunk %d scored by %d reads, want %d query heads in %d columns", token, n, shape.Queries, g.TokenBursts)
			}
		}
		for token := 0; token < context; token += g.ColumnTokens {
			if n := c.weighted[int32(token)]; n != shape.Queries {
				t.Errorf("column of token %d read for %d query heads, want %d", token, n, shape.Queries)
			}
		}
	})
}

// Per 16 tokens at d = 128 in FP16: score and context each take as long as the
// slower of the reads (32 clocks a pass) and the rank's bus (16 a query head), so
// that more multiplier sets gain at most a factor of two.
func TestGroupedQueries(t *testing.T) {
	for _, g := range []int{1, 2, 3, 4, 8} {
		for _, macs := range []int{1, 2, 4, 8} {
			if macs > g {
				continue
			}
			spec := Default()
			spec.MACsPerRead = macs
			shape := fp16Head
			shape.Queries = g
			passes := (g + macs - 1) / macs
			chunk := int64(max(32*passes, 16*g))
			// Two lengths in one row differ by chunks and nothing else.
			long, _ := runHead(t, spec, shape, 480, false)
			short, _ := runHead(t, spec, shape, 160, false)
			got, want := long-short, 2*chunk*20
			// A bus that is full loses a clock here and there to the command bus.
			if got < want || float64(got) > 1.02*float64(want) {
				t.Errorf("g = %d, %d multiplier sets: 20 chunks take %d clocks, want %d", g, macs, got, want)
			}
		}
	}
}

// Wider numbers take their share of the rank's bus and of the score buffer.
func TestWidths(t *testing.T) {
	d := parts.DDR4(t)
	for _, c := range []struct {
		key            string
		set            func(*Precision)
		partials       int // RDRES a chunk
		weights        int // WRBUF a column
		accumulators   int // RDRES at the end
		segment        int // tokens in the score buffer
		chunkIncrement int64
	}{
		{"paper", func(*Precision) {}, 4, 1, 16, 131072, 64},
		{"accumulate", func(p *Precision) { p.Accumulate = FP32 }, 8, 1, 16, 131072, 64},
		{"weights", func(p *Precision) { p.Weights = FP32 }, 4, 2, 16, 131072, 64},
		{"context", func(p *Precision) { p.Context = FP32 }, 4, 1, 32, 131072, 64},
		{"score", func(p *Precision) { p.Score = FP32 }, 4, 1, 16, 65536, 64},
		{"fp32", func(p *Precision) { p.Preset = "fp32" }, 8, 2, 32, 65536, 64},
	} {
		spec := Default()
		c.set(&spec.Precision)
		p, err := newProgram(spec, d, fp16Head, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.partialBursts != c.partials || p.setBursts*p.geometry.ColumnTokens/p.setTokens != c.weights ||
			p.contextBursts != c.accumulators || p.segmentTokens != c.segment {
			t.Errorf("%s: %d partial, %d weight and %d context bursts, %d tokens buffered, want %d, %d, %d, %d", c.key,
				p.partialBursts, p.setBursts, p.contextBursts, p.segmentTokens, c.partials, c.weights, c.accumulators, c.segment)
		}
		long, m := runHead(t, spec, fp16Head, 480, false)
		short, _ := runHead(t, spec, fp16Head, 160, false)
		if got := (long - short) / 20; got != c.chunkIncrement {
			t.Errorf("%s: %d clocks a chunk, want %d", c.key, got, c.chunkIncrement)
		}
		counters := m.counters
		if got, want := counters.ops[opReadPartials], int64(30*c.partials); got != want {
			t.Errorf("%s: %d read-outs of partial sums, want %d", c.key, got, want)
		}
	}
}

// Beyond the score buffer: refetching scores the keys beyond it twice, segments
// read out once more each.
func TestBeyondTheBuffer(t *testing.T) {
	const buffer = 131072
	for _, extra := range []int{16, 512, 4096, buffer, buffer + 512} {
		context := buffer + extra
		rows := int64((extra + 511) / 512)
		segments := int64((extra + buffer - 1) / buffer)
		within, _ := runHead(t, Default(), fp16Head, buffer, true)

		// Each row beyond the buffer is opened for keys twice and for values once.
		refetch, _ := runHead(t, Default(), fp16Head, context, true)
		if got, want := refetch-within, 6*int64(extra)+3*rows*162; got != want {
			t.Errorf("refetch of %d tokens: %d clocks more, want %d", extra, got, want)
		}
		spec := Default()
		spec.BeyondBuffer = Segment
		segmented, m := runHead(t, spec, fp16Head, context, true)
		if got, want := segmented-within, 4*int64(extra)+2*rows*162; got != want {
			t.Errorf("segments of %d tokens: %d clocks more, want %d", extra, got, want)
		}
		if got, want := m.counters.ops[opReadContext], 16*(segments+1); got != want {
			t.Errorf("segments of %d tokens: %d read-outs of the context, want %d", extra, got, want)
		}
	}
}

func TestProgramRefusesBadInput(t *testing.T) {
	d := parts.DDR4(t)
	for _, c := range []struct {
		name  string
		shape HeadShape
		heads []headRun
	}{
		{"head dimension", HeadShape{HeadDim: 513, Queries: 1, ElementBits: 16}, nil},
		{"query heads", HeadShape{HeadDim: 128, Queries: 0, ElementBits: 16}, nil},
		{"element width", HeadShape{HeadDim: 128, Queries: 1, ElementBits: 32}, nil},
		{"empty context", fp16Head, []headRun{{context: 0}}},
	} {
		if _, err := newProgram(Default(), d, c.shape, c.heads); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	small := Default()
	small.ScoreBuffer = 16
	if _, err := newProgram(small, d, HeadShape{HeadDim: 128, Queries: 8, ElementBits: 16}, nil); err == nil {
		t.Error("a score buffer of less than a chunk: no error")
	}
}

// q comes down the channel behind the newest token: it loads once the append's
// banks are precharged, and no sooner.
func TestQueryWaitsForTheAppend(t *testing.T) {
	d := parts.DDR4(t)
	for _, simultaneous := range []bool{false, true} {
		spec := Default()
		if simultaneous {
			spec.Activation = Simultaneous
		}
		p, err := newProgram(spec, d, fp16Head, []headRun{{context: 100, appends: true}, {context: 600, firstRow: 2, appends: true}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMachine(spec, d)
		if err != nil {
			t.Fatal(err)
		}
		o := &appendOrder{t: t, trp: int64(d.TRP), written: map[int32]int64{}, closed: map[int32]int64{}, loaded: map[int32]bool{}}
		m.observe = o.Command
		m.run(p)
		if len(o.closed) != 2 || len(o.loaded) != 2 {
			t.Errorf("%d appends and %d loads of q seen, want 2 each", len(o.closed), len(o.loaded))
		}
	}
}

// appendOrder observes when a head's append ends and its q is loaded.
type appendOrder struct {
	t       *testing.T
	trp     int64
	written map[int32]int64 // clock of the latest write, by head
	closed  map[int32]int64 // clock of the PREA behind the append
	loaded  map[int32]bool
}

func (o *appendOrder) Command(clock int64, cmd dram.Command, _ dram.Address, in *instruction) {
	switch {
	case in.op == opAppendKey, in.op == opAppendValue:
		o.written[in.head] = clock
	case cmd == dram.PREA && o.closed[in.head] == 0 && o.written[in.head] > 0:
		o.closed[in.head] = clock
	case in.op == opLoadQuery && !o.loaded[in.head]:
		o.loaded[in.head] = true
		if o.closed[in.head] == 0 || clock < o.closed[in.head]+o.trp {
			o.t.Errorf("head %d: q loads at clock %d, the append's banks close at %d", in.head, clock, o.closed[in.head]+o.trp)
		}
	}
}

// The read-out of a head is not held up by the next head's append, nor by its own
// precharge: its bursts follow each other at the rank's full rate.
func TestReadOutIsNotHeldUp(t *testing.T) {
	d := parts.DDR4(t)
	spec := Default()
	heads := []headRun{{context: 100, appends: true}, {context: 60, firstRow: 2, appends: true}, {context: 600, firstRow: 4, appends: true}}
	for latency := 4; latency < 8; latency++ { // any place in the bursts' four clocks
		spec.MACLatency = latency
		p, err := newProgram(spec, d, fp16Head, heads)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMachine(spec, d)
		if err != nil {
			t.Fatal(err)
		}
		o := &readOuts{clocks: map[int32][]int64{}}
		m.observe = o.Command
		m.run(p)
		for head := range int32(3) {
			if clocks := o.clocks[head]; len(clocks) != 16 || clocks[15] != clocks[0]+15*4 {
				t.Errorf("MAC latency %d, head %d: read out at %v, want 16 bursts every 4 clocks", latency, head, clocks)
			}
		}
	}
}

// readOuts observes when the accumulators of each head are read.
type readOuts struct{ clocks map[int32][]int64 }

func (o *readOuts) Command(clock int64, _ dram.Command, _ dram.Address, in *instruction) {
	if in.op == opReadContext {
		o.clocks[in.head] = append(o.clocks[in.head], clock)
	}
}

// An append writes each burst of the newest key and value once, and opens each
// bank once, or twice where it holds a burst of both.
func TestAppendWritesEachBurstOnce(t *testing.T) {
	d := parts.DDR4(t)
	for _, dim := range []int{32, 64, 128, 256, 512} {
		shape := HeadShape{HeadDim: dim, Queries: 1, ElementBits: 16}
		b, err := newTableBuilder(Default(), d, shape)
		if err != nil {
			t.Fatal(err)
		}
		b.machine.repeats.on = false
		bursts := int64(b.program.geometry.TokenBursts)
		for context := 1; context <= 40; context++ {
			b.attention(context)
			without := b.machine.counters
			b.run(headRun{context: context, appends: true})
			with := b.machine.counters
			opened := with.commands[dram.ACT] - without.commands[dram.ACT]
			if with.ops[opAppendKey] != bursts || with.ops[opAppendValue] != bursts || opened != 1+bursts {
				t.Errorf("d = %d, token %d: %d key and %d value bursts, %d banks opened, want %d, %d, %d", dim, context,
					with.ops[opAppendKey], with.ops[opAppendValue], opened, bursts, bursts, 1+bursts)
			}
		}
	}
}
