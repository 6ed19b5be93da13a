package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/lab/requests"
	"github.com/l3sim/l3sim/results"
)

func (a *app) newCalibrateCommand() *cobra.Command {
	var config cli.ConfigFlags
	var out string
	share := 0.5
	cmd := &cobra.Command{
		Use:   "calibrate LOG...",
		Short: "Fit the host's time and the memory of keys and values to a server's log",
		Long: `Fit the host's time and the memory of keys and values to a server's log.

Each LOG is what one of your servers did: the result of vLLM's 'bench serve --save-result --save-detailed', AIPerf's
profile_export.jsonl, or LLMServingSim's requests.jsonl with meta.json beside it. The same requests run at the same times
on the system gpu-only. At most three constants are fitted to the first half of each log (--fit), the same for
all logs: gpu.host.exposed, what the host adds to each iteration, gpu.host.sequence, what it does for each request while the
GPUs run, and gpu.memory_share, where no log says how many tokens the server holds. The errors before and after are those of the requests that were not fitted.`,
		Example: `  l3lab calibrate bench.json --set 'gpu.preset="rtx-4090-vllm-0.19"' --set 'run.model="llama-3.1-8b"' --out mine.toml
  l3sim plan --config mine.toml --model llama-3.1-8b --gpu rtx-4090-vllm-0.19`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(cli.NotEmpty(cmd, "out"), cli.WritableFile("--out", out)); err != nil {
				return err
			}
			given, err := config.Given(cmd)
			if err != nil {
				return err
			}
			var logs []*requests.Log
			for _, name := range args {
				log, err := requests.Read(name)
				if err != nil {
					return err
				}
				logs = append(logs, log)
			}
			c, err := requests.Calibrate(cmd.Context(), logs, share, given)
			if err != nil {
				return err
			}
			if out != "" {
				if err := results.WriteFileAtomic(out, c.WriteTOML); err != nil {
					return err
				}
			}
			return a.Print(c, c.WriteText)
		},
	}
	config.Register(cmd)
	cmd.Flags().Float64Var(&share, "fit", share, "`share` of each log's requests, the first to come, to which constants are fitted")
	cmd.Flags().StringVar(&out, "out", "", "write the constants to a TOML `file` for --config of run, capacity and plan")
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	return cmd
}
