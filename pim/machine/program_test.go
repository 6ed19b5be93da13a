package machine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units"
)

// orderCheck checks a program in program order.
type orderCheck struct {
	geometry         *pim.Geometry
	count            [sequencers]uint32
	scored, weighted map[int32]int // query heads by token
	open             map[[2]int8]int32
}

// see checks one instruction: its inputs have arrived, and its row and column are those of the
// geometry.
func (c *orderCheck) see(t *rapid.T, in *Instruction) {
	g := c.geometry
	for s, w := range in.wait {
		if w > c.count[s] {
			t.Fatalf("%+v waits for what has not come", in)
		}
	}
	c.count[in.sequencer]++
	if in.Head != 0 {
		return
	}
	switch in.Op {
	case OpActivate:
		if in.Bank < 0 {
			clear(c.open)
		}
		c.open[[2]int8{in.BankGroup, in.Bank}] = in.Row
	case OpScore:
		if want := g.KeyColumn(int(in.Token)) + int32(in.Burst); in.Column != want || in.Row != g.KeyRow(int(in.Token)) {
			t.Fatalf("token %d scored at row %d column %d, want %d", in.Token, in.Row, in.Column, want)
		}
		c.scored[in.Token] += int(in.Queries)
	case OpContext:
		// Bursts of a value that is a part of its key lie in one bank, of others in several.
		if want := g.ValueColumn(int(in.Token)) + int32(in.Burst); in.Column != want || in.Row != g.ValueRow(int(in.Token)) {
			t.Fatalf("token %d weighted at row %d column %d, want %d", in.Token, in.Row, in.Column, want)
		}
		c.weighted[in.Token] += int(in.Queries)
	}
	if in.Command != dram.MACA {
		return
	}
	for at, row := range c.open {
		if row != in.Row {
			t.Fatalf("%+v reads row %d, bank %v has %d open", in, in.Row, at, row)
		}
	}
}

func TestProgramOrder(t *testing.T) {
	d := parts.DDR4(t)
	rapid.Check(t, func(t *rapid.T) {
		spec, shape := drawSpec(t)
		spec.ProcessingUnit = pim.BankUnits
		context := rapid.IntRange(1, 3000).Draw(t, "context")
		heads := []Head{{Context: context, Appends: true}, {Context: 40, FirstRow: 900}}
		p, err := NewProgram(spec, d, shape, heads)
		if err != nil {
			t.Fatal(err)
		}
		g := &p.Geometry
		c := orderCheck{geometry: g, scored: map[int32]int{}, weighted: map[int32]int{}, open: map[[2]int8]int32{}}
		for buffer := p.Next(nil); len(buffer) > 0; buffer = p.Next(buffer[:0]) {
			for i := range buffer {
				c.see(t, &buffer[i])
			}
		}
		for token := 0; token < context; token += g.ChunkTokens {
			if n := c.scored[int32(token)]; n < shape.Queries*g.KeyBursts {
				t.Errorf("chunk %d scored by %d reads, want %d query heads in %d columns", token, n, shape.Queries, g.KeyBursts)
			}
		}
		for token := 0; token < context; token += g.ColumnTokens {
			want := shape.Queries
			if g.InKey {
				want *= g.ValueBursts
			}
			if n := c.weighted[int32(token)]; n != want {
				t.Errorf("columns of token %d read for %d query heads, want %d", token, n, want)
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
			spec := pim.Default()
			spec.MACsPerRead = macs
			shape := fp16Head
			shape.Queries = g
			passes := (g + macs - 1) / macs
			chunk := int64(max(32*passes, 16*g))
			// Two lengths within one row differ only by their chunks.
			long, _ := runHead(t, spec, shape, 480, false)
			short, _ := runHead(t, spec, shape, 160, false)
			got, want := long-short, 2*chunk*20
			// A full bus loses a few clocks to the command bus.
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
		set            func(*pim.Precision)
		partials       int // RDRES a chunk
		weights        int // WRBUF a column
		accumulators   int // RDRES at the end
		segment        int // tokens in the score buffer
		chunkIncrement int64
	}{
		{"paper", func(*pim.Precision) {}, 4, 1, 16, 131072, 64},
		{"accumulate", func(p *pim.Precision) { p.Accumulate = pim.FP32 }, 8, 1, 16, 131072, 64},
		{"weights", func(p *pim.Precision) { p.Weights = pim.FP32 }, 4, 2, 16, 131072, 64},
		{"context", func(p *pim.Precision) { p.Context = pim.FP32 }, 4, 1, 32, 131072, 64},
		{"score", func(p *pim.Precision) { p.Score = pim.FP32 }, 4, 1, 16, 65536, 64},
		{"fp32", func(p *pim.Precision) { p.Preset = "fp32" }, 8, 2, 32, 65536, 64},
	} {
		spec := pim.Default()
		c.set(&spec.Precision)
		p, err := NewProgram(spec, d, fp16Head, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.PartialBursts != c.partials || p.setBursts*p.Geometry.ColumnTokens/p.SetTokens != c.weights ||
			p.ContextBursts != c.accumulators || p.SegmentTokens != c.segment {
			t.Errorf("%s: %d partial, %d weight and %d context bursts, %d tokens buffered, want %d, %d, %d, %d", c.key,
				p.PartialBursts, p.setBursts, p.ContextBursts, p.SegmentTokens, c.partials, c.weights, c.accumulators, c.segment)
		}
		long, m := runHead(t, spec, fp16Head, 480, false)
		short, _ := runHead(t, spec, fp16Head, 160, false)
		if got := (long - short) / 20; got != c.chunkIncrement {
			t.Errorf("%s: %d clocks a chunk, want %d", c.key, got, c.chunkIncrement)
		}
		counters := m.Counters
		if got, want := counters.ops[OpReadPartials], int64(30*c.partials); got != want {
			t.Errorf("%s: %d read-outs of partial sums, want %d", c.key, got, want)
		}
	}
}

// Beyond the score buffer, refetching computes the scores of those keys twice; segments are read
// out once more each.
func TestBeyondTheBuffer(t *testing.T) {
	const buffer = 131072
	for _, extra := range []int{16, 512, 4096, buffer, buffer + 512} {
		context := buffer + extra
		rows := int64((extra + 511) / 512)
		segments := int64((extra + buffer - 1) / buffer)
		within, _ := runHead(t, pim.Default(), fp16Head, buffer, true)

		// Each row beyond the buffer is opened for keys twice and for values once.
		refetch, _ := runHead(t, pim.Default(), fp16Head, context, true)
		if got, want := refetch-within, 6*int64(extra)+3*rows*162; got != want {
			t.Errorf("refetch of %d tokens: %d clocks more, want %d", extra, got, want)
		}
		spec := pim.Default()
		spec.BeyondBuffer = pim.Segment
		segmented, m := runHead(t, spec, fp16Head, context, true)
		if got, want := segmented-within, 4*int64(extra)+2*rows*162; got != want {
			t.Errorf("segments of %d tokens: %d clocks more, want %d", extra, got, want)
		}
		if got, want := m.Counters.ops[OpReadContext], 16*(segments+1); got != want {
			t.Errorf("segments of %d tokens: %d read-outs of the context, want %d", extra, got, want)
		}
	}
}

// TestAccumulatorsBegin: with a buffer of 512 scores a head of 1,300 tokens has three segments. Accumulators start from zero at the first column of
// each segment that is read out by itself, or once if scores are fetched again. With four query heads on one set of multipliers, each pass starts
// from zero.
func TestAccumulatorsBegin(t *testing.T) {
	for _, c := range []struct {
		beyond  string
		queries int
		want    []int32 // first tokens
	}{
		{pim.Refetch, 1, []int32{0}}, {pim.Segment, 1, []int32{0, 512, 1024}},
		{pim.Refetch, 4, []int32{0, 0, 0, 0}}, {pim.Segment, 4, []int32{0, 0, 0, 0, 512, 512, 512, 512, 1024, 1024, 1024, 1024}},
	} {
		spec, shape := pim.Default(), fp16Head
		spec.BeyondBuffer, spec.ScoreBuffer, shape.Queries = c.beyond, units.Bytes(1024*c.queries), c.queries
		p, err := NewProgram(spec, parts.DDR4(t), shape, []Head{{Context: 1300}})
		if err != nil {
			t.Fatal(err)
		}
		var got []int32
		for buffer := p.Next(nil); len(buffer) > 0; buffer = p.Next(buffer[:0]) {
			for i := range buffer {
				if buffer[i].Op == OpContext && buffer[i].First {
					got = append(got, buffer[i].Token)
				}
			}
		}
		spec.ProcessingUnit = pim.RankLevelUnit
		if p, err = NewProgram(spec, parts.DDR4(t), shape, []Head{{Context: 1300}}); err != nil {
			t.Fatal(err)
		}
		begun := map[int32]bool{}
		for buffer := p.Next(nil); len(buffer) > 0; buffer = p.Next(buffer[:0]) {
			for i := range buffer {
				if in := &buffer[i]; in.Op == OpReadValue && in.First {
					if begun[in.Token/512*512] = true; in.Token%512 >= int32(p.Geometry.ColumnTokens) {
						t.Errorf("%s: a rank's accumulators begin at token %d", c.beyond, in.Token)
					}
				}
			}
		}
		for _, token := range []int32{0, 512, 1024} {
			if begun[token] != slices.Contains(c.want, token) {
				t.Errorf("%s, %d query heads: a rank's accumulators begin at token %d: %v", c.beyond, c.queries, token, begun[token])
			}
		}
		if !slices.Equal(got, c.want) || p.SegmentTokens != 512 {
			t.Errorf("%s, %d query heads: accumulators begin at tokens %v of segments of %d, want %v", c.beyond, c.queries, got, p.SegmentTokens, c.want)
		}
	}
}

func TestProgramRefusesBadInput(t *testing.T) {
	d := parts.DDR4(t)
	for _, c := range []struct {
		name  string
		shape pim.HeadShape
		heads []Head
	}{
		{"head dimension", pim.HeadShape{HeadDim: 513, Queries: 1, ElementBits: 16}, nil},
		{"query heads", pim.HeadShape{HeadDim: 128, Queries: 0, ElementBits: 16}, nil},
		{"element width", pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 32}, nil},
		{"empty context", fp16Head, []Head{{Context: 0}}},
	} {
		if _, err := NewProgram(pim.Default(), d, c.shape, c.heads); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	small := pim.Default()
	small.ScoreBuffer = 16
	if _, err := NewProgram(small, d, pim.HeadShape{HeadDim: 128, Queries: 8, ElementBits: 16}, nil); err == nil {
		t.Error("a score buffer of less than a chunk: no error")
	}
}

// q follows the newest token on the channel: it loads as soon as the append's banks are precharged.
func TestQueryWaitsForTheAppend(t *testing.T) {
	d := parts.DDR4(t)
	for _, simultaneous := range []bool{false, true} {
		spec := pim.Default()
		if simultaneous {
			spec.Activation = pim.Simultaneous
		}
		p, err := NewProgram(spec, d, fp16Head, []Head{{Context: 100, Appends: true}, {Context: 600, FirstRow: 2, Appends: true}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewMachine(spec, d)
		if err != nil {
			t.Fatal(err)
		}
		o := &appendOrder{t: t, trp: int64(d.TRP), written: map[int32]int64{}, closed: map[int32]int64{}, loaded: map[int32]bool{}}
		m.Observe = o.Command
		m.Run(p)
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
	closed  map[int32]int64 // clock of the PREA after the append
	loaded  map[int32]bool
}

func (o *appendOrder) Command(clock int64, cmd dram.Command, _ dram.Address, in *Instruction) {
	switch {
	case in.Op == OpAppendKey, in.Op == OpAppendValue:
		o.written[in.Head] = clock
	case cmd == dram.PREA && o.closed[in.Head] == 0 && o.written[in.Head] > 0:
		o.closed[in.Head] = clock
	case in.Op == OpLoadQuery && !o.loaded[in.Head]:
		o.loaded[in.Head] = true
		if o.closed[in.Head] == 0 || clock < o.closed[in.Head]+o.trp {
			o.t.Errorf("head %d: q loads at clock %d, the append's banks close at %d", in.Head, clock, o.closed[in.Head]+o.trp)
		}
	}
}

// The next head's append and the head's own precharge do not delay its read-out: the bursts follow
// each other at the rank's full rate.
func TestReadOutIsNotHeldUp(t *testing.T) {
	d := parts.DDR4(t)
	spec := pim.Default()
	heads := []Head{{Context: 100, Appends: true}, {Context: 60, FirstRow: 2, Appends: true}, {Context: 600, FirstRow: 4, Appends: true}}
	for latency := 4; latency < 8; latency++ { // each phase of the bursts' four clocks
		spec.MACLatency = latency
		p, err := NewProgram(spec, d, fp16Head, heads)
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewMachine(spec, d)
		if err != nil {
			t.Fatal(err)
		}
		o := &readOuts{clocks: map[int32][]int64{}}
		m.Observe = o.Command
		m.Run(p)
		for head := range int32(3) {
			if clocks := o.clocks[head]; len(clocks) != 16 || clocks[15] != clocks[0]+15*4 {
				t.Errorf("MAC latency %d, head %d: read out at %v, want 16 bursts every 4 clocks", latency, head, clocks)
			}
		}
	}
}

// readOuts observes when the accumulators of each head are read.
type readOuts struct{ clocks map[int32][]int64 }

func (o *readOuts) Command(clock int64, _ dram.Command, _ dram.Address, in *Instruction) {
	if in.Op == OpReadContext {
		o.clocks[in.Head] = append(o.clocks[in.Head], clock)
	}
}

// TestEachHeadAppendsItsOwn: each head appends or not by its own setting, whatever the first head
// does.
func TestEachHeadAppendsItsOwn(t *testing.T) {
	for _, appends := range [][]bool{{true, false, true}, {false, true, false}} {
		var heads []Head
		for i, yes := range appends {
			heads = append(heads, Head{Context: 40, FirstRow: int32(2 * i), Appends: yes})
		}
		p, err := NewProgram(pim.Default(), parts.DDR4(t), fp16Head, heads)
		if err != nil {
			t.Fatal(err)
		}
		keys := make([]int, len(heads))
		for buffer := p.Next(nil); len(buffer) > 0; buffer = p.Next(buffer[:0]) {
			for i := range buffer {
				if buffer[i].Op == OpAppendKey {
					keys[buffer[i].Head]++
				}
			}
		}
		for i, yes := range appends {
			if want := map[bool]int{true: p.Geometry.KeyBursts}[yes]; keys[i] != want {
				t.Errorf("%v: head %d appends %d bursts of its key, want %d", appends, i, keys[i], want)
			}
		}
	}
}

// An append writes each burst of the newest key and value once, and opens each
// bank once, or twice where it holds a burst of both.
func TestAppendWritesEachBurstOnce(t *testing.T) {
	d := parts.DDR4(t)
	for _, dim := range []int{32, 64, 128, 256, 512} {
		shape := pim.HeadShape{HeadDim: dim, Queries: 1, ElementBits: 16}
		b, err := NewRunner(pim.Default(), d, shape)
		if err != nil {
			t.Fatal(err)
		}
		b.Machine.Repeats.On = false
		bursts := int64(b.Program.Geometry.KeyBursts)
		for context := 1; context <= 40; context++ {
			b.Attention(context)
			without := b.Machine.Counters
			b.Run(Head{Context: context, Appends: true})
			with := b.Machine.Counters
			opened := with.Commands[dram.ACT] - without.Commands[dram.ACT]
			if with.ops[OpAppendKey] != bursts || with.ops[OpAppendValue] != bursts || opened != 1+bursts {
				t.Errorf("d = %d, token %d: %d key and %d value bursts, %d banks opened, want %d, %d, %d", dim, context,
					with.ops[OpAppendKey], with.ops[OpAppendValue], opened, bursts, bursts, 1+bursts)
			}
		}
	}
}
