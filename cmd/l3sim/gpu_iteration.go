package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/lab/measure"
	"github.com/l3sim/l3sim/llm"
)

// iterationFlags are the flags of `gpu iteration`.
type iterationFlags struct {
	gpuFlags
	model, allReduce, measured          string
	tp, batch, context, chunk, finished int
}

// shapeFlags are the flags that say what one iteration is.
var shapeFlags = []string{"model", "tp", "batch", "context", "chunk", "finished"}

func (a *app) newGPUIterationCommand() *cobra.Command {
	var f iterationFlags
	cmd := &cobra.Command{
		Use:   "iteration",
		Short: "Predict the time and energy of whole iterations",
		Long: `Predict the time and energy of one iteration of a model, or of all that a file measured.

An iteration decodes --batch requests, each over --context tokens (its own included), and
prefills --chunk tokens of another after --finished ones; either may be absent. It is one of
many: the power limit holds. Joules are of all GPUs, the parts are kernels by group.
All-reduces are NCCL's, with which iterations are measured; a run's are the GPU's own
(gpu.all_reduce.method), and --all-reduce direct has those here.

With --measured, each iteration of a file or folder is predicted (columns: see 'l3sim gpu
validate --help').`,
		Example: `  l3sim gpu iteration --gpu h200-sxm --model llama-3-8b --batch 64 --context 2048
  l3sim gpu iteration --gpu h200-sxm --model opt-66b --tp 4 --batch 32 --context 1024 --chunk 512 --finished 1024 --json
  l3sim gpu iteration --gpu h200-sxm --suite pytorch --measured iterations_tp1.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.gpuIteration(cmd, &f) },
	}
	flags := cmd.Flags()
	f.register(a, flags, jsonUsage)
	flags.StringVar(&f.model, "model", "", "model: a preset or a `file`")
	flags.IntVar(&f.tp, "tp", 0, "GPUs that share the model (default: as the model says)")
	flags.IntVar(&f.batch, "batch", 0, "requests that decode")
	flags.IntVar(&f.context, "context", 0, "tokens over which each of them attends, its new one included")
	flags.IntVar(&f.chunk, "chunk", 0, "tokens of a prompt that are prefilled")
	flags.IntVar(&f.finished, "finished", 0, "tokens of that prompt before the chunk")
	flags.StringVar(&f.allReduce, "all-reduce", string(gpu.AllReduceNCCL), "nccl as iterations are measured, or direct kernels for small sizes as servers run them")
	flags.StringVar(&f.measured, "measured", "", "CSV file of iterations, or `folder` of them")
	return cmd
}

// gpuIteration predicts one iteration, or those of --measured.
func (a *app) gpuIteration(cmd *cobra.Command, f *iterationFlags) error {
	t, err := f.target(cmd)
	if err != nil {
		return err
	}
	methods := []string{string(gpu.AllReduceDirect), string(gpu.AllReduceNCCL)}
	if !slices.Contains(methods, f.allReduce) {
		return input.UnknownName("--all-reduce", f.allReduce, methods)
	}
	t.Method = gpu.AllReduceMethod(f.allReduce)
	if cmd.Flags().Changed("measured") {
		for _, name := range shapeFlags {
			if flag := cmd.Flags().Lookup(name); flag.Changed {
				return &input.Error{Key: "--" + name, Value: flag.Value.String(), Expected: "no shape beside --measured, which has shapes of its own"}
			}
		}
		return a.gpuIterations(t, f)
	}
	m, err := f.load(cmd, t)
	if err != nil {
		return err
	}
	t.GPU.Collective.Method = t.Method
	r := newIteration(&t.GPU, m, f)
	return a.print(r, r.writeText)
}

// load returns the model, on the GPUs of --tp, and checks the shape.
func (f *iterationFlags) load(cmd *cobra.Command, t *measure.Target) (*llm.Model, error) {
	if err := requireFlag(cmd, "model", "a file or a preset (see 'l3sim config list'), or --measured"); err != nil {
		return nil, err
	}
	m, err := configs.LoadModel("--model", f.model, &t.GPU, nodeGPUs)
	if err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("tp") {
		m.TensorParallel = f.tp
		if err := input.Validate(m); err != nil {
			return nil, input.Edit(err, func(bad *input.Error) { bad.Key = "--tp" })
		}
	}
	return m, f.checkShape()
}

// checkShape refuses sizes out of range, and half an iteration.
func (f *iterationFlags) checkShape() error {
	if err := cmp.Or(between("--batch", f.batch, 0, 1<<20), between("--context", f.context, 0, 1<<30),
		between("--chunk", f.chunk, 0, 1<<30), between("--finished", f.finished, 0, 1<<30)); err != nil {
		return err
	}
	bad := func(flag string, value int, expected string) error {
		return &input.Error{Key: "--" + flag, Value: strconv.Itoa(value), Expected: expected}
	}
	switch {
	case f.batch > 0 && f.context == 0:
		return bad("context", 0, "at least 1, over which the requests of --batch attend")
	case f.batch == 0 && f.context > 0:
		return bad("batch", 0, "at least 1 request with --context")
	case f.chunk == 0 && f.finished > 0:
		return bad("chunk", 0, "at least 1 token after --finished")
	case f.batch == 0 && f.chunk == 0:
		return &input.Error{Key: "--batch", Value: "0", Expected: "requests that decode, or a --chunk to prefill"}
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
	Joules    float64            `json:"joules"` // all GPUs
	Watts     float64            `json:"watts"`  // mean of each GPU
	Parts     map[string]float64 `json:"parts"`  // ms by group of kernels; their sum is MS
}

// newIteration predicts the iteration of the flags, which are checked.
func newIteration(g *gpu.Spec, m *llm.Model, f *iterationFlags) *iteration {
	x := gpu.Shape{Decode: gpu.UniformBatch(f.batch, f.context), Chunk: f.chunk, Finished: f.finished}
	if f.chunk > 0 {
		x.Prefills = 1
	}
	parts := gpu.NewModelCost(g, m).IterationParts(x)
	seconds, joules := g.Sustained(parts.Total())
	r := &iteration{
		GPU: g.Name, Suite: g.Suite, Model: m.Name, GPUs: m.TensorParallel, AllReduce: string(g.Collective.Method),
		Batch: f.batch, Context: f.context, Chunk: f.chunk, Finished: f.finished,
		MS: 1e3 * seconds, Joules: joules * float64(m.TensorParallel), Watts: joules / seconds, Parts: map[string]float64{},
	}
	for i, s := range g.SustainedParts(parts) {
		r.Parts[gpu.Group(i).String()] = 1e3 * s
	}
	return r
}

// writeText writes the iteration, then the groups of kernels that it has.
func (r *iteration) writeText(w io.Writer) error {
	err := aligned(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "iteration\t%.4f ms\t%s on %d x %s, kernels of the suite %s\n", r.MS, r.Model, r.GPUs, r.GPU, r.Suite)
		fmt.Fprintf(w, "energy\t%.4f J\t%.0f W of each GPU\n\n", r.Joules, r.Watts)
	})
	if err != nil {
		return err
	}
	return aligned(w, tabwriter.AlignRight, func(w io.Writer) {
		for g := range gpu.Groups {
			if ms := r.Parts[g.String()]; ms > 0 {
				fmt.Fprintf(w, "%s\t%.4f ms\t%.1f%%\t\n", g, ms, 100*ms/r.MS)
			}
		}
	})
}

// gpuIterations predicts the iterations of --measured and prints each beside what was
// measured, with the errors by kind.
func (a *app) gpuIterations(t *measure.Target, f *iterationFlags) error {
	all, err := a.readMeasured(f.measured)
	if err != nil {
		return err
	}
	var samples []measure.Sample
	for _, s := range all {
		if s.Kind().Iteration() {
			samples = append(samples, s)
		}
	}
	if len(samples) == 0 {
		return &input.Error{Key: "--measured", Value: f.measured, Expected: "iterations, with columns model,tp,kind,batch,context,chunk,finished,ms"}
	}
	a.noteSuites(t, samples)
	r := &iterations{judge(t, samples), t.Iterations(samples)}
	return a.print(r.json(), r.writeText)
}

// iterations are predictions of measured iterations.
type iterations struct {
	*validation
	rows []measure.Iteration
}

// json returns the errors by kind, and all rows.
func (r *iterations) json() map[string]any {
	out := map[string]any{"rows": r.rows}
	for kind, e := range r.errors {
		out[string(kind)] = e
	}
	return out
}

// writeText writes the errors by kind, then a line for each iteration.
func (r *iterations) writeText(w io.Writer) error {
	if err := r.writeErrors(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return aligned(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprint(w, "model\ttp\tkind\tbatch\tcontext\tchunk\tfinished\tmeasured ms\tms\terror\tmeasured J\tJ\terror\t\n")
		for i := range r.rows {
			x := &r.rows[i]
			kind := strings.TrimSuffix(string(x.Kind), "_iteration")
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t%.3f\t%.3f\t%+.1f%%\t", x.Model, x.GPUs, kind, x.Batch, x.Context, x.Chunk, x.Finished,
				x.MeasuredMS, x.MS, 100*x.Error)
			if x.MeasuredJoules == nil {
				fmt.Fprintf(w, "\t%.3f\t\t\n", x.Joules)
				continue
			}
			fmt.Fprintf(w, "%.3f\t%.3f\t%+.1f%%\t\n", *x.MeasuredJoules, x.Joules, 100**x.JoulesError)
		}
	})
}
