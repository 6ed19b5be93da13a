package measure

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// powerOps are the kernels of files of energies, and the product repeated between gaps.
var powerOps = []string{"idle", "h2d", "copy", "gemm", "decode_attention", "prefill_attention", gapsOp}

const gapsOp = "gaps"

// energy reads a row of a file of energies: one kernel that runs for seconds.
func (r *row) energy() Sample {
	s := Sample{kind: Power, op: r.text("op"), powered: powered{took: r.positive("seconds")}, Seconds: r.positive("joules")}
	detail := r.text("detail")
	sizes := func(n int) []int {
		var out []int
		for _, part := range strings.Split(detail, "x") {
			v, err := strconv.Atoi(part)
			if err != nil || v < 1 || v > maxSize {
				v = 0
			}
			out = append(out, v)
		}
		if len(out) != n || out[0] == 0 || out[n-1] == 0 || out[n/2] == 0 {
			r.fail("detail", detail, fmt.Sprintf("%d sizes with x between them", n))
			return make([]int, n)
		}
		return out
	}
	switch s.op {
	case "idle", "h2d":
	case "copy":
		s.bytes = units.Bytes(r.number("bytes", 1, 1e18))
	case "gemm":
		x := sizes(3)
		s.m, s.n, s.k = x[0], x[1], x[2]
	case "decode_attention": // requests, heads, context
		x := sizes(3)
		s.batch, s.context, s.heads = x[0], x[2], gpu.Heads{Query: x[1], KV: x[1], Dim: 128, ElementBits: elementBits}
	case "prefill_attention": // heads, chunk
		x := sizes(2)
		s.chunk, s.heads = x[1], gpu.Heads{Query: x[0], KV: x[0], Dim: 128, ElementBits: elementBits}
	default:
		r.fail("op", s.op, "one of "+strings.Join(powerOps[:len(powerOps)-1], ", "))
	}
	return s
}

// dutyM, dutyN and dutyK are the product that a file of gaps repeats between gaps.
const dutyM, dutyN, dutyK = 64, 8192, 8192

// duty reads the row of a file of work with gaps.
func (r *row) duty() Sample {
	return Sample{
		kind: Power, op: gapsOp, m: dutyM, n: dutyN, k: dutyK, Seconds: r.positive("joules"),
		powered: powered{r.positive("busy_us") * 1e-6, r.number("iterations", 1, 1e12), r.positive("seconds")},
	}
}

func (t *Target) power(s *Sample) float64 {
	p := &t.GPU.Power
	watts := func(c gpu.Cost) float64 {
		seconds, joules := t.GPU.KernelSustained(c)
		return joules / seconds
	}
	switch s.op {
	case "idle":
		return p.Idle * s.took
	case "h2d": // transfers on the links, with an almost idle GPU
		return p.ActiveIdle * s.took
	case "copy":
		_, joules := t.GPU.KernelSustained(gpu.Cost{Bytes: float64(s.bytes), Memory: s.took, Seconds: s.took})
		return joules
	case "decode_attention":
		return watts(t.GPU.DecodeAttentionCost(gpu.UniformBatch(s.batch, s.context), s.heads)) * s.took
	case "prefill_attention":
		return watts(t.GPU.PrefillAttentionCost(1, s.chunk, 0, s.heads)) * s.took
	}
	product := watts(t.GPU.GEMMCost(s.m, s.n, s.k, elementBits))
	if s.busy == 0 {
		return product * s.took
	}
	busy := min(s.took, s.busy*s.count)
	return float64(product*busy) + float64(p.ActiveIdle*(s.took-busy))
}
