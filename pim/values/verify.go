package values

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// VerifyCase is one attention problem with its reference.
type VerifyCase struct {
	Name                      string
	QueryHeads, KVHeads       int
	Queries, Keys             int // positions; query i of Queries sees the first Keys−Queries+i+1 keys
	HeadDim, ValueDim         int
	Q                         []float32 // [QueryHeads, Queries, HeadDim]
	K, V                      []float32 // [KVHeads, Keys, HeadDim] and [KVHeads, Keys, ValueDim]
	Out                       []float64 // [QueryHeads, Queries, ValueDim]
	LSE                       []float64 // [QueryHeads, Queries]; may be nil
	Storage                   Storage   // BF16 where q, k and v all are
	storedQ, storedK, storedV []uint16
}

// ReadVerifyCases returns the cases of a file, by name. NAME.q has shape [query heads, queries, d], NAME.k [KV heads, keys, d] and NAME.v
// [KV heads, keys, dv], in F16, BF16 or F32. NAME.out has [query heads, queries, dv] and the optional NAME.lse [query heads, queries], in
// F64 or F32. Inconsistent shapes are an input.Error.
func ReadVerifyCases(file *attention.Safetensors) ([]VerifyCase, error) {
	var cases []VerifyCase
	for _, t := range file.Tensors {
		name, isQuery := strings.CutSuffix(t.Name, ".q")
		if !isQuery {
			continue
		}
		c, err := readVerifyCase(file, name)
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		return nil, input.Errorf("no tensor named NAME.q: nothing to verify")
	}
	return cases, nil
}

// NewVerifyCase returns the decode step of one KV head with keys of d elements and values of valueDim: q has a row of d for each query head
// of its group, k and v have one for each token. The reference is attention.CausalReference. Inconsistent lengths are an input.Error.
func NewVerifyCase(name string, d, valueDim int, q, k, v []float32) (*VerifyCase, error) {
	c := &VerifyCase{Name: name, KVHeads: 1, Queries: 1, HeadDim: d, ValueDim: valueDim, Q: q, K: k, V: v}
	for _, part := range []struct {
		suffix string
		values []float32
		dim    int
	}{{".q", q, d}, {".k", k, d}, {".v", v, valueDim}} {
		n, dim := len(part.values), part.dim
		if dim < 1 || n < dim || n%dim != 0 || part.suffix == ".v" && n/dim != len(k)/d {
			return nil, &input.Error{Key: name + part.suffix, Value: fmt.Sprintf("%d elements", n), Expected: fmt.Sprintf("rows of %d elements, as many in v as in k", dim)}
		}
	}
	c.QueryHeads, c.Keys = len(q)/d, len(k)/d
	if err := c.store(); err != nil {
		return nil, err
	}
	c.refer()
	return c, nil
}

// readVerifyCase reads the tensors of a case and checks that their shapes are consistent.
func readVerifyCase(file *attention.Safetensors, name string) (VerifyCase, error) {
	c := VerifyCase{Name: name, Storage: StoreBF16}
	shapes := map[string][]int{}
	for _, part := range []string{".q", ".k", ".v", ".out"} {
		t := file.Tensor(name + part)
		if t == nil {
			return c, &input.Error{Key: name + part, Expected: "a tensor beside " + name + ".q"}
		}
		if len(t.Shape) != 3 || t.Elements() == 0 {
			return c, &input.Error{Key: t.Name, Value: fmt.Sprint(t.Shape), Expected: "three dimensions [heads, positions, d], none of them 0"}
		}
		if part != ".out" && t.DType != "BF16" {
			c.Storage = StoreFP16
		}
		shapes[part] = t.Shape
	}
	q, k := shapes[".q"], shapes[".k"]
	c.QueryHeads, c.Queries, c.HeadDim, c.KVHeads, c.Keys, c.ValueDim = q[0], q[1], q[2], k[0], k[1], shapes[".v"][2]
	for _, want := range []struct {
		part  string
		shape []int
	}{{".k", []int{c.KVHeads, c.Keys, c.HeadDim}}, {".v", []int{c.KVHeads, c.Keys, c.ValueDim}}, {".out", []int{c.QueryHeads, c.Queries, c.ValueDim}}} {
		if !slices.Equal(shapes[want.part], want.shape) {
			return c, &input.Error{Key: name + want.part, Value: fmt.Sprint(shapes[want.part]), Expected: fmt.Sprint(want.shape)}
		}
	}
	if c.QueryHeads%c.KVHeads != 0 {
		return c, &input.Error{Key: name + ".q", Value: fmt.Sprint(q), Expected: fmt.Sprintf("a multiple of the %d KV heads", c.KVHeads)}
	}
	if c.Queries > c.Keys {
		return c, &input.Error{Key: name + ".q", Value: fmt.Sprint(q), Expected: fmt.Sprintf("at most %d queries: each sees a key", c.Keys)}
	}
	return c, c.readValues(file)
}

// store rounds queries, keys and values, which must be finite, to the storage format.
func (c *VerifyCase) store() error {
	for _, part := range []struct {
		suffix string
		values []float32
		stored *[]uint16
	}{{".q", c.Q, &c.storedQ}, {".k", c.K, &c.storedK}, {".v", c.V, &c.storedV}} {
		*part.stored = make([]uint16, len(part.values))
		for i, x := range part.values {
			if !finite(float64(x)) {
				return &input.Error{Key: c.Name + part.suffix, Value: fmt.Sprint(x), Expected: "finite elements"}
			}
			(*part.stored)[i] = c.Storage.encode(x)
		}
	}
	return nil
}

// readValues reads the tensors.
func (c *VerifyCase) readValues(file *attention.Safetensors) error {
	var err error
	for i, values := range []*[]float32{&c.Q, &c.K, &c.V} {
		if *values, err = file.Tensor(c.Name + []string{".q", ".k", ".v"}[i]).Float32s(); err != nil {
			return err
		}
	}
	if err = c.store(); err != nil {
		return err
	}
	if c.Out, err = c.readReference(file, ".out", c.QueryHeads*c.Queries*c.ValueDim); err != nil {
		return err
	}
	if file.Tensor(c.Name+".lse") != nil {
		c.LSE, err = c.readReference(file, ".lse", c.QueryHeads*c.Queries)
	}
	return err
}

func (c *VerifyCase) readReference(file *attention.Safetensors, suffix string, n int) ([]float64, error) {
	x, err := file.Tensor(c.Name + suffix).Float64s()
	if err != nil {
		return nil, err
	}
	if len(x) != n {
		return nil, &input.Error{Key: c.Name + suffix, Value: fmt.Sprintf("%d elements", len(x)), Expected: fmt.Sprint(n)}
	}
	if i := slices.IndexFunc(x, func(v float64) bool { return !finite(v) }); i >= 0 {
		return nil, &input.Error{Key: c.Name + suffix, Value: fmt.Sprint(x[i]), Expected: "finite elements"}
	}
	return x, nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// VerifyResult has the deviation of the program's values from the reference.
type VerifyResult struct {
	Name    string `json:"name"`
	Heads   int    `json:"heads"` // query heads
	KVHeads int    `json:"kv_heads"`
	Queries int    `json:"queries"` // positions
	Keys    int    `json:"keys"`
	HeadDim int    `json:"head_dim"`
	// ValueDim is set if values differ in width from keys.
	ValueDim int    `json:"value_dim,omitempty"`
	Storage  string `json:"storage"`

	RelativeL2 float64 `json:"relative_l2"` // of the output; non-finite values count as 0
	MaxAbs     float64 `json:"max_abs"`
	NonFinite  int     `json:"non_finite"` // outputs that are infinite or NaN
	LSEMaxAbs  float64 `json:"lse_max_abs"`
	// Differing counts the outputs and log-sum-exps whose bits differ from those of a direct computation with the same roundings in the
	// same order.
	Differing int `json:"differing"`

	LargestScore  float64 `json:"largest_score"`  // partial scores, after 1/√d
	StorageError  float64 `json:"storage_error"`  // of the exact output, from rounding q, k and v to Storage
	ExpectedError float64 `json:"expected_error"` // of the output, if all roundings after storage were independent
	Tolerance     float64 `json:"tolerance"`      // on RelativeL2
	Pass          bool    `json:"pass"`
	Reason        string  `json:"reason,omitempty"` // of a failure
}

// Verify stores the case's keys and values in the banks of one rank for each KV head. It decodes the query positions one after another;
// each appends its own key and value and attends to all tokens so far. It compares the outputs with the reference, and bit for bit with a
// direct computation in the same formats. A shape that does not fit the rank is an input.Error; the end of ctx returns its error; any other
// error is a fault of the program.
func Verify(ctx context.Context, spec *pim.Spec, d *dram.Spec, c *VerifyCase) (VerifyResult, error) {
	if err := cmp.Or(input.Ended(ctx), input.Validate(spec), input.Validate(d)); err != nil {
		return VerifyResult{}, err
	}
	if c == nil || len(c.storedQ) == 0 {
		return VerifyResult{}, &input.Error{Key: "case", Expected: "one that NewVerifyCase or ReadVerifyCases returned"}
	}
	return verify(ctx, spec, d, c, (*valueMachine).run)
}

// runner executes a program on a machine: valueMachine.run, or in tests a faulty version.
type runner func(*valueMachine, *machine.Program, []headData) ([]headResult, error)

// verify is Verify with a runner, which tests replace.
func verify(ctx context.Context, spec *pim.Spec, d *dram.Spec, c *VerifyCase, run runner) (VerifyResult, error) {
	g, err := pim.NewGeometry(d, c.shape())
	if err != nil {
		return VerifyResult{}, err
	}
	x, err := newDirect(spec, d, c.shape())
	if err != nil {
		return VerifyResult{}, err
	}
	j := judgement{
		spec: spec, c: c, geometry: &g, direct: x, stored: c.widen(),
		got: c.newOutputs(), expected: make([]caseError, c.KVHeads),
	}
	if err := c.eachHead(func(kv int) error { return c.decode(ctx, spec, d, kv, run, j.got) }); err != nil {
		return VerifyResult{}, err
	}
	return j.judge(ctx)
}

// outputs are all outputs and log-sum-exps of a case.
type outputs struct {
	out []float64 // [QueryHeads, Queries, ValueDim]
	lse []float64 // [QueryHeads, Queries]
}

func (c *VerifyCase) newOutputs() outputs {
	return outputs{make([]float64, c.QueryHeads*c.Queries*c.ValueDim), make([]float64, c.QueryHeads*c.Queries)}
}

// eachHead runs work for all KV heads, several in parallel, and returns the first head's error.
func (c *VerifyCase) eachHead(work func(kv int) error) error {
	errs := make([]error, c.KVHeads)
	var heads errgroup.Group
	heads.SetLimit(runtime.GOMAXPROCS(0))
	for kv := range c.KVHeads {
		heads.Go(func() error {
			errs[kv] = work(kv)
			return nil
		})
	}
	heads.Wait() // errors are in errs
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *VerifyCase) shape() pim.HeadShape {
	return pim.HeadShape{HeadDim: c.HeadDim, ValueDim: c.ValueDim, Queries: c.QueryHeads / c.KVHeads, ElementBits: 16}
}

// decode computes all positions of the query heads of one KV head into got.
func (c *VerifyCase) decode(ctx context.Context, spec *pim.Spec, d *dram.Spec, kv int, run runner, got outputs) error {
	group := c.QueryHeads / c.KVHeads
	g, err := pim.NewGeometry(d, c.shape())
	if err != nil {
		return err
	}
	rank, err := newHostRank(spec, d, c.shape(), c.Storage, g.Rows(c.Keys), 1)
	if err != nil {
		return err
	}
	rank.workers[0].execute = run
	vectors := func(token int) (key, value []uint16) {
		at := kv*c.Keys + token
		return c.storedK[at*c.HeadDim:][:c.HeadDim], c.storedV[at*c.ValueDim:][:c.ValueDim]
	}
	h := DecodeHead{Query: make([][]uint16, group)}
	for token := range c.Keys {
		i := token - (c.Keys - c.Queries)
		key, value := vectors(token)
		if i < 0 {
			if err := rank.Store(0, token, key, value); err != nil {
				return err
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		place := func(q int) int { return (kv*group+q)*c.Queries + i }
		for q := range group {
			h.Query[q] = c.storedQ[place(q)*c.HeadDim:][:c.HeadDim]
		}
		h.Context, h.Key, h.Value = token+1, key, value
		out, lse, err := rank.Attend(0, &h)
		if err != nil {
			return err
		}
		for q := range group {
			for j, x := range out[q] {
				got.out[place(q)*c.ValueDim+j] = float64(x)
			}
			got.lse[place(q)] = lse[q]
		}
	}
	return nil
}
