package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/kinds"
)

// policyIterationKeys are the flags that set what runs.
var policyIterationKeys = []cli.KeyFlag{
	cli.Key("preset", "preset", "", "system `preset` (see 'l3sim config list')"),
	cli.Key("model", "run.model", "", "`model`: a preset (see 'l3sim config list') or a file"),
	cli.Key("gpu", "gpu.preset", "", "`GPU`: a preset or a file"),
	cli.Key("policy", "policy.name", "dense", "attention `policy` (see 'l3sim config policies'), or several (a,b)"),
}

// policyIterationFlags are those of the command.
type policyIterationFlags struct {
	cli.ConfigFlags
	contexts string
	batch    int
	csv      string
}

// policyIteration is a decode step of a batch of equal requests under a policy.
type policyIteration struct {
	Policy  string             `json:"policy"`
	Context int                `json:"context_tokens"`
	Batch   int                `json:"batch"`
	Parts   map[string]float64 `json:"parts_us"`
	Total   float64            `json:"total_us"`
}

func (a *app) newPolicyIterationCommand() *cobra.Command {
	var f policyIterationFlags
	cmd := &cobra.Command{
		Use:   "iteration",
		Short: "Say where the time of a decode step goes on the GPUs, by policy",
		Long: `Say where the time of a decode step goes on the GPUs alone, by policy and context.

All requests of the batch have the same context, the step's own token included. The step is the mean
over 64 successive ones, whose last has this context: lists of pages that are made every few steps
count in part. Times are what the iterations of 'l3sim run --system gpu-only' take.`,
		Example: `  l3sim config policies iteration --policy dense,quest,lserve --model llama-3-8b --context 8192,65536
  l3sim config policies iteration --policy lserve --batch 16 --context 131072 --set policy.lserve.reuse=1 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := f.iterations(cmd)
			if err != nil {
				return err
			}
			t := policyTable(all)
			if f.csv != "" {
				if err := results.WriteFileAtomic(f.csv, t.WriteCSV); err != nil {
					return err
				}
			}
			return a.Print(all, t.WriteText)
		},
	}
	f.Register(cmd, policyIterationKeys...)
	cli.ListVar(cmd.Flags(), &f.contexts, "context", "", "65536", "`tokens` of each request's context, or several (a,b)")
	cmd.Flags().IntVar(&f.batch, "batch", 1, "requests that decode")
	cmd.Flags().StringVar(&f.csv, "csv", "", "also write a row for each policy and context to this CSV `file`, for 'l3sim plot --kind stack'")
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print a JSON array")
	return cmd
}

const meanSteps = 64 // number of decode steps in the mean

func (f *policyIterationFlags) iterations(cmd *cobra.Command) ([]policyIteration, error) {
	if err := cmp.Or(cli.Between("--batch", f.batch, 1, 1<<16), cli.NotEmpty(cmd, "csv")); err != nil {
		return nil, err
	}
	contexts, err := splitContexts(f.contexts)
	if err != nil {
		return nil, err
	}
	o, err := f.Given(cmd)
	if err != nil {
		return nil, err
	}
	o.Sets = append([]string{"run.system=gpu-only"}, o.Sets...)
	i := slices.IndexFunc(o.Flags, func(f configs.Flag) bool { return f.Key == "policy.name" })
	names := []string{""}
	if i >= 0 {
		names = strings.Split(o.Flags[i].Value, ",")
	}
	var all []policyIteration
	for _, name := range names {
		if i >= 0 {
			o.Flags[i].Value = strings.TrimSpace(name)
		}
		cfg, err := system.Load(o)
		if err != nil {
			return nil, err
		}
		if cfg.Run.System != "gpu-only" {
			return nil, &input.Error{Key: "run.system", Value: cfg.Run.System, Expected: "gpu-only, whose iterations this command takes apart"}
		}
		parts := kinds.NewGPUIterations(cfg)
		for _, context := range contexts {
			all = append(all, newPolicyIteration(cfg.Policy.Name, parts, context, f.batch))
		}
	}
	return all, nil
}

func splitContexts(list string) (contexts []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n <= meanSteps || n > 1<<24 {
			return nil, &input.Error{Key: "--context", Value: strconv.Quote(text), Expected: fmt.Sprintf("a number of tokens, %d to %d, or several joined by commas", meanSteps+1, 1<<24)}
		}
		contexts = append(contexts, n)
	}
	return contexts, nil
}

// newPolicyIteration returns the mean of the steps up to a context.
func newPolicyIteration(name string, parts *gpus.GPUIterations, context, batch int) policyIteration {
	row := policyIteration{Policy: name, Context: context, Batch: batch, Parts: map[string]float64{}}
	requests := make([]policy.Request, batch)
	for step := range meanSteps {
		for i := range requests {
			requests[i] = policy.Request{Prompt: context - meanSteps, Context: context - meanSteps + 1 + step}
		}
		x := parts.Parts(requests)
		for _, p := range gpus.IterationParts() {
			row.Parts[p.String()] += float64(x[p].Microseconds() / meanSteps)
		}
		row.Total += float64(x.Total().Microseconds() / meanSteps)
	}
	return row
}

// policyTable returns a tidy table with the times of the groups that any row has.
func policyTable(all []policyIteration) *tables.Table {
	t := &tables.Table{Columns: []string{"policy", "context_tokens", "batch"}}
	var parts []string
	for _, p := range gpus.IterationParts() {
		if slices.ContainsFunc(all, func(r policyIteration) bool { return r.Parts[p.String()] > 0 }) {
			parts = append(parts, p.String())
			t.Columns = append(t.Columns, strings.NewReplacer(" ", "_", "-", "_").Replace(p.String())+"_us")
		}
	}
	t.Columns = append(t.Columns, "total_us")
	for _, r := range all {
		row := []any{r.Policy, r.Context, r.Batch}
		for _, p := range parts {
			row = append(row, math.Round(1e3*r.Parts[p])/1e3)
		}
		t.Add(append(row, math.Round(1e3*r.Total)/1e3)...)
	}
	return t
}
