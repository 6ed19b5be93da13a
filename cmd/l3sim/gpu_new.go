package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/units"
)

// newGPU is the flags of `gpu new`, and the file that they make.
type newGPU struct {
	name, base, out string
	given           [len(sheet)]string // what the flags of sheet say
	link            string
	price           float64

	text  strings.Builder
	taken map[string]bool // keys of [gpu] in the file
}

// sheet is the flags for numbers of a data sheet, with their keys of [gpu].
var sheet = [...]struct{ flag, key, usage string }{
	{"bandwidth", "memory_bandwidth", "bandwidth of its memory, such as 8TB/s"},
	{"peak", "peak_16bit", "dense 16-bit rate of its tensor cores, such as 2.25PFLOP/s"},
	{"peak-8bit", "peak_8bit", "dense 8-bit rate (default: as many times the 16-bit rate as the base's)"},
	{"memory", "memory_capacity", "its memory, such as 192GB"},
	{"sms", "sms", "streaming multiprocessors"},
	{"power", "power.limit_w", "power limit in watts"},
}

// nvlink is the data sheets' bandwidth of a GPU's links to its peers, both directions together.
var nvlink = map[string]units.Bandwidth{
	"a100-paper": 600e9, "a100-sxm-40gb": 600e9, "a100-sxm-80gb": 600e9, "h100-sxm": 900e9, "h200-sxm": 900e9, "rtx-a6000": 112.5e9,
}

func (a *app) newGPUNewCommand() *cobra.Command {
	f := newGPU{taken: map[string]bool{}}
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a GPU of your own from a data sheet, on a preset that is like it",
		Long: `Write a GPU of your own from a data sheet, on a preset that is like it, as TOML for --gpu FILE.

Flags are the data sheet's numbers. What follows from them in proportion to the base's (rates of links and of a lone
thread block, power) is written behind them, and comments say what stays the base's and what that rests on.`,
		Example: `  l3sim gpu new b200 --base h200-sxm --bandwidth 8TB/s --peak 2.25PFLOP/s --memory 192GB --out b200.toml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.name = args[0]
			return f.run(a, cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.base, "base", "", "`preset` that has what is not given: "+strings.Join(configs.Names(configs.GPUs), ", "))
	for i, s := range sheet {
		flags.StringVar(&f.given[i], s.flag, "", "`"+cli.KindOf("gpu."+s.key)+"` of "+s.usage)
	}
	flags.StringVar(&f.link, "link", "", "`bandwidth` of its links to other GPUs, both directions together, such as 1.8TB/s")
	flags.Float64Var(&f.price, "price", 0, "price in USD (default: the base's)")
	flags.StringVar(&f.out, "out", "", "`file` to write, which ends with .toml (default: standard output)")
	return cmd
}

func (f *newGPU) run(a *app, cmd *cobra.Command) error {
	presets := configs.Names(configs.GPUs)
	switch {
	case f.name == "" || strings.ContainsAny(f.name, "\n\r\"\\") || slices.Contains(presets, f.name):
		return &input.Error{Key: "NAME", Value: strconv.Quote(f.name), Expected: "a name on one line that no preset has"}
	case f.out != "" && filepath.Ext(f.out) != ".toml":
		return &input.Error{Key: "--out", Value: strconv.Quote(f.out), Expected: "a .toml file"}
	case f.base != "" && !slices.Contains(presets, f.base):
		return input.UnknownName("--base", f.base, presets)
	}
	if err := cmp.Or(cli.RequireFlag(cmd, "base", "one of "+strings.Join(presets, ", ")), f.write(cmd), cli.WritableFile("--out", f.out)); err != nil {
		return err
	}
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, f.text.String())
		return err
	}
	if f.out == "" {
		return write(a.Stdout)
	}
	return results.WriteFileAtomic(f.out, write)
}

// write writes the file: what is given, what follows in proportion, and in comments what is inherited.
func (f *newGPU) write(cmd *cobra.Command) error {
	base, _, err := configs.LoadGPU("--base", f.base)
	if err != nil {
		return err
	}
	own, keys := *base, schema.Of[gpu.Spec]()
	fmt.Fprintf(&f.text, "# %s: a data sheet's numbers on %s, written by 'l3sim gpu new'.\n\n[gpu]\nname = %q\n", f.name, f.base, f.name)
	for i, s := range sheet {
		if !cmd.Flags().Changed(s.flag) {
			continue
		}
		value, err := schema.Parse(keys.Key(s.key).Type, f.given[i])
		if err != nil {
			return &input.Error{Key: "--" + s.flag, Value: strconv.Quote(f.given[i]), Err: err}
		}
		keys.Key(s.key).Set(&own, value)
		if err := input.Validate(&own); err != nil {
			return cli.FlagName(err, "--"+s.flag)
		}
		f.line(keys.Key(s.key), &own, base, "given")
	}
	if f.price > 0 && f.price <= 1e9 {
		fmt.Fprintf(&f.text, "price = %v # given; USD\n", f.price)
	} else if cmd.Flags().Changed("price") {
		return &input.Error{Key: "--price", Value: fmt.Sprint(f.price), Expected: "more than 0, up to 1e9 USD"}
	}
	fmt.Fprintf(&f.text, "preset = %q # has all keys that this file does not name\n", f.base)
	ratios, err := f.ratios(&own, base)
	if err != nil {
		return err
	}
	heading := "\n# Of the base, in proportion to what is given. Grade: assumption.\n"
	for _, r := range ratios {
		k := keys.Key(r.key)
		if f.taken[r.key] || r.by == 1 || k.Get(base).Float() == 0 {
			continue
		}
		f.text.WriteString(heading)
		heading = ""
		scaled, _ := strconv.ParseFloat(strconv.FormatFloat(k.Get(base).Float()*r.by, 'g', 4, 64), 64)
		k.Get(&own).SetFloat(scaled)
		f.line(k, &own, base, r.like)
	}
	return cmp.Or(f.inherited(keys), input.Validate(&own))
}

// line writes a key with the base's value beside it.
func (f *newGPU) line(k *schema.Key, own, base *gpu.Spec, note string) {
	f.taken[k.Name] = true
	value, _ := schema.Literal(k.Get(own).Interface())
	fmt.Fprintf(&f.text, "%s = %s # %s; %s has %s\n", k.Name, value, note, f.base, schema.Text(k.Get(base)))
}

// ratio is a key that changes with what a data sheet says.
type ratio struct {
	key  string
	by   float64
	like string
}

// ratios returns the keys that follow from those that are given. A GPU that is fully busy draws the share of its power
// limit that the base does, and its SMs read their share of its bandwidth.
func (f *newGPU) ratios(own, base *gpu.Spec) (all []ratio, err error) {
	add := func(by float64, like string, keys ...string) {
		for _, key := range keys {
			all = append(all, ratio{key, by, like})
		}
	}
	peak, bandwidth := float64(own.Peak16/base.Peak16), float64(own.MemoryBandwidth/base.MemoryBandwidth)
	power := own.Power.Limit / base.Power.Limit
	add(peak, "as peak_16bit", "peak_8bit")
	add(power, "as power.limit_w", "power.idle_w", "power.active_idle_w", "power.base_w")
	add(power/bandwidth, "limit over memory_bandwidth", "power.pj_per_byte")
	add(power/peak, "limit over peak_16bit", "power.pj_per_flop")
	add(bandwidth*float64(base.SMs)/float64(own.SMs), "memory_bandwidth of an SM", "decode_attention.block_bandwidth",
		"extend_attention.block_bandwidth", "page_sparse.block_bandwidth", "pytorch.decode_attention.block_bandwidth")
	if f.link != "" {
		var link units.Bandwidth
		if err := link.UnmarshalText([]byte(f.link)); err != nil || link <= 0 || link > 1e18 {
			return nil, &input.Error{Key: "--link", Value: strconv.Quote(f.link), Err: err, Expected: "a rate above 0, such as 900GB/s"}
		}
		add(float64(link/nvlink[f.base]), fmt.Sprintf("as --link %v over the %v of its data sheet", link, nvlink[f.base]), "all_reduce.small_bandwidth",
			"all_reduce.second_shot_bandwidth", "all_reduce.flagged_bandwidth", "all_reduce.bandwidth")
	}
	return all, nil
}

// inherited writes in comments what stays the base's, section by section, and how much of it was measured there.
func (f *newGPU) inherited(keys *schema.Schema) error {
	source, err := configs.Source(f.base)
	places := schema.Scan(source)
	fmt.Fprintf(&f.text, "\n# Inherited: the base's numbers. Measured there or borrowed there, for this GPU all are of the grade assumption\n# (gpu.memory_reserve, pcie_generation and suite among them).\n")
	for _, section := range keys.Sections() {
		all, measured := 0, 0
		for _, k := range keys.Section(section) {
			place, there := places["gpu."+k.Name]
			if !there || f.taken[k.Name] || section == "" || strings.Contains(section, ".") { // a part's keys are the section's around it
				continue
			}
			all++
			if fitted.MatchString(place.Comment) {
				measured++
			}
		}
		if all > 0 {
			fmt.Fprintf(&f.text, "#   %-26s %2d keys, %2d of them measured on %s\n", "[gpu."+section+"]", all, measured, f.base)
		}
	}
	if f.price == 0 {
		fmt.Fprintf(&f.text, "#   %-26s what the price list says of %s\n", "price", f.base)
	}
	return err
}

// fitted finds the comments of a preset's numbers that come from measurements.
var fitted = regexp.MustCompile("^(fit|profile|median)")
