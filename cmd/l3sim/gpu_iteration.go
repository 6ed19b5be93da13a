package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/llm"
)

type iterationFlags struct {
	modelFlags
	allReduce                           string
	tp, batch, context, chunk, finished int
}

func (a *app) newGPUIterationCommand() *cobra.Command {
	var f iterationFlags
	cmd := &cobra.Command{
		Use:   "iteration",
		Short: "Predict the time and energy of one iteration of a model",
		Long: `Predict the time and energy of one iteration of a model.

An iteration decodes --batch requests, each over --context tokens (its own included), and prefills --chunk tokens of
another request after --finished ones; either may be absent. Joules are of all GPUs. All-reduces are NCCL's, with
which iterations are measured; --all-reduce direct has those of a run.`,
		Example: `  l3sim gpu iteration --gpu h200-sxm --model llama-3-8b --batch 64 --context 2048
  l3sim gpu iteration --gpu h200-sxm --model opt-66b --tp 4 --batch 32 --context 1024 --chunk 512 --finished 1024 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.gpuIteration(cmd, &f) },
	}
	flags := cmd.Flags()
	f.register(a, cmd)
	flags.IntVar(&f.tp, "tp", 0, "GPUs that share the model (default: as the model says)")
	flags.IntVar(&f.batch, "batch", 0, "requests that decode")
	flags.IntVar(&f.context, "context", 0, "tokens over which each of them attends, its new one included")
	flags.IntVar(&f.chunk, "chunk", 0, "tokens of a prompt that are prefilled")
	flags.IntVar(&f.finished, "finished", 0, "tokens of that prompt before the chunk")
	flags.StringVar(&f.allReduce, "all-reduce", string(gpu.AllReduceNCCL), "`method`: nccl as iterations are measured, or direct kernels for small sizes as servers run them")
	return cmd
}

func (a *app) gpuIteration(cmd *cobra.Command, f *iterationFlags) error {
	g, m, err := f.load(cmd)
	if err != nil {
		return err
	}
	methods := []string{string(gpu.AllReduceDirect), string(gpu.AllReduceNCCL)}
	if !slices.Contains(methods, f.allReduce) {
		return input.UnknownName("--all-reduce", f.allReduce, methods)
	}
	g.Collective.Method = gpu.AllReduceMethod(f.allReduce)
	if cmd.Flags().Changed("tp") {
		m.TensorParallel = f.tp
		if err := cli.FlagName(input.Validate(m), "--tp"); err != nil {
			return err
		}
	}
	if err := f.checkShape(); err != nil {
		return err
	}
	r := newIteration(g, m, f)
	return a.Print(r, r.writeText)
}

// checkShape refuses sizes out of range, and incomplete iterations.
func (f *iterationFlags) checkShape() error {
	if err := cmp.Or(cli.Between("--batch", f.batch, 0, 1<<20), cli.Between("--context", f.context, 0, 1<<30),
		cli.Between("--chunk", f.chunk, 0, 1<<30), cli.Between("--finished", f.finished, 0, 1<<30)); err != nil {
		return err
	}
	switch {
	case f.batch > 0 && f.context == 0:
		return wrongSize("context", 0, "at least 1, over which the requests of --batch attend")
	case f.batch == 0 && f.context > 0:
		return wrongSize("batch", 0, "at least 1 request with --context")
	case f.chunk == 0 && f.finished > 0:
		return wrongSize("chunk", 0, "at least 1 token after --finished")
	case f.batch == 0 && f.chunk == 0:
		return wrongSize("batch", 0, "requests that decode, or a --chunk to prefill")
	}
	return nil
}

// iteration is the JSON of `gpu iteration`.
type iteration struct {
	GPU       string             `json:"gpu"`
	Suite     gpu.Suite          `json:"suite"`
	Model     string             `json:"model"`
	GPUs      int                `json:"gpus"`
	AllReduce string             `json:"all_reduce"`
	Batch     int                `json:"batch"`
	Context   int                `json:"context"`
	Chunk     int                `json:"chunk"`
	Finished  int                `json:"finished"`
	MS        float64            `json:"ms"`
	Joules    float64            `json:"joules"`           // all GPUs
	Watts     float64            `json:"watts"`            // mean of each GPU
	Parts     map[string]float64 `json:"parts"`            // ms by group of kernels; their sum is MS
	Beyond    map[string]string  `json:"beyond,omitempty"` // groups beyond the measured range, and how: extrapolated
}

// newIteration predicts the iteration of valid flags.
func newIteration(g *gpu.Spec, m *llm.Model, f *iterationFlags) *iteration {
	x := gpu.Shape{Decode: gpu.UniformBatch(f.batch, f.context), Chunk: f.chunk, Finished: f.finished}
	if f.chunk > 0 {
		x.Prefills = 1
	}
	cost := gpu.NewModelCost(g, m)
	parts, beyond := cost.IterationParts(x), cost.Beyond(x)
	seconds, joules := g.Sustained(parts.Total())
	r := &iteration{
		GPU: g.Name, Suite: g.Suite, Model: m.Name, GPUs: m.TensorParallel, AllReduce: string(g.Collective.Method),
		Batch: f.batch, Context: f.context, Chunk: f.chunk, Finished: f.finished,
		MS: 1e3 * seconds, Joules: joules * float64(m.TensorParallel), Watts: joules / seconds, Parts: map[string]float64{}, Beyond: map[string]string{},
	}
	for i, s := range g.SustainedParts(parts) {
		name := gpu.Group(i).String()
		if r.Parts[name] = 1e3 * s; beyond[i] != "" {
			r.Beyond[name] = beyond[i]
		}
	}
	return r
}

func (r *iteration) writeText(w io.Writer) error {
	err := cli.Aligned(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "iteration\t%.4f ms\t%s on %d x %s, kernels of the suite %s\n", r.MS, r.Model, r.GPUs, r.GPU, r.Suite)
		fmt.Fprintf(w, "energy\t%.4f J\t%.0f W of each GPU\n\n", r.Joules, r.Watts)
	})
	if err != nil {
		return err
	}
	err = cli.Aligned(w, tabwriter.AlignRight, func(w io.Writer) {
		for g := range gpu.Groups {
			if ms := r.Parts[g.String()]; ms > 0 {
				fmt.Fprintf(w, "%s\t%.4f ms\t%.1f%%\t\n", g, ms, 100*ms/r.MS)
			}
		}
	})
	extrapolated, lines := 0.0, ""
	for g := range gpu.Groups {
		if why := r.Beyond[g.String()]; why != "" {
			extrapolated += r.Parts[g.String()]
			lines += fmt.Sprintf("  %s: %s\n", g, why)
		}
	}
	if err == nil && lines != "" {
		_, err = fmt.Fprintf(w, "\nextrapolated: %.1f%% of the time\n%s", 100*extrapolated/r.MS, lines)
	}
	return err
}
