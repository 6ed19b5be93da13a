package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/lab/lm"
	"github.com/l3sim/l3sim/results"
)

type evalFlags struct {
	languageFlags
	text, nll     string
	profile       string
	prompt, steps int
	reference     bool
	choices       bool
}

func (a *app) newEvalCommand() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure how well the language model predicts a text with its attention in the simulated DIMMs",
		Long: `Measure how well the language model predicts a text with its attention in the simulated DIMMs.

The first bytes of the text are prefilled and the following ones are decoded. The step at position i predicts byte i+1:
its negative log-likelihood is that byte's. --reference computes attention without DIMMs. With --policy, decode steps
attend to what that policy chooses ('l3sim config policies'); policies that DIMMs cannot hold run without them. Every
choice is compared with attention to everything, and --profile writes what a run's costs need to know about it
(policy.profile). With --choices it lists the tokens that each head chose in each step: 'l3sim run' with that profile takes from
them which rows sparse-offload fetches and which rows units in DIMMs read. lab/docs/sparse.md compares precisions.`,
		Example: `  l3lab eval --steps 1000 --precision fp32
  l3lab eval --text main.go --prompt 100 --nll nll.csv --json
  l3lab eval --prompt 1024 --steps 1000 --kv-bits 4 --set 'model.kv_scales="channel"'
  l3lab eval --prompt 2048 --policy hgca --set policy.hgca.window=512 --profile hgca.toml
  l3lab eval --prompt 2048 --steps 200 --policy quest --set policy.quest.budget=512 --profile quest.toml --choices`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.eval(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.text, "text", "", "`file` whose bytes are predicted")
	flags.IntVar(&f.prompt, "prompt", 1, "bytes that are prefilled")
	flags.IntVar(&f.steps, "steps", 0, "bytes that are decoded (default: the rest, up to the model's context)")
	flags.BoolVar(&f.reference, "reference", false, "attention without DIMMs: in float32, with a policy in float64")
	flags.StringVar(&f.nll, "nll", "", "write position,nll_nats of each step to this CSV `file`")
	flags.StringVar(&f.profile, "profile", "", "write how much the policy attends to, by layer, head and context, to this TOML `file`, for policy.profile")
	flags.BoolVar(&f.choices, "choices", false, "write the chosen tokens of each head and step to the file of --profile, too")
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	f.register(cmd, cli.Key("policy", "policy.name", "", "attention to what a policy chooses (see 'l3sim config policies')"),
		cli.Key("kv-format", "model.kv_format", "", "`format` of keys and values in the DIMMs: fp16, fp8, int8 or int4"),
		cli.Key("kv-bits", "model.kv_bits", "16", "bits of keys and values in the DIMMs: 16, 8 or 4"))
	return cmd
}

// evalResult is the JSON of eval.
type evalResult struct {
	Bytes             int     `json:"bytes"` // prefilled and decoded
	Prompt            int     `json:"prompt"`
	Steps             int     `json:"steps"`
	NLLNatsMean       float64 `json:"nll_nats_mean"` // over the steps
	BitsPerByte       float64 `json:"bits_per_byte"`
	DIMMs             bool    `json:"dimms"`               // attention was computed in the simulated DIMMs
	MaxAttentionError float64 `json:"max_attention_error"` // against float64; 0 without DIMMs
	WallS             float64 `json:"wall_s"`
	KVBits            int     `json:"kv_bits"` // of stored keys and values
	Policy            string  `json:"policy,omitempty"`
	*lm.AttendedReport
}

func (a *app) eval(cmd *cobra.Command, f *evalFlags) error {
	m, node, err := f.load(cmd)
	if err != nil {
		return err
	}
	text, err := f.check(cmd, m)
	if err != nil {
		return err
	}
	if !f.onDIMMs() {
		node = nil
	}
	start := time.Now()
	show := a.NewProgress("bytes")
	show.Start(int64(f.steps))
	observe := func(position int) { show.Set(int64(position - f.prompt + 1)) }
	var e *lm.Evaluation
	if f.byPolicy {
		e, err = a.evalPolicy(cmd, f, m, node, text, observe)
	} else {
		e, err = lm.Evaluate(cmd.Context(), m, node, text, f.prompt, f.steps, observe)
	}
	show.Done()
	if err != nil {
		return f.config.Locate(err)
	}
	if f.nll != "" {
		if err := results.WriteFileAtomic(f.nll, func(w io.Writer) error { return e.WriteNLL(w) }); err != nil {
			return err
		}
	}
	r := evalResult{
		Bytes: e.Prompt + e.Steps, Prompt: e.Prompt, Steps: e.Steps, NLLNatsMean: e.Mean(), BitsPerByte: e.BitsPerByte(),
		DIMMs: node != nil, KVBits: cmp.Or(f.cfg.Model.StoredBits(), 16), MaxAttentionError: e.MaxError, WallS: time.Since(start).Seconds(),
	}
	if f.byPolicy {
		r.Policy = f.cfg.Policy.Name
	}
	if e.Attended != nil {
		r.AttendedReport = lm.NewAttendedReport(e.Attended)
	}
	return a.Print(r, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%d bytes decoded after %d: %.4f bits per byte (%.6f nats); largest error of attention %.3g; %.1f s\n",
			r.Steps, r.Prompt, r.BitsPerByte, r.NLLNatsMean, r.MaxAttentionError, r.WallS)
		if err != nil || e.Attended == nil {
			return err
		}
		return e.Attended.WriteText(w, r.Policy)
	})
}

// onDIMMs says that attention is computed in the simulated DIMMs.
func (f *evalFlags) onDIMMs() bool {
	return !f.reference && (!f.byPolicy || lm.OnDIMMs(&f.cfg.Policy))
}

// check reads the text and fills in the number of steps.
func (f *evalFlags) check(cmd *cobra.Command, m *lm.Model) ([]byte, error) {
	if err := cli.NotEmpty(cmd, "text", "nll", "profile"); err != nil {
		return nil, err
	}
	if !f.onDIMMs() {
		beside := "--policy " + f.cfg.Policy.Name
		if f.reference {
			beside = "--reference"
		}
		for _, name := range []string{"plant", "exact", "precision"} {
			if flag := cmd.Flags().Lookup(name); flag.Changed {
				return nil, &input.Error{Key: "--" + name, Value: flag.Value.String(), Expected: "to be left out beside " + beside + ", which has no DIMMs"}
			}
		}
	}
	text := lm.SampleText()
	if f.text != "" {
		var err error
		if text, err = readText("--text", f.text); err != nil {
			return nil, err
		}
	}
	// The last step predicts a byte that the text must have.
	most := min(len(text)-1, m.Context)
	if most < 2 {
		return nil, &input.Error{Key: "--text", Value: fmt.Sprintf("%d bytes", len(text)), Expected: "at least 3 bytes"}
	}
	if err := cli.Between("--prompt", f.prompt, 1, most-1); err != nil {
		return nil, err
	}
	if !cmd.Flags().Changed("steps") {
		f.steps = most - f.prompt
	}
	if err := cli.Between("--steps", f.steps, 1, most-f.prompt); err != nil {
		return nil, err
	}
	if f.profile != "" && f.cfg.Policy.Dense() {
		return nil, &input.Error{Key: "--profile", Value: f.profile, Expected: "a --policy other than dense, which attends to everything"}
	}
	if f.choices && f.profile == "" {
		return nil, &input.Error{Key: "--choices", Value: "true", Expected: "--profile FILE beside it, which has them"}
	}
	return text, cmp.Or(cli.WritableFile("--profile", f.profile), cli.WritableFile("--nll", f.nll))
}

// evalPolicy evaluates with attention by the configuration's policy, and writes the profile if
// requested.
func (a *app) evalPolicy(cmd *cobra.Command, f *evalFlags, m *lm.Model, node *lm.Node, text []byte, observe func(position int)) (*lm.Evaluation, error) {
	attends := &lm.Attends{Policy: &f.cfg.Policy, Widths: f.cfg.Model.Widths}
	recorder := policy.NewRecorder(f.modelName(), m.Attention(), &f.cfg.Policy, f.prompt)
	if f.choices {
		recorder.KeepChoices()
	}
	if f.profile != "" {
		attends.Watch = func(layer, head, context int, s policy.Selection) { recorder.Step(layer, head, context, &s) }
	}
	e, err := lm.EvaluatePolicy(cmd.Context(), m, node, attends, text, f.prompt, f.steps, observe)
	if err == nil && f.profile != "" {
		err = results.WriteFileAtomic(f.profile, recorder.Profile().Write)
	}
	return e, err
}
