package measure

import (
	"math"
	"sort"

	"github.com/l3sim/l3sim/input/list"
)

// Errors summarises relative errors of predictions over measurements, as fractions: 0.1 is 10%.
type Errors struct {
	Points   int     `json:"points"`
	MAPE     float64 `json:"mape"`       // mean absolute
	Median   float64 `json:"median_ape"` // median absolute
	P90      float64 `json:"p90_ape"`    // 90th percentile (nearest rank) of the absolute
	Bias     float64 `json:"bias"`       // mean signed: positive if predictions are too slow
	Relative []Point `json:"-"`          // by sample, in order
}

// Point is a sample with its prediction.
type Point struct {
	Sample    Sample
	Predicted float64 // seconds or joules
	Error     float64 // Predicted/measured − 1
}

// Judge compares a target with samples, all of them together.
func (t *Target) Judge(samples []Sample) Errors {
	e := Errors{Points: len(samples)}
	absolute := make([]float64, len(samples))
	for i := range samples {
		p := t.Predict(&samples[i])
		relative := p/samples[i].Seconds - 1
		e.Relative = append(e.Relative, Point{Sample: samples[i], Predicted: p, Error: relative})
		absolute[i] = math.Abs(relative)
	}
	e.summarise(absolute)
	return e
}

// summarise sets the statistics from e.Relative and its absolute values, which it sorts.
func (e *Errors) summarise(absolute []float64) {
	n := float64(len(absolute))
	if n == 0 {
		return
	}
	for i := range absolute {
		e.MAPE += absolute[i] / n
		e.Bias += e.Relative[i].Error / n
	}
	sort.Float64s(absolute)
	rank := func(q float64) float64 { return absolute[int(math.Ceil(q*n))-1] }
	e.Median, e.P90 = rank(0.5), rank(0.9)
}

// Worst returns up to n points with the largest absolute errors, largest first;
// equal ones in the order of the samples.
func (e *Errors) Worst(n int) []Point {
	worst := append([]Point(nil), e.Relative...)
	sort.SliceStable(worst, func(i, j int) bool { return math.Abs(worst[i].Error) > math.Abs(worst[j].Error) })
	return worst[:min(n, len(worst))]
}

// ByKind splits samples by kind, keeping their order.
func ByKind(samples []Sample) map[Kind][]Sample {
	split := map[Kind][]Sample{}
	for _, s := range samples {
		split[s.kind] = append(split[s.kind], s)
	}
	return split
}

// Region is a part of a kind's samples that is reported separately.
type Region struct {
	Name string
	in   func(*Sample) bool
}

// Regions returns the parts of a kind whose causes of error differ.
func Regions(kind Kind) []Region {
	switch kind {
	case GEMM:
		return []Region{
			{"m = 1", func(s *Sample) bool { return s.m == 1 }},
			{"1 < m <= 32", func(s *Sample) bool { return s.m > 1 && s.m <= 32 }},
			{"32 < m <= 256", func(s *Sample) bool { return s.m > 32 && s.m <= 256 }},
			{"m > 256", func(s *Sample) bool { return s.m > 256 }},
		}
	case Decode:
		return []Region{
			{"context < 1024", func(s *Sample) bool { return s.context < 1024 }},
			{"context >= 1024", func(s *Sample) bool { return s.context >= 1024 }},
		}
	case Prefill:
		return []Region{
			{"chunk < 512", func(s *Sample) bool { return s.chunk < 512 }},
			{"chunk >= 512", func(s *Sample) bool { return s.chunk >= 512 }},
		}
	case AllReduce:
		return []Region{
			{"below 0.1 MB", func(s *Sample) bool { return s.bytes < 1e5 }},
			{"0.1 to 1 MB", func(s *Sample) bool { return s.bytes >= 1e5 && s.bytes <= 1e6 }},
			{"above 1 MB", func(s *Sample) bool { return s.bytes > 1e6 }},
		}
	case DecodeIteration:
		return []Region{
			{"batch <= 16", func(s *Sample) bool { return s.batch <= 16 }},
			{"batch > 16", func(s *Sample) bool { return s.batch > 16 }},
		}
	case PCIe:
		return []Region{
			{"below 1 MiB", func(s *Sample) bool { return s.bytes < 1<<20 }},
			{"1 MiB and more", func(s *Sample) bool { return s.bytes >= 1<<20 }},
		}
	}
	ops := map[Kind][]string{Elementwise: elementwiseOps, PageSparse: pageSparseOps, Extend: {split, unsplit}, NarrowGEMM: narrowFormats[:1], NarrowDecode: narrowFormats, Power: powerOps}[kind]
	return list.Map(ops, func(op string) Region { return Region{op, func(s *Sample) bool { return s.op == op }} })
}

// Select returns the samples of a region.
func (r Region) Select(samples []Sample) []Sample {
	return only(samples, r.in)
}
