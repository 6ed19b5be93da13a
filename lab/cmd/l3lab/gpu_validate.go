package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/lab/measure"
)

type validateFlags struct {
	cli.GPUFlags
	measuredFlags
	maxMAPE float64
}

func (a *app) newGPUValidateCommand() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Compare predictions with measured kernels, iterations and energy",
		Long: `Compare predictions with measured kernels, iterations and energy.

Measurements are CSV files; the columns say what a file measures:
  m,n,k,us                                      gemm
  dtype,m,n,k,us                                gemm (bfloat16), fp8_gemm, fp8_block_gemm, nvfp4_gemm
  batch,context,q_heads,kv_heads,head_dim,us    decode_attention
  kv_dtype,batch,context,q_heads,kv_heads,head_dim,us[,window]
                                                decode_attention (bfloat16), fp8_decode_attention
  kind,batch,context,q_heads,kv_heads,head_dim,graph_us
                                                narrow_decode_attention (fp8, int8, int4); decode_attention (fp16)
  batch,longest,sum_context,q_heads,kv_heads,head_dim,fixed_us,balanced_us
                                                decode_attention (unequal contexts, by split)
  batch,length,q_heads,kv_heads,head_dim,us     prefill_attention
  chunk,finished,q_heads,kv_heads,head_dim,us   prefill_attention
  kv_dtype,batch,length,q_heads,kv_heads,head_dim,us[,prefix,window,attn_dtype]
                                                prefill_attention (bfloat16), fp8_prefill_attention
  chunk,finished,q_heads,kv_heads,head_dim,graph_us,unsplit_us
                                                extend_attention (keys split over thread blocks, and not)
  model,gemm,kv_dtype,heads,batch,(context | prefix,length),us
                                                latent_layer, indexed_layer (a layer's attention with all products around it)
  gpus,bytes,us                                 all_reduce
  direction,bytes,us                            pcie
  op,m,d,us                                     elementwise (layernorm, add, gelu, copy)
  op,batch,context,q_heads,kv_heads,head_dim,page,pages,us
                                                page_sparse (page_score, topk, attention); decode_attention (dense)
  model,tp,kind,batch,context,chunk,finished,ms[,joules]
                                                decode_iteration, prefill_iteration, mixed_iteration; iteration_energy
  op,detail,seconds,joules,bytes                power, of a kernel for seconds
  busy_us,seconds,joules,iterations             power, of work with gaps
Elements are 16 bits wide, but for what a column kind says of the cache or, in gemm, of both factors
(fp8: narrow_gemm). Kernels with graph_us in place of us were measured in graphs for milliseconds,
those with sustained_us, too, for seconds; tables with dtype or kv_dtype, which are AIConfigurator's, in graphs; others alone. Joules are of all GPUs. A model
is a preset or a file; iterations use NCCL. A column prefill_kernels names the suite (server,
pytorch) of an iteration's prefill attention where it is another. Of a folder, files with
other columns are left out.

All attention is judged as of one suite: give it with --suite, and keep the other's apart.`,
		Example: `  l3lab gpu validate --gpu a100-sxm-80gb --measured measured/a100
  l3lab gpu validate --gpu mine.toml --measured gemm.csv --max-mape 0.1`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.gpuValidate(cmd, &f) },
	}
	flags := cmd.Flags()
	f.GPUFlags.Register(a.App, flags)
	f.measuredFlags.register(flags, "the GPU's")
	flags.Float64Var(&f.maxMAPE, "max-mape", 0, "fail if a kind's mean absolute percentage error, as a fraction, is above")
	return cmd
}

func (a *app) gpuValidate(cmd *cobra.Command, f *validateFlags) error {
	g, link, err := f.Load(cmd)
	if err != nil {
		return err
	}
	t := &measure.Target{GPU: *g, Link: *link}
	if err := cli.RequireFlag(cmd, "measured", "a CSV file or a folder of them"); err != nil {
		return err
	}
	if cmd.Flags().Changed("max-mape") && !(f.maxMAPE >= 0) {
		return &input.Error{Key: "--max-mape", Value: fmt.Sprint(f.maxMAPE), Expected: "at least 0"}
	}
	samples, err := f.read(a, t)
	if err != nil {
		return err
	}
	a.noteSuites(t, samples)
	report := measure.Validate(t, samples)
	if err := a.Print(report.Errors, report.WriteText); err != nil {
		return err
	}
	if !cmd.Flags().Changed("max-mape") {
		return nil
	}
	return report.Above(f.maxMAPE)
}
