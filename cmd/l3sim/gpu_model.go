package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/units"
)

// batchFlags are the flags of `gpu model`.
type batchFlags struct {
	modelFlags
	batch, in, out int
}

func (a *app) newGPUModelCommand() *cobra.Command {
	var f batchFlags
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Predict the throughput of a static batch of equal requests",
		Long: `Predict the throughput of a static batch of equal requests on one replica: all prompts in
one prefill, then a decode step for each further token, as published benchmarks run. The
time is composed of kernels only, without a framework's: 'l3lab validate' has that.`,
		Example: `  l3sim gpu model --gpu a100-sxm-80gb --model llama-2-7b --batch 64 --in 128 --out 128`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.gpuModel(cmd, &f) },
	}
	flags := cmd.Flags()
	f.register(a, cmd)
	flags.IntVar(&f.batch, "batch", 1, "requests")
	flags.IntVar(&f.in, "in", 0, "prompt tokens of each")
	flags.IntVar(&f.out, "out", 0, "output tokens of each")
	return cmd
}

// staticBatch is the JSON of `gpu model`.
type staticBatch struct {
	GPU        string  `json:"gpu"`
	Suite      string  `json:"suite"`
	Model      string  `json:"model"`
	GPUs       int     `json:"gpus"`
	Batch      int     `json:"batch"`
	In         int     `json:"in_tokens"`
	Out        int     `json:"out_tokens"`
	Prefill    float64 `json:"prefill_s"`
	Decode     float64 `json:"decode_s"`
	Step       float64 `json:"decode_step_ms"` // mean
	Throughput float64 `json:"output_tokens_per_s"`
	Joules     float64 `json:"joules"` // all GPUs
	TokenJ     float64 `json:"joules_per_token"`
	Watts      float64 `json:"watts"`        // mean of each GPU
	Memory     int64   `json:"memory_bytes"` // weights and final KV cache, all GPUs
	Fits       bool    `json:"fits"`
}

func (a *app) gpuModel(cmd *cobra.Command, f *batchFlags) error {
	g, m, err := f.load(cmd)
	if err != nil {
		return err
	}
	const most = 1 << 20
	if err := cmp.Or(cli.Between("--batch", f.batch, 1, most), cli.Between("--in", f.in, 1, most), cli.Between("--out", f.out, 1, most)); err != nil {
		return err
	}
	r := staticBatch{GPU: g.Name, Suite: string(g.Suite), Model: m.Name, GPUs: m.TensorParallel, Batch: f.batch, In: f.in, Out: f.out}
	var joules float64
	r.Prefill, r.Decode, joules = gpu.NewModelCost(g, m).StaticBatch(f.batch, f.in, f.out)
	tokens := float64(f.batch) * float64(f.out)
	r.Throughput, r.Watts = tokens/(r.Prefill+r.Decode), joules/(r.Prefill+r.Decode)
	r.Joules = joules * float64(m.TensorParallel)
	r.TokenJ = r.Joules / tokens
	if f.out > 1 {
		r.Step = 1e3 * r.Decode / float64(f.out-1)
	}
	memory := m.WeightBytes() + units.Bytes(f.batch*m.KVReplicas())*m.KVBytes(f.in+f.out-1)
	r.Memory, r.Fits = int64(memory), memory <= units.Bytes(m.TensorParallel)*g.UsableMemory()
	return a.PrintAligned(r, 0, func(w io.Writer) {
		fmt.Fprintf(w, "throughput\t%.0f output tokens/s\n", r.Throughput)
		fmt.Fprintf(w, "prefill\t%.3f s\t%d tokens\n", r.Prefill, f.batch*f.in)
		fmt.Fprintf(w, "decode\t%.3f s\t%d steps of %.2f ms\n", r.Decode, f.out-1, r.Step)
		fmt.Fprintf(w, "energy\t%.3f kJ\t%.3f J an output token, %.0f W of each GPU\n", r.Joules/1e3, r.TokenJ, r.Watts)
		fmt.Fprintf(w, "memory\t%.1f GiB\tweights and final KV cache", float64(r.Memory)/float64(units.GiB))
		if !r.Fits {
			fmt.Fprintf(w, ", more than the %.1f GiB of %d x %s", float64(m.TensorParallel)*float64(g.UsableMemory())/float64(units.GiB), m.TensorParallel, g.Name)
		}
		fmt.Fprintln(w)
	})
}
