package plan

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/system"
)

// Knob is a key of the server with the values to try; "" is the value of the configuration as given.
type Knob struct {
	Key    string
	Values []string
}

// Knobs returns the knobs of a server: how the model lies on the GPUs, what decodes at once, and how prompts are cut. Admission is none
// of them, as what a server knows of its requests is no choice. Nor are keys that the user has set.
func Knobs(o configs.Options, cfg *configs.Config) (all []Knob) {
	add := func(key string, values ...string) {
		given := func(s string) bool { return strings.HasPrefix(s, key+"=") }
		for _, s := range o.Sets {
			if given(s) {
				return
			}
		}
		for _, f := range o.Flags {
			if f.Key == key {
				return
			}
		}
		if k := system.Keys().Key(key); k != nil {
			as := schema.Text(k.Get(cfg))
			all = append(all, Knob{key, append([]string{""}, slices.DeleteFunc(values, func(v string) bool { return v == as })...)})
		}
	}
	var parallel []string
	for n := 1; n <= min(cfg.Node.GPUs, 16); n *= 2 {
		if cfg.Node.GPUs%n == 0 {
			parallel = append(parallel, strconv.Itoa(n))
		}
	}
	add("model.tensor_parallel", parallel...)
	add(strings.NewReplacer("-", "_", "+", "_").Replace(cfg.Run.System)+".policy", "prefill-first", "chunked-prefill")
	if cfg.Run.System == "l3" {
		add("scheduler.min_prefill_tokens", "128", "256", "512", "1024", "2048", "4096")
		add("scheduler.sub_batches", "1", "2")
	} else {
		add("batching.max_num_batched_tokens", "256", "512", "1024", "2048", "4096", "8192", "16384")
	}
	add("batching.max_num_seqs", "0", "16", "32", "64", "128", "256", "512")
	return all
}

// AsGiven returns a configuration for what it says of hardware, model and trace, whether or not the model fits as it lies on the GPUs:
// that is a knob. The error is of the configuration as given where no tensor parallelism makes its sections valid.
func AsGiven(o configs.Options) (cfg *configs.Config, err error) {
	o.SectionsOnly = true
	cfg, err = system.Load(o)
	for n := 1; err != nil && n <= 16; n *= 2 {
		with := o
		with.Sets = append(slices.Clone(o.Sets), "model.tensor_parallel="+strconv.Itoa(n))
		if other, bad := system.Load(with); bad == nil {
			return other, nil
		}
	}
	return cfg, err
}

// Infeasible says that what is wrong with a configuration is how its model, GPUs and memory fit together, and no name or value.
func Infeasible(o configs.Options) bool {
	_, err := AsGiven(o)
	bad := (*input.Error)(nil)
	return err == nil || errors.As(err, &bad) && (strings.HasPrefix(bad.Key, "node.") || strings.HasPrefix(bad.Key, "model.")) && !ofValue(bad)
}

// ofValue says that an error is of a key's value alone: of its type, its unit or its range.
func ofValue(bad *input.Error) bool {
	known, err := system.Configs().Explain(configs.Options{}, bad.Key)
	if err != nil || bad.Err != nil || strings.HasPrefix(bad.Expected, "a whole number") {
		return true
	}
	return slices.Contains(strings.Split(known.Range, "; "), bad.Expected)
}
