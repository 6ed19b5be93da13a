package lm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

// Evaluation is how well a model predicts a text.
type Evaluation struct {
	Prompt, Steps int       // tokens prefilled, tokens decoded
	NLL           []float64 // nats, of the token after each decoded one
	// MaxError is Session.MaxError. With a policy it is the largest difference from attention in float64 to the same
	// tokens; MaxRelativeError is then the largest of a head's result in relative L2 norm.
	MaxError, MaxRelativeError float64
	// Attended is the policy's attention; nil without a policy.
	Attended *Attended
}

// Mean returns the mean of NLL.
func (e *Evaluation) Mean() float64 { return mean(e.NLL) }

// BitsPerByte returns the mean of NLL in bits.
func (e *Evaluation) BitsPerByte() float64 { return e.Mean() / math.Ln2 }

// WriteNLL writes the steps as CSV: position, nll_nats.
func (e *Evaluation) WriteNLL(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "position,nll_nats")
	for i, x := range e.NLL {
		fmt.Fprintf(b, "%d,%s\n", e.Prompt+i, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return b.Flush()
}

// Evaluate prefills the first prompt bytes of a text and decodes the next steps one by one, until
// ctx is done. The step at position i predicts byte i+1, so the text has more than prompt + steps
// bytes. observe is called with the position of each step; it may be nil. A prediction that is not
// finite returns an error: the formats cannot hold the model's values.
func Evaluate(ctx context.Context, m *Model, on *Node, text []byte, prompt, steps int, observe func(position int)) (*Evaluation, error) {
	if err := checkLengths(m, text, prompt, steps); err != nil {
		return nil, err
	}
	s, err := NewSession(m, on, []int{prompt + steps})
	if err != nil {
		return nil, err
	}
	e, err := predict(ctx, &s.decoder, text, prompt, steps, observe)
	if err == nil {
		e.MaxError = s.MaxError()
	}
	return e, err
}

// Attends says how decode steps attend.
type Attends struct {
	Policy *policy.Spec
	Widths llm.Widths // KVBits and KVScales are those of stored keys and values; otherwise FP16
	// Watch is called with each choice, by layer and head in the order of the steps; it may be nil.
	Watch Watch
}

// EvaluatePolicy is Evaluate with attention by a policy's section. On a node the DIMMs store keys and values (homes). Without a
// node (nil) it computes in float64, so that results can be compared with independent ones: a difference in the last bit may
// change a choice. q, k and v are rounded to FP16 in both, or k and v to fewer bits. Prompts attend to all tokens except those
// that the policy masks. At each step the policy's choices are compared with attention to all tokens. Values that the section's
// files or the DIMMs cannot hold return an input.Error.
func EvaluatePolicy(ctx context.Context, m *Model, on *Node, a *Attends, text []byte, prompt, steps int, observe func(position int)) (*Evaluation, error) {
	if err := checkLengths(m, text, prompt, steps); err != nil {
		return nil, err
	}
	if m.Latent.Is() {
		return evaluateLatent(ctx, m, on, a, text, prompt, steps, observe)
	}
	if on == nil {
		return evaluateChosen[float64](ctx, m, nil, a, text, prompt, steps, observe)
	}
	return evaluateChosen[float32](ctx, m, on, a, text, prompt, steps, observe)
}

// evaluateLatent predicts a text with a model of latent attention under a policy, in float64 on rows in FP16. It does not compare the
// policy with attention to all tokens.
func evaluateLatent(ctx context.Context, m *Model, on *Node, a *Attends, text []byte, prompt, steps int, observe func(position int)) (*Evaluation, error) {
	if on != nil {
		return nil, m.noDIMMs()
	}
	if err := m.texts(); err != nil {
		return nil, err
	}
	if b := a.Widths.StoredBits(); b != 0 && b != 16 {
		return nil, &input.Error{Key: "model.kv_bits", Value: strconv.Itoa(b), Expected: "16: rows of latent attention are not narrowed"}
	}
	v, err := policy.NewValues(a.Policy, m.Attention())
	if err != nil {
		return nil, err
	}
	d, attend, err := newLatentDecoder[float64](m, LatentForm{Rows: "fp16"}, v, []int{prompt + steps})
	if err != nil {
		return nil, err
	}
	attend.watch = a.Watch
	return predict(ctx, d, text, prompt, steps, observe)
}

// evaluateChosen predicts a text under a policy, in float32 or float64. With a node, it computes attention where
// the policy stores tokens, on ranks and GPUs.
func evaluateChosen[T real](ctx context.Context, m *Model, on *Node, a *Attends, text []byte, prompt, steps int, observe func(position int)) (*Evaluation, error) {
	v, err := policy.NewValues(a.Policy, m.Attention())
	if err != nil {
		return nil, err
	}
	if p := a.Policy.Pages(); p != nil && p.Layout == "quad" {
		return nil, &input.Error{Key: "policy." + a.Policy.Name + ".layout", Value: "\"quad\"", Expected: "\"row\": pages in quads are not computed"}
	}
	d, c, err := newChosen[T](m, v, prompt+steps)
	if err != nil {
		return nil, err
	}
	c.attended, c.watch = newAttended(m, prompt+steps, steps), a.Watch
	if c.narrow, err = newNarrowing(m, &a.Widths, a.Policy); err != nil {
		return nil, err
	}
	if on != nil {
		if err := newHomes(c, on, a.Policy, prompt+steps); err != nil {
			return nil, err
		}
	}
	e, err := predict(ctx, d, text, prompt, steps, observe)
	if err == nil {
		c.attended.finish()
		e.Attended = c.attended
		if on != nil {
			e.MaxError, e.MaxRelativeError = c.homes.errors()
		}
	}
	return e, err
}

// checkLengths checks that prompt and steps fit the model's context, and that the text has a byte to predict after
// the last step.
func checkLengths(m *Model, text []byte, prompt, steps int) error {
	if prompt < 1 || steps < 1 || prompt+steps > m.Context || prompt+steps >= len(text) {
		return input.Errorf("a prompt of %d and %d steps in a text of %d bytes: expected at least 1 each, together less than the text and at most %d, the model's context",
			prompt, steps, len(text), m.Context)
	}
	return nil
}

// predict is Evaluate for the first sequence of a decoder.
func predict[T real](ctx context.Context, s *decoder[T], text []byte, prompt, steps int, observe func(position int)) (*Evaluation, error) {
	if _, err := s.Prefill(0, text[:prompt]); err != nil {
		return nil, err
	}
	e := &Evaluation{Prompt: prompt, Steps: steps, NLL: make([]float64, 0, steps)}
	for i := prompt; i < prompt+steps; i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		logits, err := s.Step([]int{0}, text[i:i+1])
		if err != nil {
			return nil, err
		}
		nll := nllOf(logits[0], text[i+1])
		if math.IsNaN(nll) || math.IsInf(nll, 0) {
			return nil, fmt.Errorf("position %d: the prediction is not finite: the precision's formats do not hold this model", i)
		}
		e.NLL = append(e.NLL, nll)
		if observe != nil {
			observe(i)
		}
	}
	return e, nil
}
