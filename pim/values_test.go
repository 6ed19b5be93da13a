package pim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/dram"
	"pgregory.net/rapid"
)

// headVectors are the operands of one head.
type headVectors struct{ q, k, v [][]uint16 }

// valueProblem is a random problem: heads of one shape, on one machine.
type valueProblem struct {
	spec    *Spec
	device  *dram.Spec
	shape   HeadShape
	storage Storage
	heads   []Head
	vectors []headVectors
	rows    int
}

func drawFormat(t *rapid.T, name string) Format {
	return rapid.SampledFrom([]Format{FP16, FP32}).Draw(t, name)
}

func drawProblem(tb testing.TB, t *rapid.T) *valueProblem {
	p := &valueProblem{spec: Default(), device: deviceOf(tb, rapid.SampledFrom([]int{8, 8, 4, 16}).Draw(t, "width"))}
	p.spec.Precision.Preset = rapid.SampledFrom(PrecisionNames()).Draw(t, "preset")
	if rapid.Bool().Draw(t, "mixed") {
		for _, s := range p.spec.Precision.stages() {
			*s.format = drawFormat(t, s.key)
		}
	}
	p.spec.NormalisedWeights = rapid.Bool().Draw(t, "normalised")
	p.spec.MACsPerRead = rapid.IntRange(1, 4).Draw(t, "macs")
	p.spec.BeyondBuffer = rapid.SampledFrom([]string{Refetch, Segment}).Draw(t, "beyond")
	if rapid.Bool().Draw(t, "small buffer") {
		p.spec.ScoreBuffer = 1024
	}
	p.storage = rapid.SampledFrom([]Storage{StoreFP16, StoreBF16}).Draw(t, "storage")
	dims := []int{8, 16, 33, 64, 80, 128, 200, 256}
	p.shape = HeadShape{HeadDim: rapid.SampledFrom(dims).Draw(t, "d"), Queries: rapid.IntRange(1, 8).Draw(t, "queries"), ElementBits: 16}
	g, err := NewGeometry(p.device, p.shape)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
	size := rapid.SampledFrom([]float64{0.01, 1, 4}).Draw(t, "size")
	for range rapid.IntRange(1, 2).Draw(t, "heads") {
		n := rapid.IntRange(1, 300).Draw(t, "context")
		p.heads = append(p.heads, Head{Context: n, FirstRow: int32(p.rows), Append: rapid.Bool().Draw(t, "append")})
		p.rows += g.Rows(n)
		p.vectors = append(p.vectors, headVectors{
			q: randomVectors(r, p.storage, p.shape.Queries, p.shape.HeadDim, size),
			k: randomVectors(r, p.storage, n, p.shape.HeadDim, 1), v: randomVectors(r, p.storage, n, p.shape.HeadDim, 1),
		})
	}
	return p
}

// machine returns a machine with the heads' tokens stored, but for those that
// are appended, and the data of its heads.
func (p *valueProblem) machine(t rapid.TB) (*ValueMachine, *Program, []HeadData) {
	m, err := NewValueMachine(p.spec, p.device, p.shape, p.storage, p.rows)
	if err != nil {
		t.Fatal(err)
	}
	var data []HeadData
	for i, h := range p.heads {
		v, last := &p.vectors[i], h.Context-1
		for token := range h.Context {
			if token == last && h.Append {
				break
			}
			if err := m.Store(h.FirstRow, token, v.k[token], v.v[token]); err != nil {
				t.Fatal(err)
			}
		}
		data = append(data, HeadData{Query: v.q, Key: v.k[last], Value: v.v[last]})
	}
	program, err := NewProgram(p.spec, p.device, p.shape, p.heads)
	if err != nil {
		t.Fatal(err)
	}
	return m, program, data
}

func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// The program gives, bit for bit, what a direct computation with the same
// roundings in the same order gives: for random shapes, lengths, precisions,
// chip widths, storage formats, and beyond the score buffer.
func TestValuesAreTheDirectComputation(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		p := drawProblem(tb, t)
		m, program, data := p.machine(t)
		results, err := m.Run(program, data)
		if err != nil {
			t.Fatal(err)
		}
		x := direct{p: p.spec.Precision.Resolve(), normalised: p.spec.NormalisedWeights, dim: p.shape.HeadDim,
			width: p.device.DeviceWidth, banks: p.device.Banks(), segment: program.SegmentTokens, merge: p.spec.BeyondBuffer == Segment}
		for i := range p.heads {
			v := &p.vectors[i]
			q, keys, values := decode(p.storage, v.q), decode(p.storage, v.k), decode(p.storage, v.v)
			for h := range q {
				want := x.attention(q[h], keys, values)
				for e := range want {
					if got := results[i].Out[h][e]; !sameBits(got, want[e]) {
						t.Fatalf("head %d, query head %d, element %d: %g, want %g", i, h, e, got, want[e])
					}
				}
			}
		}
	})
}

// Replayed in the order of the timed run, with each datum valid only from its
// clock, the program gives the same bits.
func TestReplayGivesTheSameValues(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		p := drawProblem(tb, t)
		p.spec.Activation = rapid.SampledFrom([]string{Staggered, Simultaneous}).Draw(t, "activation")
		p.spec.SoftmaxLatency = rapid.IntRange(0, 200).Draw(t, "softmax latency")
		m, program, data := p.machine(t)
		results, err := m.Run(program, data)
		if err != nil {
			t.Fatal(err)
		}
		var want []float32
		for i := range results {
			for _, out := range results[i].Out {
				want = append(want, out...)
			}
		}
		again, program, data := p.machine(t)
		clock, err := NewMachine(p.spec, p.device)
		if err != nil {
			t.Fatal(err)
		}
		clock.Refresh(rapid.Bool().Draw(t, "refresh"))
		results, err = again.Replay(clock, program, data)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range results {
			for _, out := range results[i].Out {
				for _, got := range out {
					if !sameBits(got, want[n]) {
						t.Fatalf("head %d: %g in program order, %g by the clock", i, want[n], got)
					}
					n++
				}
			}
		}
	})
}

// A replay of many rows, with the refreshes that fall between them.
func TestReplayOfALongHead(t *testing.T) {
	spec := precision("fp32")
	shape := HeadShape{HeadDim: 128, Queries: 2, ElementBits: 16}
	m, p, data := storedHead(t, spec, shape, 30000, 1)
	heads := p.Heads
	results, err := m.Run(p, data)
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(results[0].Out[0]), results[0].Out[1]...)
	clock, err := NewMachine(spec, ddr4(t))
	if err != nil {
		t.Fatal(err)
	}
	clock.Refresh(true)
	p.Restart(heads)
	if results, err = m.Replay(clock, p, data); err != nil {
		t.Fatal(err)
	}
	if got := append(slices.Clone(results[0].Out[0]), results[0].Out[1]...); !slices.Equal(got, want) {
		t.Error("the replay gives other values")
	}
	if n := clock.Counters().Commands[dram.REF]; n == 0 {
		t.Error("no refresh fell into the head")
	}
}

// A unit that is slower than the timing believed shows in the values.
func TestReplaySeesDataThatIsTooLate(t *testing.T) {
	p := &valueProblem{spec: Default(), device: ddr4(t), shape: fp16Head, heads: []Head{{Context: 100, Append: true}}, rows: 2}
	r := rand.New(rand.NewPCG(1, 1))
	p.vectors = []headVectors{{q: randomVectors(r, StoreFP16, 1, 128, 1), k: randomVectors(r, StoreFP16, 100, 128, 1), v: randomVectors(r, StoreFP16, 100, 128, 1)}}
	for _, c := range []struct {
		name string
		slow func(s *Spec, d *dram.Spec)
		nan  bool
	}{
		{"as timed", func(*Spec, *dram.Spec) {}, false},
		{"softmax", func(s *Spec, _ *dram.Spec) { s.SoftmaxLatency++ }, true},
		{"MAC", func(s *Spec, _ *dram.Spec) { s.MACLatency += 40 }, true},
		{"bus", func(_ *Spec, d *dram.Spec) { d.CWL += 40 }, true},
	} {
		m, program, data := p.machine(t)
		clock, err := NewMachine(p.spec, p.device)
		if err != nil {
			t.Fatal(err)
		}
		slowSpec, slowDevice := *p.spec, *p.device
		c.slow(&slowSpec, &slowDevice)
		clock.spec, clock.device = &slowSpec, &slowDevice // what the replay believes; the timing state is as it was
		results, err := m.Replay(clock, program, data)
		if err != nil {
			t.Fatal(err)
		}
		if out := results[0].Out[0][0]; (out != out) != c.nan {
			t.Errorf("%s: output %v, NaN expected: %v", c.name, out, c.nan)
		}
	}
}

// An instruction for a row that is not open is an error of the program.
func TestMachineRefusesClosedRows(t *testing.T) {
	m, p, data := storedHead(t, Default(), fp16Head, 40, 1)
	if err := m.begin(p, data); err != nil {
		t.Fatal(err)
	}
	in := allBanks(dram.MACA, OpScore, 0, 0)
	if err := m.execute(&in); err == nil || !strings.Contains(err.Error(), "while row -1 is open") {
		t.Errorf("got %v", err)
	}
	open := allBanks(dram.ACTA, OpActivate, 1, -1)
	if err := m.execute(&open); err != nil {
		t.Fatal(err)
	}
	if err := m.execute(&in); err == nil || !strings.Contains(err.Error(), "while row 1 is open") {
		t.Errorf("got %v", err)
	}
	if err := m.rank.keep(0, m.rank.segment-1, make([]float32, 2)); err == nil {
		t.Error("the score buffer overflows")
	}
	if err := m.Store(5, 0, data[0].Query[0], data[0].Query[0]); err == nil {
		t.Error("a row beyond the machine is written")
	}
	if _, err := m.Run(p, nil); err == nil {
		t.Error("a head without data runs")
	}
	other, err := NewProgram(Default(), ddr4(t), HeadShape{HeadDim: 64, Queries: 1, ElementBits: 16}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(other, nil); err == nil {
		t.Error("a program of another shape runs")
	}
	if _, err := NewValueMachine(Default(), ddr4(t), HeadShape{HeadDim: 64, Queries: 1, ElementBits: 8}, StoreFP16, 2); err == nil {
		t.Error("8-bit elements are multiplied")
	}
}

// Nothing is allocated for each element or instruction.
func TestValuesAllocateNothing(t *testing.T) {
	m, p, data := storedHead(t, Default(), fp16Head, 2000, 1)
	heads := p.Heads
	run := func() {
		p.Restart(heads)
		if _, err := m.Run(p, data); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(3, run); n > 0 {
		t.Errorf("%v allocations a run", n)
	}
}

// The softmax unit's log-sum-exp is the reference's.
func TestLogSumExp(t *testing.T) {
	spec := Default()
	spec.Precision.Preset = "fp32"
	m, p, data := storedHead(t, spec, fp16Head, 777, 1)
	results, err := m.Run(p, data)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 777))
	k, v := randomVectors(r, StoreFP16, 777, 128, 1), randomVectors(r, StoreFP16, 777, 128, 1)
	flat := func(x [][]uint16) (y []float32) {
		for _, row := range decode(StoreFP16, x) {
			y = append(y, row...)
		}
		return y
	}
	out := make([]float64, 128)
	lse := attention.Reference(out, flat(data[0].Query), flat(k), flat(v), 1/math.Sqrt(128))
	if math.Abs(results[0].LSE[0]-lse) > 1e-5 {
		t.Errorf("got %v, want %v", results[0].LSE[0], lse)
	}
}
