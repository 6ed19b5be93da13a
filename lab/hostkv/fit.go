package hostkv

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// link returns the bandwidth of that GPU's links.
func link() units.Bandwidth { s := pcie.Typical(5); return s.Bandwidth() }

// sample is one measured time, to be predicted by a set of parameters.
type sample struct {
	measured float64 // microseconds
	of       func(g *pcie.Gather) float64
	// least is the smallest denominator of an error, in microseconds: differences of iterations scatter.
	least float64
}

// Measured is the files of one machine.
type Measured struct {
	Fetches    []Fetch
	Beside     []Beside
	Iterations []Row
}

// ReadAll reads the three files of a machine in a folder.
func ReadAll(folder string) (m Measured, err error) {
	if m.Fetches, err = ReadFetches(folder + "/fetch.csv"); err != nil {
		return m, err
	}
	if m.Beside, err = ReadBeside(folder + "/beside.csv"); err != nil {
		return m, err
	}
	m.Iterations, err = Read(folder + "/hostkv.csv")
	return m, err
}

// alone returns fetches without other work: those of fetches' own files, those measured next to a product, and the time that fetches
// in kernel order add to an iteration.
func (m *Measured) alone() (all []sample) {
	fetch := func(f *Fetch) sample {
		return sample{measured: f.US, of: func(g *pcie.Gather) float64 { return g.Time(&f.Rows, link(), 1).Microseconds() }}
	}
	for i := range m.Fetches {
		all = append(all, fetch(&m.Fetches[i]))
	}
	for i := range m.Beside {
		all = append(all, fetch(&m.Beside[i].Fetch))
	}
	base := bases(m.Iterations)
	for i := range m.Iterations {
		x := &m.Iterations[i]
		none, ok := base[caseOf(x)]
		if x.Mode != Inline || !ok {
			continue
		}
		rows := x.rowsOf(x.Batch, manyBlocks)
		least := 0.0
		if x.Misses > 0 {
			least = none.MS * 1e3 / float64(x.Layers) / 10
		}
		all = append(all, sample{
			measured: (x.MS - none.MS) * 1e3 / float64(x.Layers), least: least,
			of: func(g *pcie.Gather) float64 { return (g.LookUp + g.Time(&rows, link(), 1)).Microseconds() },
		})
	}
	return all
}

// loss returns the mean of |log(predicted/measured)|.
func loss(g *pcie.Gather, samples []sample) float64 {
	sum := 0.0
	for i := range samples {
		s := &samples[i]
		sum += math.Abs(math.Log(max(s.of(g), s.least) / max(s.measured, s.least)))
	}
	return sum / float64(len(samples))
}

// parameter is one of the numbers of a Gather.
type parameter struct {
	get func(g *pcie.Gather) float64
	set func(g *pcie.Gather, v float64)
}

func duration(of func(g *pcie.Gather) *units.Duration) parameter {
	return parameter{
		func(g *pcie.Gather) float64 { return of(g).Seconds() },
		func(g *pcie.Gather, v float64) { *of(g) = units.FromSeconds(portable.Significant(v, 3)) },
	}
}

func number(of func(g *pcie.Gather) *float64) parameter {
	return parameter{func(g *pcie.Gather) float64 { return *of(g) }, func(g *pcie.Gather, v float64) { *of(g) = portable.Significant(v, 3) }}
}

// aloneParameters are those of a fetch without other work.
var aloneParameters = []parameter{
	duration(func(g *pcie.Gather) *units.Duration { return &g.Start }),
	number(func(g *pcie.Gather) *float64 { return &g.Share }),
	duration(func(g *pcie.Gather) *units.Duration { return &g.Round }),
	{func(g *pcie.Gather) float64 { return float64(g.Reach) }, func(g *pcie.Gather, v float64) { g.Reach = units.Bytes(v/float64(units.MiB)) * units.MiB }},
	duration(func(g *pcie.Gather) *units.Duration { return &g.Walk }),
	duration(func(g *pcie.Gather) *units.Duration { return &g.Fill }),
	duration(func(g *pcie.Gather) *units.Duration { return &g.LookUp }),
}

// Fit returns the parameters that minimise the mean of |log(predicted/measured)|.
func Fit(m *Measured) (pcie.Gather, error) { return fit(m.alone()) }

func fit(samples []sample) (pcie.Gather, error) {
	g := pcie.MeasuredGather()
	start, x := g, make([]float64, len(aloneParameters))
	place := func(x []float64) {
		for i, p := range aloneParameters {
			p.set(&g, p.get(&start)*math.Exp(x[i]))
		}
		g.Share = min(g.Share, 1)
	}
	f := func(x []float64) float64 { place(x); return loss(&g, samples) }
	for _, size := range []float64{0.3, 0.1, 0.2} {
		r, err := optimize.Minimize(optimize.Problem{Func: f}, x, &optimize.Settings{FuncEvaluations: 1500}, &optimize.NelderMead{SimplexSize: size})
		if r == nil {
			return g, err
		}
		x = r.X
	}
	place(x)
	return g, nil
}

// Errors is the quantiles of absolute relative errors.
type Errors struct {
	Rows   int     `json:"rows"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Bias   float64 `json:"bias"` // mean, signed
}

// errorsOf returns the errors of ratios of predicted over measured.
func errorsOf(ratios []float64) (e Errors) {
	e.Rows = len(ratios)
	if e.Rows == 0 {
		return e
	}
	off := make([]float64, len(ratios))
	for i, r := range ratios {
		off[i] = math.Abs(r - 1)
		e.Bias += (r - 1) / float64(len(ratios))
	}
	slices.Sort(off)
	e.Median, e.P90 = portable.Quantile(off, 0.5), portable.Quantile(off, 0.9)
	return e
}

// judgeFetches returns the errors of fetches without other work.
func judgeFetches(g *pcie.Gather, samples []sample) Errors {
	var ratios []float64
	for i := range samples {
		ratios = append(ratios, samples[i].of(g)/samples[i].measured)
	}
	return errorsOf(ratios)
}

// JudgeBeside returns the errors of fetches that run beside products, and of the products.
func JudgeBeside(g *pcie.Gather, rows []Beside) (fetch, product Errors) {
	var fetches, products []float64
	for i := range rows {
		b := &rows[i]
		took, share := g.BesideKernel(g.Time(&b.Rows, link(), 1), units.FromSeconds(b.ProductAlone*1e-6))
		fetches = append(fetches, took.Microseconds()/b.FetchBeside)
		products = append(products, b.ProductAlone*g.ProductSlowed(b.Grid, share)/b.ProductBeside)
	}
	return errorsOf(fetches), errorsOf(products)
}

// case_ identifies the rows of a measured iteration that share a row without transfers.
type case_ struct {
	two                    bool
	batch, context, layers int
}

func caseOf(x *Row) case_ { return case_{x.Mode[:2] == "tw", x.Batch, x.Context, x.Layers} }

// bases returns the rows without transfers.
func bases(rows []Row) map[case_]*Row {
	all := map[case_]*Row{}
	for i := range rows {
		if x := &rows[i]; x.Mode == None || x.Mode == TwoNone {
			all[caseOf(x)] = x
		}
	}
	return all
}
