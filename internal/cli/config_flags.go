package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// ConfigFlags are the flags that give a command the configuration of one run: --config, --set, and
// flags for single keys.
type ConfigFlags struct {
	keys    []KeyFlag
	Options configs.Options  // from which every load starts
	origins *configs.Origins // of the keys, once loaded
}

// configUsage is the help of --config.
const configUsage = "configuration `file` on top of the preset: any subset of keys (repeatable: the later wins)"

// KeyFlag is a flag that sets a key.
type KeyFlag struct{ flag, key, standard, usage string }

// Key returns a flag that sets a key; standard is the default that its help shows.
func Key(flag, key, standard, usage string) KeyFlag { return KeyFlag{flag, key, standard, usage} }

// DRAMUsage explains --dram.
const DRAMUsage = "the DRAM `part`, or FILE.toml with your own; 'l3sim dram spec' lists them"

// Flags of several commands that set a key.
var (
	DRAMFlag      = Key("dram", "dram.preset", "", DRAMUsage)
	PrecisionFlag = Key("precision", "pim.precision.preset", "paper", "`preset` of the stages' formats: paper or fp32")
)

// RunKeys are the flags of commands that run a trace.
var RunKeys = []KeyFlag{
	{"preset", "preset", "", "system `preset` (see 'l3sim config list')"},
	{"system", "run.system", "", "`system` to simulate (see 'l3sim config systems'), or several (a,b) to compare"},
	{"model", "run.model", "", "`model`: a preset (see 'l3sim config list') or a file, or several (a,b) to compare"},
	{"tp", "model.tensor_parallel", "", "GPUs of a replica, over which its model is split (tensor parallelism); fit: the fewest that hold the weights"},
	{"kv-format", "model.kv_format", "", "`format` of keys and values in memory: fp16, bf16, fp8, int8 or int4; fp8_ds_mla of latents"},
	{"kv-bits", "model.kv_bits", "", "bits of an element of keys and values in memory: 16, or integers of 8 or 4"},
	{"gpu", "gpu.preset", "", "`GPU`: a preset or a file, or several (a,b) to compare"},
	{"gpus", "node.gpus", "", "GPUs of the node"},
	DRAMFlag,
	{"prices", "prices.preset", "", "price `list`: a preset or a file, dated"},
	{"policy", "policy.name", "", "attention `policy` (see 'l3sim config policies'), or several (a,b) to compare"},
	{"trace", "run.trace", "", "built-in `trace` or a file"},
	{"columns", "run.columns", "", "`names` of a trace file's columns: input=NAME,output=NAME, arrival=NAME, unit=s|ms|us|ns, session=NAME, block=TOKENS"},
	{"isl", "isl", "", "mean `tokens` of a prompt, in place of --trace; lengths spread by half of their mean unless traces.input_std says otherwise"},
	{"osl", "osl", "", "mean `tokens` of an answer, with --isl"},
	{"requests", "run.requests", "", "number of requests, the first of a file"},
	{"seed", "run.seed", "", "seed of everything that is drawn"},
	{"arrivals", "arrivals.kind", "", "`kind` of arrivals: auto, all-at-once, trace, poisson, gamma or closed-loop"},
	{"rate", "arrivals.rate_per_s", "", "mean rate of the arrivals, requests a second"},
	{"slo", "slo", "", "`targets` of latency: ttft=2s,tbt=100ms,tpot=50ms,e2e=60s of each request; ttft.p90=1s of all; tbt.p90=80ms of a request's own gaps, tbt.p90.tokens=80ms of all"},
}

// LoadKeys are the flags of commands that plan for a number of users.
var LoadKeys = []KeyFlag{
	{"users", "arrivals.users", "", "`number` of users, in place of --rate: each waits for an answer and then sends the next request"},
}

// spread is the assumed standard deviation of the lengths of --isl and --osl, as a share of their means: between that of equal
// requests and that of a mix.
const spread = 0.5

// meanFlags returns the keys that --isl and --osl set.
func meanFlags(cmd *cobra.Command, sets []string) ([]configs.Flag, error) {
	in, out := cmd.Flags().Lookup("isl"), cmd.Flags().Lookup("osl")
	switch {
	case in == nil || !in.Changed && !out.Changed:
		return nil, nil
	case !in.Changed || !out.Changed:
		return nil, &input.Error{Key: "--isl", Expected: "both --isl and --osl, the mean tokens of prompts and answers, such as --isl 4000 --osl 500"}
	case cmd.Flags().Changed("trace"):
		return nil, &input.Error{Key: "--isl", Value: in.Value.String(), Expected: "no --trace, which has the lengths of its requests"}
	}
	flags := []configs.Flag{{Name: "--isl", Key: "run.trace", Value: traces.Own}}
	for _, f := range []struct{ flag, key, value string }{{"--isl", "traces.input", in.Value.String()}, {"--osl", "traces.output", out.Value.String()}} {
		mean, err := strconv.ParseFloat(f.value, 64)
		if err != nil || !(mean >= 1) {
			return nil, &input.Error{Key: f.flag, Value: f.value, Expected: "tokens, at least 1"}
		}
		flags = append(flags, configs.Flag{Name: f.flag, Key: f.key + "_mean", Value: f.value})
		if !slices.ContainsFunc(sets, func(s string) bool { return strings.HasPrefix(s, f.key+"_std=") }) {
			flags = append(flags, configs.Flag{Name: f.flag, Key: f.key + "_std", Value: strconv.FormatFloat(spread*mean, 'g', -1, 64)})
		}
	}
	return flags, nil
}

// Register adds --config, --set and a flag for each of the keys to a command.
func (f *ConfigFlags) Register(cmd *cobra.Command, keys ...KeyFlag) {
	f.keys = keys
	for _, k := range keys {
		if cmd.Flags().Lookup(k.flag) != nil {
			continue // given twice
		}
		v := &keyValue{text: k.standard, kind: KindOf(k.key)}
		v.flag = cmd.Flags().VarPF(v, k.flag, "", k.usage)
	}
	cmd.Flags().StringArrayVar(&f.Options.ConfigFiles, "config", nil, configUsage)
	cmd.Flags().StringArrayVar(&f.Options.Sets, "set", nil, "set one key: `section.key=value` (repeatable)")
}

// keyValue is the value of a flag that sets a key: a text, to be checked by the key's type.
type keyValue struct {
	text, kind string
	flag       *pflag.Flag
}

func (v *keyValue) String() string { return v.text }

// Set appends to the list of an earlier use of the flag. Of a flag that takes one value, the last use wins.
func (v *keyValue) Set(text string) error {
	if list := strings.Contains(v.flag.Usage, "several (a,b)") || v.flag.Name == "slo" || v.flag.Name == "columns"; list && v.flag.Changed {
		text = v.text + "," + text
	}
	v.text = text
	return nil
}

func (v *keyValue) Type() string { return v.kind }

// listValue is the value of a flag that takes a list, in one use or several.
type listValue struct {
	text *string
	flag *pflag.Flag
}

func (v *listValue) String() string { return *v.text }

func (v *listValue) Set(text string) error {
	if v.flag.Changed {
		text = *v.text + "," + text
	}
	*v.text = text
	return nil
}

func (v *listValue) Type() string { return "string" }

// ListVar adds a flag that takes a list with commas. Each further use appends to the list.
func ListVar(flags *pflag.FlagSet, list *string, name, short, standard, usage string) {
	*list = standard
	v := &listValue{text: list}
	v.flag = flags.VarPF(v, name, short, usage)
}

// KindOf returns the type of a key as help shows it: "int", "bytes".
func KindOf(key string) string {
	k := system.Keys().Key(key)
	switch {
	case k == nil:
		return "string" // of several keys
	case schema.IsQuantity(k.Type):
		return strings.ToLower(k.Type.Name())
	}
	return strings.TrimSuffix(k.Type.Kind().String(), "64")
}

// Command returns the command line of command other with the flags given to cmd. Flags for keys in values are replaced, and sets
// are added.
func (f *ConfigFlags) Command(cmd *cobra.Command, other string, values map[string]string, sets []string) string {
	words := []string{cmd.Root().Name(), other}
	add := func(flag, value string) { words = append(words, "--"+flag, quoted(value)) }
	for _, k := range f.keys {
		if flag := cmd.Flags().Lookup(k.flag); flag.Changed && !slices.Contains(words, "--"+k.flag) {
			add(k.flag, cmp.Or(values[k.key], flag.Value.String()))
		}
	}
	for _, file := range f.Options.ConfigFiles {
		add("config", file)
	}
	for _, set := range slices.Concat(f.Options.Sets, sets) {
		add("set", set)
	}
	return strings.Join(words, " ")
}

// quoted returns a word quoted for a shell.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./=,:+@%", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Load returns the configuration that results from the flags given to cmd.
func (f *ConfigFlags) Load(cmd *cobra.Command) (*configs.Config, error) {
	o, err := f.Given(cmd)
	if err != nil {
		return nil, err
	}
	cfg, origins, err := system.Configs().LoadWithOrigins(o)
	f.origins = origins
	return cfg, err
}

// Given returns the options that result from the flags given to cmd.
func (f *ConfigFlags) Given(cmd *cobra.Command) (configs.Options, error) {
	o := f.Options
	if err := NotEmpty(cmd, "config"); err != nil {
		return o, err
	}
	means, err := meanFlags(cmd, o.Sets)
	if err != nil {
		return o, err
	}
	o.Flags = append(o.Flags, means...)
	for _, k := range f.keys {
		flag := cmd.Flags().Lookup(k.flag)
		if !flag.Changed {
			continue
		}
		// A key value of 0 means that no number was given, but the flag gives one.
		if n, err := strconv.Atoi(flag.Value.String()); k.key == "run.requests" && err == nil && n < 1 {
			return o, &input.Error{Key: "--requests", Value: flag.Value.String(), Expected: "at least 1"}
		}
		if rate, err := strconv.ParseFloat(flag.Value.String(), 64); k.key == "arrivals.rate_per_s" && err == nil && rate == 0 {
			without := "requests come at the times of the trace, or all at once"
			if cmd.Flags().Lookup("users") != nil {
				without = "the highest rate is searched"
			}
			return o, &input.Error{Key: "--rate", Value: flag.Value.String(), Expected: "more than 0; without --rate " + without}
		}
		if k.key == "isl" || k.key == "osl" {
			continue // meanFlags handles both
		}
		if k.flag == "users" {
			if cmd.Flags().Changed("rate") {
				return o, &input.Error{Key: "--users", Value: flag.Value.String(), Expected: "no --rate: users send a request when they have the answer to the last"}
			}
			o.Flags = append(o.Flags, configs.Flag{Name: "--users", Key: "arrivals.kind", Value: traces.ArrivalsClosed})
		}
		if k.key == "slo" {
			targets, err := targetFlags(flag.Value.String())
			if err != nil {
				return o, err
			}
			o.Flags = append(o.Flags, targets...)
			continue
		}
		o.Flags = append(o.Flags, configs.Flag{Name: "--" + k.flag, Key: k.key, Value: flag.Value.String()})
	}
	return o, nil
}

// Locate adds the place to an error about a key of the loaded configuration. With several
// configurations it cannot know which one is meant.
func (f *ConfigFlags) Locate(err error) error {
	if f.origins == nil {
		return err
	}
	return f.origins.Locate(err)
}
