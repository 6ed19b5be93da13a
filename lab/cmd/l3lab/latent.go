package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/lab/lm"
)

type latentFlags struct {
	formats string
	tokens  int
}

func (a *app) newLatentCommand() *cobra.Command {
	var f latentFlags
	cmd := &cobra.Command{
		Use:   "latent FILE",
		Short: "Compare a model with latent attention with the results in its file",
		Long: `Compare a model with latent attention with the results in its file.

The file is safetensors: a model's weights with its dimensions as metadata, tokens, and what an independent program computed
of them in float64, to everything (dense) and by the model's indexer (dsa). Each way is computed expanded, with keys and values
of each head, and absorbed, on the rows that all heads share. A row of the table says how far tokens are off, in nats, how far
elements of attention's results are, and how many of the listed choices differ, with the largest gap between the last chosen
score and the next among these.

Formats are float64, float32, and float64 with rows stored as fp16 or bf16. lab/docs/sparse.md has results.`,
		Example: `  l3lab latent latent_reference.safetensors
  l3lab latent model.safetensors --formats float64,fp16 --tokens 200 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.latent(cmd, args[0], &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.formats, "formats", strings.Join(lm.LatentFormats(), ","), "formats to compute in")
	flags.IntVar(&f.tokens, "tokens", 0, "first tokens of the text to compute (default: all)")
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	return cmd
}

// latentRow is a row of the command's table.
type latentRow struct {
	Way    string `json:"way"`
	Format string `json:"format"`
	Form   string `json:"form"`
	lm.LatentDifference
}

func (a *app) latent(cmd *cobra.Command, path string, f *latentFlags) error {
	if err := cli.NotEmpty(cmd, "formats"); err != nil {
		return err
	}
	formats := strings.Split(f.formats, ",")
	for _, format := range formats {
		if !slices.Contains(lm.LatentFormats(), format) {
			return input.UnknownName("--formats", format, lm.LatentFormats())
		}
	}
	file, err := attention.OpenSafetensors(path)
	if err != nil {
		return err
	}
	c, err := lm.ReadLatentCase(file)
	if err != nil {
		return input.FileError(path, err)
	}
	if cmd.Flags().Changed("tokens") {
		if err := cli.Between("--tokens", f.tokens, 2, len(c.Tokens)); err != nil {
			return err
		}
		c = c.First(f.tokens)
	}
	var rows []latentRow
	for _, way := range c.Ways() {
		for _, format := range formats {
			for _, form := range []string{"expanded", "absorbed"} {
				run, err := c.Run(cmd.Context(), way, format, form == "expanded", runtime.GOMAXPROCS(0))
				if err != nil {
					return err
				}
				rows = append(rows, latentRow{way, format, form, c.Compare(way, run)})
			}
		}
	}
	return a.PrintAligned(rows, 0, func(w io.Writer) {
		fmt.Fprintln(w, "way\tformat\tform\tlargest nats\tmean nats\tattention\tchoices\tdiffer\tgap")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.2g\t%.2g\t%.2g\t%d\t%d\t%.2g\n", r.Way, r.Format, r.Form, r.NLLMax, r.NLLMean, r.AttentionMax, r.Choices, r.Differing, r.Gap)
		}
	})
}
