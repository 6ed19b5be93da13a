package main

import (
	"fmt"
	"io"
	"path/filepath"
	"reflect"
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
	"github.com/l3sim/l3sim/units"
)

// newGPU is the file that `gpu new` writes.
type newGPU struct {
	baseName  string
	base, own configs.GPU
	text      strings.Builder
	taken     map[string]bool // keys of [gpu] in the file
}

// sheet is the flags for numbers of a data sheet, with their keys of [gpu].
var sheet = []struct{ flag, key, usage string }{
	{"bandwidth", "memory_bandwidth", "`bandwidth` of its memory, such as 8TB/s"},
	{"peak", "peak_16bit", "dense 16-bit `rate` of its tensor cores, such as 2.25PFLOP/s"},
	{"peak-8bit", "peak_8bit", "dense 8-bit `rate` (default: as many times the 16-bit rate as the base's)"},
	{"memory", "memory_capacity", "`bytes` of its memory, such as 192GB"},
	{"sms", "sms", "`number` of streaming multiprocessors"},
	{"power", "power.limit_w", "power limit in `watts`"},
	{"price", "price", "price in `USD` (default: the base's)"},
}

// nvlink is the data sheets' bandwidth of a GPU's links to its peers, sum of both directions.
var nvlink = map[string]units.Bandwidth{
	"a100-paper": 600e9, "a100-sxm-40gb": 600e9, "a100-sxm-80gb": 600e9, "h100-sxm": 900e9, "h200-sxm": 900e9, "rtx-a6000": 112.5e9,
	"b200-sxm": 1.8e12, "gb200": 1.8e12,
	// GPUs without such links: PCIe 4 and 5.
	"rtx-4090-vllm-0.19": 64e9, "rtx-pro-6000-server-vllm-0.19": 128e9, "l40s": 64e9, "rtx-pro-6000-server": 128e9,
}

var gpuKeys = schema.Of[configs.GPU]()

func (a *app) newGPUNewCommand() *cobra.Command {
	f := newGPU{taken: map[string]bool{}}
	var link, out string
	presets := configs.Names(configs.GPUs)
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a GPU of your own from a data sheet, on a preset that is like it",
		Long: `Write a GPU of your own from a data sheet, on a preset that is like it, as TOML for --gpu FILE.

Flags are the data sheet's numbers. What follows from them in proportion to the base's (rates of links and of a lone
thread block, power) is written behind them, and comments say what stays the base's and what that rests on.`,
		Example: `  l3sim gpu new b200 --base h200-sxm --bandwidth 8TB/s --peak 2.25PFLOP/s --memory 192GB --out b200.toml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			switch {
			case name == "" || strings.ContainsAny(name, "\n\r\"\\") || slices.Contains(presets, name):
				return &input.Error{Key: "NAME", Value: strconv.Quote(name), Expected: "a name on one line that no preset has"}
			case f.baseName == "":
				return &input.Error{Key: "--base", Expected: "one of " + strings.Join(presets, ", ")}
			case !slices.Contains(presets, f.baseName):
				return input.UnknownName("--base", f.baseName, presets)
			case out != "" && filepath.Ext(out) != ".toml":
				return &input.Error{Key: "--out", Value: strconv.Quote(out), Expected: "a .toml file"}
			}
			if err := f.write(cmd, name, link); err != nil {
				return err
			}
			return a.Output(out, func(w io.Writer) error {
				_, err := io.WriteString(w, f.text.String())
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.baseName, "base", "", "`preset` that has what is not given: "+strings.Join(presets, ", "))
	for _, s := range sheet {
		flags.String(s.flag, "", s.usage)
	}
	flags.StringVar(&link, "link", "", "`bandwidth` of its links to other GPUs, both directions together, such as 1.8TB/s")
	flags.StringVar(&out, "out", "", "`file` to write, which ends with .toml (default: standard output)")
	return cmd
}

// write writes the file: given values, values scaled in proportion, and, as comments, inherited
// values.
func (f *newGPU) write(cmd *cobra.Command, name, link string) error {
	base, _, err := configs.LoadGPU("--base", f.baseName)
	if err != nil {
		return err
	}
	f.base.Spec, f.own.Spec = *base, *base
	fmt.Fprintf(&f.text, "# %s: a data sheet's numbers on %s, written by 'l3sim gpu new'.\n\n[gpu]\nname = %q\n", name, f.baseName, name)
	for _, s := range sheet {
		flag := cmd.Flags().Lookup(s.flag)
		if !flag.Changed {
			continue
		}
		if err := gpuKeys.Set(&f.own, s.key, flag.Value.String()); err != nil {
			return input.Edit(err, func(e *input.Error) { e.Key, e.Value = "--"+s.flag, strconv.Quote(flag.Value.String()) })
		}
		if err := input.Validate(&f.own); err != nil {
			return cli.FlagName(err, "--"+s.flag)
		}
		f.line(s.key, "given")
	}
	fmt.Fprintf(&f.text, "preset = %q # has all keys that this file does not name\n", f.baseName)
	if err := f.scale(link); err != nil {
		return err
	}
	if err := f.inherited(); err != nil {
		return err
	}
	return input.Validate(&f.own)
}

// line writes a key, with the base's value beside it if the base has one.
func (f *newGPU) line(key, note string) {
	f.taken[key] = true
	k := gpuKeys.Key(key)
	if !k.Get(&f.base).IsZero() {
		note += "; " + f.baseName + " has " + schema.Text(k.Get(&f.base))
	}
	value, _ := schema.Literal(k.Get(&f.own).Interface())
	fmt.Fprintf(&f.text, "%s = %s # %s\n", key, value, note)
}

// scale writes the keys that follow from the given ones. A fully busy GPU is assumed to draw the base's share of its
// power limit, and its SMs to read the base's share of its bandwidth.
func (f *newGPU) scale(link string) error {
	own, base, links := &f.own, &f.base, nvlink[f.baseName]
	if link != "" {
		if err := links.UnmarshalText([]byte(link)); err != nil || links <= 0 || links > 1e18 {
			return &input.Error{Key: "--link", Value: strconv.Quote(link), Err: err, Expected: "a rate above 0, such as 900GB/s"}
		}
	}
	peak, bandwidth := float64(own.Peak16/base.Peak16), float64(own.MemoryBandwidth/base.MemoryBandwidth)
	power := own.Power.Limit / base.Power.Limit
	heading := "\n# Of the base, in proportion to what is given. Grade: assumption.\n"
	for _, ratio := range []struct {
		by         float64
		like, keys string
	}{
		{peak, "as peak_16bit", "peak_8bit"},
		{power, "as power.limit_w", "power.idle_w power.active_idle_w power.base_w"},
		{power / bandwidth, "limit over memory_bandwidth", "power.pj_per_byte"},
		{power / peak, "limit over peak_16bit", "power.pj_per_flop"},
		{bandwidth * float64(base.SMs) / float64(own.SMs), "memory_bandwidth of an SM", "decode_attention.block_bandwidth decode_attention.unequal_bandwidth " +
			"extend_attention.block_bandwidth page_sparse.block_bandwidth pytorch.decode_attention.block_bandwidth pytorch.decode_attention.unequal_bandwidth"},
		{float64(links / nvlink[f.baseName]), fmt.Sprintf("as --link %v over the %v of its data sheet", links, nvlink[f.baseName]),
			"all_reduce.small_bandwidth all_reduce.second_shot_bandwidth all_reduce.flagged_bandwidth all_reduce.bandwidth"},
	} {
		for key := range strings.FieldsSeq(ratio.keys) {
			k := gpuKeys.Key(key)
			if f.taken[key] || ratio.by == 1 || k.Get(base).IsZero() {
				continue
			}
			f.text.WriteString(heading)
			heading = ""
			scaled, _ := strconv.ParseFloat(strconv.FormatFloat(k.Get(base).Float()*ratio.by, 'g', 4, 64), 64)
			k.Get(own).SetFloat(scaled)
			f.line(key, ratio.like)
		}
	}
	heading = "\n# Errors of kernels of a GPU that was not measured.\n"
	for _, k := range gpuKeys.Section("scale") {
		if k.Get(base).String() != string(gpu.AssumedScale) {
			f.text.WriteString(heading)
			heading = ""
			k.Set(own, reflect.ValueOf(gpu.AssumedScale))
			f.line(k.Name, "not measured")
		}
	}
	return nil
}

// measured begins the comments on a preset's keys whose values were measured on that GPU.
var measured = regexp.MustCompile(`^(fit|profile|median)`)

// inherited writes as comments the values that stay the base's, section by section, with their
// sources there.
func (f *newGPU) inherited() error {
	source, err := configs.Source(f.baseName)
	if err != nil {
		return err
	}
	fmt.Fprintf(&f.text, `
# Inherited: the base's numbers. Measured there or borrowed there, for this GPU all are of the grade assumption
# (gpu.memory_reserve, pcie_generation and suite among them). 'l3sim config keys gpu.gemm' says what they mean.
`)
	places := schema.Scan(source)
	for _, section := range gpuKeys.Sections() {
		all, fitted := 0, 0
		for _, k := range gpuKeys.Section(section) { // with its subsections
			if place, there := places["gpu."+k.Name]; there && !f.taken[k.Name] {
				all++
				if measured.MatchString(place.Comment) {
					fitted++
				}
			}
		}
		if all > 0 && !strings.Contains(section, ".") {
			fmt.Fprintf(&f.text, "#   %-26s %2d keys, %2d of them measured on %s\n", "[gpu."+section+"]", all, fitted, f.baseName)
		}
	}
	if !f.taken["price"] {
		fmt.Fprintf(&f.text, "#   %-26s what the price list says of %s\n", "price", f.baseName)
	}
	return nil
}
