package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/pim/values"
)

type pimVerifyFlags struct {
	vectors string
	seed    uint64
	config  cli.ConfigFlags
}

func (a *app) newPIMVerifyCommand() *cobra.Command {
	var f pimVerifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compute attention on the bytes in the simulated banks and compare with reference vectors",
		Long: `Compute attention on the bytes in the simulated banks and compare with reference vectors.

Keys and values go through the re-layout and the mapping into the banks of one rank for each
KV head, and the PIM program runs on them. A case fails if any bit of the output differs from a direct computation in the same formats,
or if the error exceeds 3 times what independent roundings would give.

FILE is a safetensors file. Each case NAME has NAME.q [query heads, queries, d], NAME.k [KV heads, keys, d] and NAME.v
[KV heads, keys, dv] in F16, BF16 or F32, NAME.out [query heads, queries, dv] in F64 or F32, and may have
NAME.lse [query heads, queries], the natural log-sum-exp. Without FILE cases are drawn: a single token, decode steps, grouped queries, a prefill and a chunk of one.`,
		Example: `  l3sim pim verify
  l3sim pim verify --precision fp32 --vectors mine.safetensors --json
  l3sim pim verify --set pim.precision.softmax_sum=fp16`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pimVerify(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.vectors, "vectors", "", "safetensors `file` of cases")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the cases that are drawn without --vectors")
	f.config.Register(cmd, cli.DRAMFlag, cli.PrecisionFlag)
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	return cmd
}

// pimVerify runs all cases. It prints the results before it fails.
func (a *app) pimVerify(cmd *cobra.Command, f *pimVerifyFlags) error {
	c, err := f.config.Load(cmd)
	if err != nil {
		return err
	}
	cases, err := verifyCases(f.vectors, f.seed)
	if err != nil {
		return err
	}
	results, failed := make([]values.VerifyResult, 0, len(cases)), 0
	for i := range cases {
		r, err := values.Verify(cmd.Context(), &c.PIM, &c.DRAM.Spec, &cases[i])
		if err != nil {
			var bad *input.Error
			if f.vectors != "" && errors.As(err, &bad) {
				return &input.Error{File: f.vectors, Key: cases[i].Name, Err: err}
			}
			return err
		}
		if !r.Pass {
			failed++
		}
		results = append(results, r)
	}
	out := struct {
		Precision string                `json:"precision"`
		Cases     []values.VerifyResult `json:"cases"`
	}{c.PIM.Precision.Preset, results}
	if err := a.Print(out, func(w io.Writer) error { return writeVerified(w, results) }); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, len(results))
	}
	return nil
}

// verifyCases reads the cases of a file, or draws some.
func verifyCases(path string, seed uint64) ([]values.VerifyCase, error) {
	if path == "" {
		return values.DrawCases(seed)
	}
	file, err := attention.OpenSafetensors(path)
	if err != nil {
		return nil, err
	}
	cases, err := values.ReadVerifyCases(file)
	if err != nil {
		return nil, &input.Error{File: path, Err: err}
	}
	return cases, nil
}

func writeVerified(w io.Writer, results []values.VerifyResult) error {
	return cli.Aligned(w, 0, func(table io.Writer) {
		fmt.Fprintln(table, "case\theads\tqueries\tkeys\td\tstored\trelative L2\tmax abs\ttolerance\t")
		for _, r := range results {
			verdict := "pass"
			if !r.Pass {
				verdict = "FAIL: " + r.Reason
			}
			widths := fmt.Sprint(r.HeadDim)
			if r.ValueDim > 0 {
				widths += fmt.Sprintf("/%d", r.ValueDim)
			}
			fmt.Fprintf(table, "%s\t%d/%d\t%d\t%d\t%s\t%s\t%.3g\t%.3g\t%.3g\t%s\n", r.Name, r.Heads, r.KVHeads, r.Queries, r.Keys, widths,
				r.Storage, r.RelativeL2, r.MaxAbs, r.Tolerance, verdict)
		}
	})
}
