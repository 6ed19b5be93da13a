package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/lab/lm"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

type generateFlags struct {
	languageFlags
	prompts, files []string
	tokens         int
	temperature    float64
	seed           uint64
	stats          bool
}

const builtinPrompt = 2049 // bytes of the sample text that `generate` continues by default

func (a *app) newGenerateCommand() *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Decode text with a real language model whose attention runs in the simulated DIMMs",
		Long: `Decode text with a real language model whose attention runs in the simulated DIMMs.

The model is byte-level and was trained for this program on Go source: 6 layers, 4 heads of 128, 8,192 tokens. Keys and
values of every token go through the re-layout into the banks; the PIM program computes attention on those bytes.
Without a prompt, Go source that the model has not seen is continued. Several prompts are decoded side by side and
are printed at the end.`,
		Example: `  l3lab generate
  l3lab generate --prompt 'func main() {' --tokens 200 --precision fp32 --stats
  l3lab generate --prompt-file a.go --prompt-file b.go --temperature 0.8 --seed 7`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.generate(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.prompts, "prompt", nil, "`text` to continue (repeatable)")
	flags.StringArrayVar(&f.files, "prompt-file", nil, "`file` with text to continue (repeatable, after those of --prompt)")
	flags.IntVar(&f.tokens, "tokens", 128, "bytes to decode after each prompt")
	flags.Float64Var(&f.temperature, "temperature", 0, "0 takes the likeliest byte; else bytes are drawn by softmax(logits / temperature)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of what is drawn")
	flags.BoolVar(&f.stats, "stats", false, "end with the time and energy that it took in simulation, bytes moved, and the attention's error")
	f.register(cmd)
	return cmd
}

func (a *app) generate(cmd *cobra.Command, f *generateFlags) error {
	m, node, err := f.load(cmd)
	if err != nil {
		return err
	}
	prompts, err := f.read(cmd, m)
	if err != nil {
		return err
	}
	samplers := make([]*lm.Sampler, len(prompts))
	texts := make([]bytes.Buffer, len(prompts))
	for i := range prompts {
		samplers[i] = lm.NewSampler(f.temperature, f.seed, i)
	}
	start, decoded := time.Now(), time.Now()
	s, err := lm.Generate(cmd.Context(), m, node, prompts, f.tokens, samplers, func(sequence int, token byte) error {
		if texts[sequence].Len() == 0 {
			decoded = time.Now()
		}
		if len(prompts) > 1 {
			return texts[sequence].WriteByte(token)
		}
		texts[sequence].WriteByte(token)
		_, err := a.Stdout.Write([]byte{token})
		return err
	})
	if err != nil {
		return f.config.Locate(err)
	}
	if err := a.writeTexts(texts, f.stats); err != nil || !f.stats {
		return err
	}
	return a.printStats(cmd.Context(), m, node, prompts, f.tokens, s, [2]time.Duration{decoded.Sub(start), time.Since(decoded)})
}

func (f *generateFlags) read(cmd *cobra.Command, m *lm.Model) ([][]byte, error) {
	if err := cli.Between("--tokens", f.tokens, 1, m.Context); err != nil {
		return nil, err
	}
	if !(f.temperature >= 0 && f.temperature <= 100) {
		return nil, &input.Error{Key: "--temperature", Value: fmt.Sprint(f.temperature), Expected: "0 to 100"}
	}
	if err := cli.NotEmpty(cmd, "prompt", "prompt-file"); err != nil {
		return nil, err
	}
	var prompts [][]byte
	add := func(name string, text []byte) error {
		prompts = append(prompts, text)
		return tooLong(name, len(text), f.tokens, m.Context)
	}
	for i, text := range f.prompts {
		if err := add(fmt.Sprintf("--prompt %d", i+1), []byte(text)); err != nil {
			return nil, err
		}
	}
	for _, path := range f.files {
		text, err := readText("--prompt-file", path)
		if err == nil {
			err = add(path, text)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(prompts) == 0 {
		n := min(builtinPrompt, m.Context/2)
		return prompts, add("--tokens", lm.SampleText()[:n])
	}
	return prompts, nil
}

// writeTexts ends the text on a terminal, and writes the texts of several prompts.
func (a *app) writeTexts(texts []bytes.Buffer, more bool) error {
	if len(texts) == 1 && !more && !a.OnTerminal() {
		return nil
	}
	if len(texts) == 1 {
		_, err := fmt.Fprintln(a.Stdout)
		return err
	}
	for i := range texts {
		if _, err := fmt.Fprintf(a.Stdout, "prompt %d:\n%s\n", i+1, texts[i].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// printStats prints the times of the session's steps: the node decodes requests of the same
// lengths, and the ranks' programs run command by command.
func (a *app) printStats(ctx context.Context, m *lm.Model, node *lm.Node, prompts [][]byte, tokens int, s *lm.Session, wall [2]time.Duration) error {
	summary, err := timeSession(ctx, node.Config, prompts, tokens)
	if err != nil {
		return err
	}
	show := a.ProgressOnTerminal("sequences")
	show.Start(int64(len(prompts)))
	defer show.Done()
	var work lm.Work
	for i, p := range prompts {
		if err := lm.MeasureSteps(ctx, m, node, len(p)+1, tokens-1, &work); err != nil {
			return err
		}
		show.Set(int64(i + 1))
	}
	traffic, largest := s.Traffic(), s.MaxError()
	energy := dram.NewMillijoules(&node.Config.DRAM.Spec, &work.Energy)
	show.Done()
	return cli.Aligned(a.Stdout, 0, func(t io.Writer) {
		decoded := float64(len(prompts) * (tokens - 1))
		fmt.Fprintf(t, "\nsimulated\t%.3f ms\t%.0f tokens/s\n", 1e3*summary.SimulatedS, summary.OutputTokensPerS)
		fmt.Fprintf(t, "time to first token\t%.3f ms\tmax %.3f\n", summary.TTFT.Mean, summary.TTFT.Max)
		fmt.Fprintf(t, "time between tokens\t%.4f ms\tp99 %.4f\n", summary.TBT.Mean, summary.TBT.P99)
		if work.Clocks > 0 {
			clocks := work.Clocks
			fmt.Fprintf(t, "attention\t%.0f clocks\t%.0f a layer and token, on all ranks\n", clocks, clocks/float64(work.LayerSteps))
			for _, u := range []struct {
				name string
				busy float64
			}{{"bank PUs", work.BankPUs}, {"command bus", work.CommandBus}, {"data bus", work.DataBus}, {"adders", work.Adders}, {"softmax", work.Softmax}} {
				fmt.Fprintf(t, "  %s\t%.0f clocks\t%.1f%% busy\n", u.name, u.busy, 100*u.busy/clocks)
			}
		}
		if energy.NotEstimated != "" {
			energy.WriteLine(t)
		} else {
			fmt.Fprintf(t, "energy\t%.4g mJ\tranks that compute; activate %.3g, read %.3g, for units %.3g, write %.3g, refresh %.3g, background %.3g\n",
				energy.Total, energy.Activate, energy.Read, energy.UnitRead, energy.Write, energy.Refresh, energy.Background)
		}
		fmt.Fprintf(t, "  GPU\t%.4g mJ\tprompts included\n", 1e3*summary.Energy.GPU)
		fmt.Fprintf(t, "PCIe\t%d B down\t%d B up\n", traffic.PCIeDown, traffic.PCIeUp)
		fmt.Fprintf(t, "channels\t%d B\tin bursts\n", traffic.Channel)
		worst := "infinite"
		if !math.IsInf(largest, 0) {
			worst = fmt.Sprintf("%.3g", largest)
		}
		fmt.Fprintf(t, "largest error\t%s\tof attention against float64\n", worst)
		fmt.Fprintf(t, "this machine\t%.2f s\tprompts; then %.2f s, %.1f tokens/s\n", wall[0].Seconds(), wall[1].Seconds(), decoded/max(wall[1].Seconds(), 1e-9))
	})
}

// timeSession runs requests of the prompts' lengths, all arriving at once, on the node as `run`
// does.
func timeSession(ctx context.Context, cfg *configs.Config, prompts [][]byte, tokens int) (*results.Summary, error) {
	trace := &traces.Trace{Name: "generate"}
	for i, p := range prompts {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: len(p), Output: tokens})
	}
	node, err := system.NewNode(cfg)
	if err != nil {
		return nil, err
	}
	result, err := node.Run(ctx, trace, system.Options{})
	if err != nil {
		return nil, err
	}
	return result.Summary(cfg)
}
