package main

import (
	"cmp"
	"io"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/lab/service"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
)

type serviceFlags struct {
	config  cli.ConfigFlags
	service string
	log     string // of requests
	rows    string
	loop    string
	hostKV  string
	whole   string // servers of whole models
	fit     bool
	figure  string
	workers int
}

func (a *app) newValidateCommand() *cobra.Command {
	var f serviceFlags
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Compare whole servers' latencies with the system gpu-only",
		Long: `Compare whole servers' latencies with the system gpu-only.

Measurements are CSV files with a static batch in each row, in the columns
  gpu,gpus,framework,model,in_tokens,out_tokens,batch,latency_s
or with a closed loop of batch users, which has ttft_ms,tpot_ms in place of latency_s. A file service.toml beside the
measurements can explain names and give columns that a file lacks. Two constants of each framework and GPU are fitted
to every fifth row; the errors are those of the other rows. lab/docs/validation.md says more. Without --service the
measurements that are part of the program are compared.

With --loop, compare measured iterations whose attention is a stand-in beyond PCIe with the dataflow of l3. The file
has the columns
  model,tp,sub_batches,batch,chunk,finished,standin,pim_us,ms,joules,alone_us
and the node is dgx-h200-l3 where its name has "h200", else dgx-h100-l3; --config and --set change it.
lab/docs/validation.md says more.

With --hostkv, compare measured decode iterations whose chosen rows of keys and values come out of host memory with the
flow of sparse-offload and pcie's model of the fetch. The GPU's part is the measured one. The file has the columns
  mode,batch,context,misses,layers,ms,spread
with the modes none and two_none (no transfers), inline (fetches in the order of the kernels), two8 and two132 (two
sub-batches, fetches of 8 or 132 blocks beside the other's kernels). lab/docs/model-gpu.md says more.

With --whole, compare measured servers of whole models, one row a measurement, with the GPUs' fits of the row's framework:
the time between tokens of a closed loop of the given seats, or output tokens/s per GPU where all requests come at once. The
file has the columns
  model,gpu,gpus,precision,framework,parallelism,speculation,input,output,concurrency,tpot_ms,output_tok_s_gpu
A row that cannot be run is printed with the reason, and not judged. lab/docs/validation.md says more.

--requests compares the requests of one server's log instead, each at its own time: LLMServingSim's requests.jsonl (with
the settings in meta.json beside it), the file of vLLM's 'bench serve --save-detailed', or AIPerf's
profile_export.jsonl. Other settings are keys: gpu.preset, run.model, batching.max_num_seqs,
batching.max_num_batched_tokens, gpu_only.kv_tokens or kv_memory, gpu.host.exposed. lab/docs/validation.md says more.`,
		Example: `  l3lab validate
  l3lab validate --service measured/servers.csv --json
  l3lab validate --requests requests.jsonl --set 'gpu.preset="rtx-4090-vllm-0.19"' --figure log.svg
  l3lab validate --rows rows.csv --set gpu.memory_reserve=2GiB
  l3lab validate --loop h100_tp1.csv --figure loop.png
  l3lab validate --whole whole_models.csv --json
  l3lab validate --hostkv lab/hostkv/testdata/hostkv.csv --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.validate(cmd, &f) },
	}
	f.config.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.service, "service", "", "CSV `file`, or folder of them")
	flags.StringVar(&f.log, "requests", "", "`log` of one server's requests, in place of --service")
	flags.StringVar(&f.rows, "rows", "", "also write every row with its prediction to a CSV `file`")
	flags.StringVar(&f.loop, "loop", "", "CSV `file` of iterations with a stand-in beyond PCIe")
	flags.StringVar(&f.hostKV, "hostkv", "", "CSV `file` of iterations that fetch rows out of host memory")
	flags.StringVar(&f.whole, "whole", "", "CSV `file` of servers of whole models")
	flags.BoolVar(&f.fit, "fit", false, "with --loop: fit the links of the node to every fifth row first, and print them on standard error; with --whole: print the host time of each framework instead")
	flags.StringVar(&f.figure, "figure", "", "draw into a `file` (.png, .svg or .pdf) with --loop, iterations over the stand-in's latency; with --requests, measured and simulated distributions")
	flags.IntVar(&f.workers, "workers", 0, "rows that run at a time, which changes no result; 0: one per core")
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	return cmd
}

func (a *app) validate(cmd *cobra.Command, f *serviceFlags) error {
	if err := cmp.Or(cli.Between("--workers", f.workers, 0, 1<<16), cli.NotEmpty(cmd, "service", "rows", "requests", "loop", "hostkv", "whole", "figure"), cli.WritableFile("--rows", f.rows),
		cli.WritableFile("--figure", f.figure), cli.Exclusive(cmd, "requests", "service"), cli.Exclusive(cmd, "loop", "requests")); err != nil {
		return err
	}
	if f.figure != "" {
		if _, err := figure.Format("--figure", f.figure); err != nil {
			return err
		}
	}
	given, err := f.config.Given(cmd)
	if err != nil {
		return err
	}
	switch {
	case f.whole != "":
		return a.validateWhole(cmd, f, given)
	case f.hostKV != "":
		return a.validateHostKV(cmd, f, given)
	case f.loop != "":
		return a.validateLoop(cmd, f, given)
	case f.fit:
		return &input.Error{Key: "--fit", Expected: "--loop beside it"}
	case f.log != "":
		return a.validateRequests(cmd, f, given)
	case f.figure != "":
		return &input.Error{Key: "--figure", Value: f.figure, Expected: "--loop or --requests beside it"}
	}
	report, err := a.judgeServices(cmd, f, given)
	if err != nil {
		return err
	}
	if f.rows != "" {
		if err := results.WriteFileAtomic(f.rows, report.WriteRows); err != nil {
			return err
		}
	}
	return a.Print(report, report.WriteText)
}

// draw writes the file of --figure, if it is given.
func (f *serviceFlags) draw(page func(w io.Writer, format string) error) error {
	if f.figure == "" {
		return nil
	}
	format, err := figure.Format("--figure", f.figure)
	if err != nil {
		return err
	}
	return results.WriteFileAtomic(f.figure, func(w io.Writer) error { return page(w, format) })
}

// judgeServices reads and runs under a progress display.
func (a *app) judgeServices(cmd *cobra.Command, f *serviceFlags, given configs.Options) (*service.Report, error) {
	measured, err := service.Builtin()
	if f.service != "" {
		measured, err = service.Read(f.service)
	}
	if err != nil {
		return nil, err
	}
	show := a.NewProgress("rows")
	show.Start(int64(len(measured.Rows)))
	defer show.Done()
	return service.Judge(cmd.Context(), measured, service.Options{Configs: given, Workers: f.workers, Progress: show.Set})
}
