package values

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"
	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// halfHead is one query head of d = 128 in FP16.
var halfHead = pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}

// drawWidth draws a rank of either standard, of chips of one of these widths.
func drawWidth(t *rapid.T, widths ...int) *dram.Spec {
	width := rapid.SampledFrom(widths).Draw(t, "width")
	if rapid.SampledFrom([]string{"ddr4", "ddr4", "ddr5"}).Draw(t, "standard") == "ddr5" {
		return parts.Of(t, fmt.Sprintf("ddr5-4800-16gb-x%d", width))
	}
	d := parts.Of(t, "ddr4-3200-8gb-x8")
	if d.DeviceWidth = width; width == 16 { // x16 parts have two bank groups
		d.BankGroups = 2
	}
	return d
}

// drawPages returns a list of n tokens in pages of whole chunks that lie anywhere in the units of twice as many tokens.
func drawPages(t *rapid.T, g *pim.Geometry, n int) (list pim.TokenList) {
	row := g.RowTokens / g.ChunkTokens
	page := min(1<<rapid.IntRange(0, 5).Draw(t, "log page"), row)
	for row%page != 0 { // no page crosses the end of a row
		page /= 2
	}
	order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1)).Perm((g.Rows(n) + 2) * row / page)
	slices.Sort(order[:len(order)/2])
	for i := 0; i*page*g.ChunkTokens < n; i++ {
		list = append(list, pim.Extent{Start: i * page * g.ChunkTokens, Unit: order[i] * page / row, Chunk: order[i] * page % row})
	}
	return list
}

// headVectors are the operands of one head.
type headVectors struct {
	q, k, v [][]uint16
	narrow  *narrowTokens // the numbers that k and v represent; nil: 16 bits
	fp8     bool          // elements are FP8
}

// valueProblem is a random problem: heads of one shape, on one machine.
type valueProblem struct {
	spec    *pim.Spec
	device  *dram.Spec
	shape   pim.HeadShape
	storage Storage
	heads   []machine.Head
	vectors []headVectors
	rows    int
}

// dataKind makes an element of q, k or v.
type dataKind struct {
	name    string
	element func(r *rand.Rand, part, token, e int) float64 // of q (0), k (1) or v (2)
}

// dataKinds reach every limit of the formats.
var dataKinds = []dataKind{
	{"small", func(r *rand.Rand, part, _, _ int) float64 { return r.NormFloat64() * []float64{0.01, 1, 1}[part] }},
	{"ordinary", func(r *rand.Rand, _, _, _ int) float64 { return r.NormFloat64() }},
	{"peaked", func(r *rand.Rand, part, _, _ int) float64 { return r.NormFloat64() * []float64{4, 1, 1}[part] }},
	{"raw scores that overflow", func(r *rand.Rand, part, _, _ int) float64 { return r.NormFloat64() * []float64{300, 100, 1}[part] }},
	{"infinite scores", func(r *rand.Rand, part, _, _ int) float64 {
		return math.Abs(r.NormFloat64()) * []float64{3000, 3000, 1}[part]
	}},
	{"values that underflow", func(r *rand.Rand, part, _, _ int) float64 { return r.NormFloat64() * []float64{1, 1, 1e-5}[part] }},
	{"subnormals", func(r *rand.Rand, _, _, _ int) float64 { return r.NormFloat64() * 1e-6 }},
	{"zeros", func(*rand.Rand, int, int, int) float64 { return 0 }},
	{"zero scores", func(r *rand.Rand, part, _, _ int) float64 { return r.NormFloat64() * []float64{0, 1, 1}[part] }},
	{"all equal", func(*rand.Rand, int, int, int) float64 { return 0.3 }},
	{"equal keys", func(_ *rand.Rand, part, token, e int) float64 {
		return math.Sin(float64(e) + float64(part)*float64(token))
	}},
	{"one huge element", func(r *rand.Rand, _, token, e int) float64 {
		if token == 3 && e == 5 {
			return 65504
		}
		return r.NormFloat64()
	}},
	{"values of one sign", func(r *rand.Rand, part, _, _ int) float64 { return []float64{0.1, 1, 1}[part] * (1 + r.Float64()) }},
	{"signs by turns", func(r *rand.Rand, _, token, e int) float64 { return float64(1-(token+e)%2*2) * (1 + r.Float64()) }},
	{"huge values", func(r *rand.Rand, part, _, _ int) float64 { return r.NormFloat64() * []float64{1, 1, 30000}[part] }},
	{"any number", func(r *rand.Rand, _, _, _ int) float64 {
		return float64(float16.Frombits(uint16(r.IntN(0x7c00) | r.IntN(2)<<15)).Float32())
	}},
}

// vectors returns the operands of one head of tokens tokens.
func (k *dataKind) vectors(r *rand.Rand, storage Storage, shape pim.HeadShape, tokens int) headVectors {
	var parts [3][][]uint16
	for part, n := range []int{shape.Queries, tokens, tokens} {
		for token := range n {
			vector := make([]uint16, []int{shape.HeadDim, shape.HeadDim, shape.ValueWidth()}[part])
			for e := range vector {
				vector[e] = storage.encode(float32(k.element(r, part, token, e)))
			}
			parts[part] = append(parts[part], vector)
		}
	}
	return headVectors{q: parts[0], k: parts[1], v: parts[2]}
}

func drawFormat(t *rapid.T, name string) pim.Format {
	return rapid.SampledFrom([]pim.Format{pim.FP16, pim.FP32}).Draw(t, name)
}

func drawProblem(tb testing.TB, t *rapid.T) *valueProblem {
	p := &valueProblem{spec: pim.Default(), device: drawWidth(t, 8, 8, 4, 16)}
	p.spec.Precision.Preset = rapid.SampledFrom([]string{"fp32", "paper"}).Draw(t, "preset")
	if rapid.Bool().Draw(t, "mixed") {
		for _, s := range p.spec.Precision.Stages() {
			*s.Format = drawFormat(t, s.Key)
		}
	}
	p.spec.NormalizedWeights = rapid.Bool().Draw(t, "normalised")
	p.spec.ProcessingUnit = rapid.SampledFrom([]string{pim.BankUnits, pim.BankUnits, pim.RankLevelUnit}).Draw(t, "unit")
	p.spec.MACsPerRead = rapid.IntRange(1, 4).Draw(t, "macs")
	p.spec.BeyondBuffer = rapid.SampledFrom([]string{pim.Refetch, pim.Segment}).Draw(t, "beyond")
	if rapid.Bool().Draw(t, "small buffer") {
		p.spec.ScoreBuffer = 1024
	}
	p.storage = rapid.SampledFrom([]Storage{StoreFP16, StoreBF16}).Draw(t, "storage")
	dims := []int{8, 16, 33, 64, 80, 128, 200, 256, 512}
	if p.device.Banks() == 8 {
		dims = dims[:8] // eight banks hold no value of 512 elements
	}
	p.shape = pim.HeadShape{HeadDim: rapid.SampledFrom(dims).Draw(t, "d"), Queries: rapid.IntRange(1, 8).Draw(t, "queries"), ElementBits: 16}
	p.shape.ValueDim = rapid.SampledFrom(append([]int{0, 0, 0, 0}, dims...)).Draw(t, "value d")
	if p.shape.ValueDim > 0 && p.device.Banks() > 8 && rapid.Bool().Draw(t, "latent") {
		p.shape.HeadDim, p.shape.ValueDim = 576, 512
	}
	p.spec.Multipliers = rapid.SampledFrom([]int{0, 0, 4, 8, 3}).Draw(t, "multipliers")
	p.shape.KVBits = rapid.SampledFrom([]int{0, 16, 8, 4}).Draw(t, "kv bits")
	p.shape.KVFloat = p.shape.KVBits == 8 && rapid.Bool().Draw(t, "fp8")
	if p.shape.StoredBits() < 16 && !p.shape.KVFloat && rapid.Bool().Draw(t, "scales by element") {
		p.shape.KeyGroup = p.device.Banks() * rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "group")
	}
	if p.shape.StoredBits() < 16 && !p.shape.KVFloat && rapid.Bool().Draw(t, "scales in rows") {
		p.shape.ScaleBytes = 4
		for p.shape.KeyGroup > 0 && p.shape.KeyGroup < p.shape.HeadDim { // so that each token has a place
			p.shape.KeyGroup *= 2
		}
		if _, err := pim.NewGeometry(p.device, p.shape); err != nil { // rows that such groups do not divide
			p.shape.ScaleBytes, p.shape.KeyGroup = 0, min(p.shape.KeyGroup, p.device.Banks())
		}
	}
	g, err := pim.NewGeometry(p.device, p.shape)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := machine.NewProgram(p.spec, p.device, p.shape, nil); err != nil {
		if strings.Contains(err.Error(), "REFs") && p.shape.ValueDim > 0 {
			t.Skip(err) // the rows of wide keys take longer than REFs can wait
		}
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
	kind := rapid.SampledFrom(dataKinds).Draw(t, "data")
	for range rapid.IntRange(1, 2).Draw(t, "heads") {
		n := rapid.IntRange(1, 300).Draw(t, "context")
		h := machine.Head{Context: n, FirstRow: int32(p.rows), Appends: rapid.Bool().Draw(t, "append")}
		p.rows += g.Rows(n)
		if rapid.Bool().Draw(t, "list") {
			h.List = drawPages(t, &g, n)
			p.rows += g.Rows(n) + 4
		}
		p.heads = append(p.heads, h)
		v := kind.vectors(r, p.storage, p.shape, n)
		if p.shape.StoredBits() < 16 {
			v.quantise(p, &g, &h)
		}
		p.vectors = append(p.vectors, v)
	}
	return p
}

// machine returns a machine with the heads' tokens stored, except those that are appended, and the
// data of its heads.
func (p *valueProblem) machine(t rapid.TB) (*valueMachine, *machine.Program, []headData) {
	m, err := newValueMachine(p.spec, p.device, p.shape, p.storage, p.rows)
	if err != nil {
		t.Fatal(err)
	}
	var data []headData
	for i, h := range p.heads {
		v, last := &p.vectors[i], h.Context-1
		for token := range h.Context {
			unit, within, _ := h.List.Place(&m.mapping.Geometry, token)
			place := unit*m.mapping.RowTokens + within
			if n := p.shape.KeyGroup; n > 0 {
				if err := m.storeGroup(h.FirstRow, place/n, v.narrow.elements[token]); err != nil {
					t.Fatal(err)
				}
			}
			if token == last && h.Appends {
				break
			}
			if err := m.store(h.FirstRow, place, v.k[token], v.v[token]); err != nil {
				t.Fatal(err)
			}
			if v.narrow != nil {
				if err := m.storeScales(h.FirstRow, place, v.scales(token)); err != nil {
					t.Fatal(err)
				}
			}
		}
		data = append(data, headData{query: v.q, key: v.k[last], value: v.v[last], scales: v.scales(last)})
	}
	program, err := machine.NewProgram(p.spec, p.device, p.shape, p.heads)
	if err != nil {
		t.Fatal(err)
	}
	return m, program, data
}

// direct returns the direct computation of the problem, rounded by a library.
func (p *valueProblem) direct(t rapid.TB) *direct {
	x, err := newDirect(p.spec, p.device, p.shape)
	if err != nil {
		t.Fatal(err)
	}
	x.round16 = func(v float32) float32 { return float16.Fromfloat32(v).Float32() }
	return x
}

// decode widens stored vectors into one array.
func decode(storage Storage, x [][]uint16) (out []float32) {
	for i := range x {
		for _, h := range x[i] {
			if storage == StoreBF16 {
				out = append(out, math.Float32frombits(uint32(h)<<16))
			} else {
				out = append(out, float16.Frombits(h).Float32())
			}
		}
	}
	return out
}

func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// The program gives, bit for bit, the result of a direct computation with the same roundings in the
// same order: for random data, shapes, lengths, precisions, chip widths, storage formats, and
// beyond the score buffer.
func TestValuesAreTheDirectComputation(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) { drawProblem(tb, t).compare(t) })
}

// The same for the paper's formats on every kind of data, every head dimension, every width of keys and values
// and every group size. Short runs take every other pair of kind and dimension.
func TestPaperFormatsAreTheDirectComputation(t *testing.T) {
	deep.Heavy(t)
	for at := range dataKinds {
		kind := &dataKinds[at]
		t.Run(kind.name, func(t *testing.T) {
			for nth, dim := range []int{8, 16, 32, 64, 80, 128, 256, 512} {
				if (nth != at%8 || at%2 != 0) && !deep.On() || (nth+at)%2 != 0 && !deep.Long() {
					continue
				}
				queries := (at+nth)%8 + 1 // of each dimension, several
				for i, tokens := range []int{1, 21, 290, 290, 290} {
					p := &valueProblem{spec: pim.Default(), device: parts.DDR4(t), shape: pim.HeadShape{HeadDim: dim, Queries: queries, ElementBits: 16, KVBits: []int{16, 16, 16, 8, 4}[i]}}
					g, err := pim.NewGeometry(p.device, p.shape)
					if err != nil {
						t.Fatal(err)
					}
					p.heads, p.rows = []machine.Head{{Context: tokens, Appends: true}}, g.Rows(tokens)
					v := kind.vectors(rand.New(rand.NewPCG(uint64(dim), uint64(tokens))), StoreFP16, p.shape, tokens)
					if p.shape.StoredBits() < 16 {
						v.quantise(p, &g, &p.heads[0])
					}
					p.vectors = []headVectors{v}
					p.compare(t)
				}
			}
		})
	}
}

// compare runs the problem and compares outputs and log-sum-exps with the
// direct computation.
func (p *valueProblem) compare(t rapid.TB) {
	m, program, data := p.machine(t)
	results, err := m.run(program, data)
	if err != nil {
		t.Fatal(err)
	}
	x := p.direct(t)
	for i := range p.heads {
		v, dim := &p.vectors[i], p.shape.HeadDim
		q, keys, values := decode(p.storage, v.q), v.widen(p.storage, v.k), v.widen(p.storage, v.v)
		if p.shape.ValueInKey {
			values = keys
		}
		x.narrow = v.narrow
		for h := range v.q {
			want := make([]float32, p.shape.ValueWidth())
			lse := x.attention(want, q[h*dim:][:dim], keys, values)
			for e := range want {
				if got := results[i].out[h][e]; !sameBits(got, want[e]) {
					t.Fatalf("d = %d, head %d, query head %d of %d, element %d: %g, want %g", dim, i, h, len(v.q), e, got, want[e])
				}
			}
			if differing(results[i].lse[h:h+1], []float64{lse}) > 0 {
				t.Fatalf("d = %d, head %d, query head %d: log-sum-exp %v, want %v", dim, i, h, results[i].lse[h], lse)
			}
		}
	}
}

// An instruction for a row that is not open is an error of the program.
func TestMachineRefusesClosedRows(t *testing.T) {
	m, p, data := storedHead(t, pim.Default(), halfHead, 40, 1)
	if err := m.begin(p, data); err != nil {
		t.Fatal(err)
	}
	in := machine.AllBanks(dram.MACA, machine.OpScore, 0, 0)
	if err := m.execute(&in); err == nil || !strings.Contains(err.Error(), "while row -1 is open") {
		t.Errorf("got %v", err)
	}
	open := machine.AllBanks(dram.ACTA, machine.OpActivate, 1, -1)
	if err := m.execute(&open); err != nil {
		t.Fatal(err)
	}
	if err := m.execute(&in); err == nil || !strings.Contains(err.Error(), "while row 1 is open") {
		t.Errorf("got %v", err)
	}
	if err := m.buffer.keep(0, m.buffer.segment-1, make([]float32, 2)); err == nil {
		t.Error("the score buffer overflows")
	}
	if err := m.store(5, 0, data[0].query[0], data[0].query[0]); err == nil {
		t.Error("a row beyond the machine is written")
	}
	if _, err := m.run(p, nil); err == nil {
		t.Error("a head without data runs")
	}
	other, err := machine.NewProgram(pim.Default(), parts.DDR4(t), pim.HeadShape{HeadDim: 64, Queries: 1, ElementBits: 16}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.run(other, nil); err == nil {
		t.Error("a program of another shape runs")
	}
	if _, err := newValueMachine(pim.Default(), parts.DDR4(t), pim.HeadShape{HeadDim: 64, Queries: 1, ElementBits: 8}, StoreFP16, 2); err == nil {
		t.Error("8-bit queries are multiplied")
	}
}

// Nothing is allocated for each element or instruction.
func TestValuesAllocateNothing(t *testing.T) {
	m, p, data := storedHead(t, pim.Default(), halfHead, 2000, 1)
	heads := p.Heads
	run := func() {
		p.Restart(heads)
		if _, err := m.run(p, data); err != nil {
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
	spec := pim.Default()
	spec.Precision.Preset = "fp32"
	m, p, data := storedHead(t, spec, halfHead, 777, 1)
	results, err := m.run(p, data)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 777))
	k, v := randomVectors(r, StoreFP16, 777, 128, 1), randomVectors(r, StoreFP16, 777, 128, 1)
	out := make([]float64, 128)
	lse := attention.Reference(out, decode(StoreFP16, data[0].query), decode(StoreFP16, k), decode(StoreFP16, v), 1/math.Sqrt(128))
	if math.Abs(results[0].lse[0]-lse) > 1e-5 {
		t.Errorf("got %v, want %v", results[0].lse[0], lse)
	}
}
