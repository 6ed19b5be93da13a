package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/sweep/job"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// values are the values of flags that shells complete, by the flag's name. Some flags also take a
// file name.
var values = map[string]struct {
	of    func() []string
	files bool
}{
	"preset":     {func() []string { return configs.Names(configs.SystemPresets) }, false},
	"system":     {system.Names, false},
	"model":      {func() []string { return configs.Names(configs.Model) }, true},
	"gpu":        {func() []string { return configs.Names(configs.GPUs) }, true},
	"prices":     {func() []string { return configs.Names(configs.PriceLists) }, true},
	"base":       {func() []string { return configs.Names(configs.GPUs) }, true},
	"trace":      {traces.BuiltinNames, true},
	"kind":       {figure.Kinds, false},
	"emit":       {job.JobForms, false},
	"dram":       {dram.SpecNames, true},
	"policy":     {system.Configs().Policies().Names, false}, // dram replay has its own
	"precision":  {func() []string { return choices("pim.precision.preset") }, false},
	"activation": {func() []string { return choices("pim.activation") }, false},
	"suite":      {func() []string { return choices("gpu.suite") }, false},
	"all-reduce": {func() []string { return choices("gpu.all_reduce.method") }, false},
	"to":         {traces.FormatNames, false},
	"kv":         {func() []string { return []string{"k", "v"} }, false},
}

// completeFlags lets shells complete the values of the flags of cmd and its subcommands.
func completeFlags(cmd *cobra.Command) {
	for name, v := range values {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Value.Type() == "string" {
			// It fails only if the flag does not exist or has a function already.
			_ = cmd.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
				if v.files {
					return Listed(v.of(), text), cobra.ShellCompDirectiveDefault
				}
				return Listed(v.of(), text), cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
	// The --set of dram commands has keys of its own.
	if flag := cmd.Flags().Lookup("set"); flag != nil && cmd.Flags().Lookup("config") != nil {
		_ = cmd.RegisterFlagCompletionFunc("set", func(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
			return settings(text)
		})
	}
	for _, c := range cmd.Commands() {
		completeFlags(c)
	}
}

// Listed returns completions of a text, which may be a comma-separated list, with one of the values
// as last element.
func Listed(values []string, text string) []string {
	before := text[:strings.LastIndexByte(text, ',')+1]
	var all []string
	for _, v := range values {
		if !slices.Contains(strings.Split(before, ","), v) {
			all = append(all, before+v)
		}
	}
	return all
}

// settings completes KEY=VALUE: first the key, then its value if the key takes one of a few.
func settings(text string) ([]string, cobra.ShellCompDirective) {
	key, _, hasValue := strings.Cut(text, "=")
	if hasValue {
		return list.Map(choices(key), func(v string) string { return key + "=" + v }), cobra.ShellCompDirectiveNoFileComp
	}
	return list.Map(system.Keys().Names(), func(name string) string { return name + "=" }), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// choices returns the values of a key, if it takes one of a few.
func choices(key string) []string {
	e, err := system.Configs().Explain(configs.Options{}, key)
	if err != nil {
		return nil
	}
	if e.Takes == "true or false" {
		return []string{"true", "false"}
	}
	_, list, ok := strings.Cut(e.Range, "one of ")
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, ";")
	return strings.Split(list, ", ")
}

// OneArgument completes the first argument with names alone.
func OneArgument(names func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}
