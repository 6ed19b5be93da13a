package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/lab/lm"
)

// languageFlags are the flags that `generate` and `eval` share.
type languageFlags struct {
	config         cli.ConfigFlags
	weights, plant string
	exact          bool
	cfg            *configs.Config // once loaded
	byPolicy       bool            // a policy chooses what to attend to, or keys and values are narrow
}

const deskPreset = "desk" // the system preset of the commands that run a language model

func (f *languageFlags) register(cmd *cobra.Command, more ...cli.KeyFlag) {
	flags := cmd.Flags()
	f.config.Options.Preset = deskPreset
	f.config.Register(cmd, append(more, cli.Key("preset", "preset", deskPreset, "system preset (see 'l3sim config list')"), cli.PrecisionFlag)...)
	flags.StringVar(&f.weights, "weights", "", "safetensors `file` of another byte-level model, with the same tensors as the built-in one")
	flags.StringVar(&f.plant, "plant", "", "plant a mistake in the DIMMs: lane (of the re-layout), bank (of the mapping), quad (of a sum) or rankset (a stale one)")
	flags.BoolVar(&f.exact, "exact", false, "decode stored bytes at every read, instead of once when they are written: the same results, slower")
}

func (f *languageFlags) load(cmd *cobra.Command) (*lm.Model, *lm.Node, error) {
	if err := cli.NotEmpty(cmd, "weights", "plant"); err != nil {
		return nil, nil, err
	}
	if cmd.Flags().Changed("plant") && !slices.Contains(lm.Plants(), f.plant) {
		return nil, nil, input.UnknownName("--plant", f.plant, lm.Plants())
	}
	if err := f.loadConfig(cmd); err != nil {
		return nil, nil, err
	}
	weights, err := lm.Builtin()
	if f.weights != "" {
		weights, err = lm.OpenWeights(f.weights)
	}
	if err != nil {
		return nil, nil, err
	}
	own := *f.cfg // the configuration's model is another
	own.Run.System, own.Model = "l3", weights.LLM(f.modelName())
	return lm.NewModel(weights, runtime.GOMAXPROCS(0)), &lm.Node{Config: &own, Plant: lm.Plant(f.plant), Exact: f.exact}, nil
}

// modelName returns the model's name for a configuration.
func (f *languageFlags) modelName() string {
	if f.weights == "" {
		return "tiny-lm"
	}
	return strings.TrimSuffix(filepath.Base(f.weights), ".safetensors")
}

// loadConfig loads the configuration. If a policy chooses attention, the system need not support
// it.
func (f *languageFlags) loadConfig(cmd *cobra.Command) (err error) {
	if flag := cmd.Flags().Lookup("policy"); flag != nil {
		f.config.Options.SectionsOnly = true
		if err = f.loadKeys(cmd); err != nil {
			return err
		}
		if f.byPolicy = flag.Changed || !f.cfg.Policy.Dense() || f.narrow(); f.byPolicy {
			return nil
		}
		f.config.Options.SectionsOnly = false
	}
	if err = f.loadKeys(cmd); err == nil && f.narrow() {
		bad := &input.Error{Key: "model.kv_bits", Value: fmt.Sprint(f.cfg.Model.KVBits), Expected: "16, or 0: 'l3lab eval' has narrow keys and values"}
		if name := f.cfg.Model.KVFormat; name != "" {
			bad = &input.Error{Key: "model.kv_format", Value: fmt.Sprintf("%q", name), Expected: "fp16: 'l3lab eval' has narrow keys and values"}
		}
		err = f.config.Locate(bad)
	}
	return err
}

// loadKeys loads the configuration, whose model is another; keys for layers with a window are refused.
func (f *languageFlags) loadKeys(cmd *cobra.Command) (err error) {
	if f.cfg, err = f.config.Load(cmd); err == nil && f.cfg.Model.Window > 0 {
		err = f.config.Locate(&input.Error{Key: "model.window", Value: fmt.Sprint(f.cfg.Model.Window), Expected: "0: language models with windows by layer are not read"})
	}
	return err
}

// narrow says that keys and values have fewer than 16 bits.
func (f *languageFlags) narrow() bool { b := f.cfg.Model.StoredBits(); return b == 8 || b == 4 }

// readText reads a file of at most the model's context plus one byte.
func readText(flag, path string) ([]byte, error) {
	text, err := input.ReadFile(path)
	if err == nil && len(text) == 0 {
		err = &input.Error{File: path, Key: flag, Expected: "a file with at least one byte"}
	}
	return text, err
}

// tooLong refuses a sequence beyond the model's context.
func tooLong(name string, prompt, tokens, context int) error {
	if prompt+tokens <= context {
		return nil
	}
	return &input.Error{Key: name, Value: fmt.Sprintf("%d bytes, %d more", prompt, tokens),
		Expected: fmt.Sprintf("at most %d together, the model's context", context)}
}
