package lm

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// LatentCase is a model with latent attention, a text, and an independent program's results for both in float64. The file has tokens [T];
// nll.WAY [T−1], of the token after each; at the positions in positions attn.LAYER.WAY, the heads' results, and chosen.LAYER, the tokens
// that the indexer chooses (−1: none). gap.LAYER [T] is the distance of the last chosen score above the next. WAY is dense or dsa.
type LatentCase struct {
	Model     *Weights
	Tokens    []int
	Positions []int
	NLL       map[string][]float64   // by way, nats
	Attention map[string][][]float64 // by way and layer, [Positions, Heads·HeadDim]
	Chosen    [][][]int              // by layer and position, ascending
	Gap       [][]float64            // by layer and token
}

// Ways are those of a LatentCase: attention to everything, and by the model's indexer, if it has one.
func (c *LatentCase) Ways() []string {
	if c.Model.Latent.IndexTopK == 0 {
		return []string{"dense"}
	}
	return []string{"dense", "dsa"}
}

// ReadLatentCase reads a case. Errors of the file are of type input.Error.
func ReadLatentCase(file *attention.Safetensors) (*LatentCase, error) {
	w, err := ReadWeights(file)
	if err != nil {
		return nil, err
	}
	if !w.Latent.Is() {
		return nil, &input.Error{Key: "__metadata__.kv_lora", Value: `""`, Expected: "a model with latent attention"}
	}
	c, r := &LatentCase{Model: w, NLL: map[string][]float64{}, Attention: map[string][][]float64{}}, caseReader{file: file}
	n := w.Context
	c.Tokens, c.Positions = r.ints("tokens", n, 0, w.Vocab), r.ints("positions", -1, 0, n)
	at := len(c.Positions)
	for _, way := range c.Ways() {
		c.NLL[way] = r.numbers("nll."+way, n-1)
		for layer := range w.Layers {
			c.Attention[way] = append(c.Attention[way], r.numbers(fmt.Sprintf("attn.%d.%s", layer, way), at, w.Heads*w.HeadDim))
		}
	}
	for layer := 0; layer < w.Layers && len(c.NLL) > 1; layer++ {
		k := min(w.Latent.IndexTopK, n)
		all := r.ints(fmt.Sprintf("chosen.%d", layer), at*k, -1, n)
		chosen := make([][]int, at)
		for i := 0; i < at && r.err == nil; i++ {
			chosen[i] = slices.DeleteFunc(all[i*k:(i+1)*k], func(t int) bool { return t < 0 })
		}
		c.Chosen, c.Gap = append(c.Chosen, chosen), append(c.Gap, r.numbers(fmt.Sprintf("gap.%d", layer), n))
	}
	return c, r.err
}

// First returns the case for the first tokens of its text; comparisons leave out the results of later ones.
func (c *LatentCase) First(tokens int) *LatentCase {
	short := *c
	short.Tokens = c.Tokens[:tokens]
	return &short
}

// caseReader reads tensors of results and keeps the first error.
type caseReader struct {
	file *attention.Safetensors
	err  error
}

func (r *caseReader) tensor(name string) *attention.Tensor {
	t := r.file.Tensor(name)
	if t == nil && r.err == nil {
		r.err = &input.Error{Key: name, Expected: "a tensor of that name", Nearest: input.Nearest(name, names(r.file))}
	}
	return t
}

// ints returns whole numbers from low to before high, n or, with −1, as many as there are.
func (r *caseReader) ints(name string, n, low, high int) []int {
	t := r.tensor(name)
	if r.err != nil {
		return nil
	}
	x, err := t.Ints()
	switch i := slices.IndexFunc(x, func(v int) bool { return v < low || v >= high }); {
	case err != nil:
		r.err = err
	case n >= 0 && len(x) != n:
		r.err = &input.Error{Key: name, Value: fmt.Sprintf("%d elements", len(x)), Expected: fmt.Sprint(n)}
	case i >= 0:
		r.err = &input.Error{Key: name, Value: fmt.Sprint(x[i]), Expected: fmt.Sprintf("%d to %d", low, high-1)}
	}
	return x
}

// numbers returns the elements of a tensor of a shape.
func (r *caseReader) numbers(name string, shape ...int) []float64 {
	t := r.tensor(name)
	if r.err != nil {
		return nil
	}
	if !slices.Equal(t.Shape, shape) {
		r.err = &input.Error{Key: name, Value: fmt.Sprint(t.Shape), Expected: "shape " + fmt.Sprint(shape)}
		return nil
	}
	x, err := t.Float64s()
	r.err = err
	return x
}

// LatentRun is a model's results for the text of a case.
type LatentRun struct {
	NLL       []float64
	Attention [][]float64 // by layer, [Positions, Heads·HeadDim]
	Chosen    [][][]int32 // attended tokens, by layer and token, ascending
}

// LatentFormats are the formats in which a LatentCase is computed: numbers, or stored rows.
func LatentFormats() []string { return []string{"float64", "float32", "fp16", "bf16"} }

// Run computes the case in one of its ways and one of LatentFormats: in float32, or in float64 on rows rounded to a format of 16 bits.
// Index keys are not rounded.
func (c *LatentCase) Run(ctx context.Context, way, format string, expanded bool, workers int) (*LatentRun, error) {
	if !slices.Contains(LatentFormats(), format) {
		return nil, input.UnknownName("format", format, LatentFormats())
	}
	form := LatentForm{Expanded: expanded}
	switch format {
	case "float32":
		return runCase[float32](ctx, c, way, form, workers, nil)
	case "fp16", "bf16":
		form.Rows = format
	}
	return runCase[float64](ctx, c, way, form, workers, nil)
}

// runCase is Run in T. see, which may be nil, is called for each token in each layer after its
// choice.
func runCase[T real](ctx context.Context, c *LatentCase, way string, form LatentForm, workers int, see func(layer int, l *lane[T], s policy.State)) (*LatentRun, error) {
	m := NewModel(c.Model, workers)
	var values policy.Values
	if way == "dsa" {
		s := policies.New("dsa")
		var err error
		if values, err = policy.NewValues(&s, m.Attention()); err != nil {
			return nil, err
		}
	}
	d, a, err := newLatentDecoder[T](m, form, values, []int{len(c.Tokens)})
	if err != nil {
		return nil, err
	}
	run := &LatentRun{Attention: make([][]float64, m.Layers), Chosen: make([][][]int32, m.Layers)}
	a.see = func(layer int, l *lane[T], s policy.State) {
		var chosen []int32
		for _, r := range l.latent.selected.Parts[0].Ranges {
			for t := r[0]; t < r[1]; t++ {
				chosen = append(chosen, int32(t))
			}
		}
		run.Chosen[layer] = append(run.Chosen[layer], chosen)
		if see != nil {
			see(layer, l, s)
		}
	}
	lanes := make([]*lane[T], min(prefillTokens, len(c.Tokens)))
	for i := range lanes {
		lanes[i] = newLane[T](m)
		lanes[i].withLogits = true
	}
	for layer := range run.Attention {
		run.Attention[layer] = make([]float64, len(c.Positions)*m.Heads*m.HeadDim)
	}
	keep := caseAttend[T]{latentPrefill[T]{a}, c.Positions, run}
	for first := 0; first < len(c.Tokens); first += len(lanes) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := lanes[:min(len(lanes), len(c.Tokens)-first)]
		for i, l := range part {
			l.position, l.token = first+i, c.Tokens[first+i]
		}
		if err := forward(d.model, part, keep); err != nil {
			return nil, err
		}
		for _, l := range part {
			if next := l.position + 1; next < len(c.Tokens) {
				run.NLL = append(run.NLL, nllOf(l.logits, c.Tokens[next]))
			}
		}
	}
	return run, nil
}

// caseAttend keeps the heads' results at the positions of a case.
type caseAttend[T real] struct {
	attender[T]
	positions []int
	run       *LatentRun
}

func (a caseAttend[T]) attend(layer int, lanes []*lane[T]) error {
	err := a.attender.attend(layer, lanes)
	for _, l := range lanes {
		for i, position := range a.positions {
			if position == l.position {
				widen64(a.run.Attention[layer][i*len(l.attended):], l.attended)
			}
		}
	}
	return err
}

// LatentDifference is the difference of a run from a case.
type LatentDifference struct {
	NLLMax       float64 `json:"nll_max_nats"`  // of a token
	NLLMean      float64 `json:"nll_mean_nats"` // signed
	AttentionMax float64 `json:"attention_max"` // of an element of a head's result
	Choices      int     `json:"choices"`       // choices in the case, by layer and position
	Differing    int     `json:"differing"`     // choices that differ from the case's
	Gap          float64 `json:"gap"`           // largest gap among differing choices
}

// Compare returns the difference of a run in a way from the case.
func (c *LatentCase) Compare(way string, r *LatentRun) (d LatentDifference) {
	for i, x := range r.NLL {
		off := x - c.NLL[way][i]
		d.NLLMax = max(d.NLLMax, math.Abs(off))
		d.NLLMean += off / float64(len(r.NLL))
	}
	each := c.Model.Heads * c.Model.HeadDim
	for i, position := range c.Positions {
		for layer := 0; layer < len(r.Attention) && position < len(c.Tokens); layer++ {
			for e := i * each; e < (i+1)*each; e++ {
				d.AttentionMax = max(d.AttentionMax, math.Abs(r.Attention[layer][e]-c.Attention[way][layer][e]))
			}
			if way != "dsa" {
				continue
			}
			d.Choices++
			if !slices.EqualFunc(r.Chosen[layer][position], c.Chosen[layer][i], func(a int32, b int) bool { return int(a) == b }) {
				d.Differing++
				d.Gap = max(d.Gap, c.Gap[layer][position])
			}
		}
	}
	return d
}
