package main

import (
	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/traces"
)

func (a *app) newTraceGenerateCommand() *cobra.Command {
	var o traceOutput
	spec := traces.AgentSpec{Requests: 1000}
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Draw sessions of coding agents: turns that wait, prompts to a million tokens",
		Long: `Draw sessions of coding agents: turns that wait, prompts to a million tokens.

Lengths, turns and pauses have the published quartiles and means of 739 sessions (docs/reference/traces.md).
Prompts begin with all that came before in their session, which caches of prefixes find.`,
		Example: `  l3sim trace generate --requests 59000 --rate 0.02 --seed 7 --out out/agents.jsonl.gz
  l3sim trace generate --requests 2000 --max-tokens 131072 | l3sim run --trace - --model llama-3-8b`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd, ""); err != nil {
				return err
			}
			t, err := traces.DrawAgents(spec)
			if err != nil {
				return input.Edit(err, func(e *input.Error) { e.Key = "--" + e.Key })
			}
			return a.writeTrace(t, &o)
		},
	}
	cmd.Flags().IntVar(&spec.Requests, "requests", spec.Requests, "draw this many requests")
	cmd.Flags().Uint64Var(&spec.Seed, "seed", 0, "of what is drawn")
	cmd.Flags().Float64Var(&spec.RatePerS, "rate", 0, "mean `rate` at which sessions begin, a second; 0: all together")
	cmd.Flags().IntVar(&spec.MaxTokens, "max-tokens", 0, "`tokens` of a prompt and its answer that no session exceeds; 0: up to 911,000")
	o.register(cmd.Flags(), "`format` to write")
	o.to = "mooncake"
	return cmd
}
