package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/system"
)

// flagError converts pflag's error into an input.Error that names the flag and its value; for an
// unknown flag, also the flag or key that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			return &input.Error{Key: "-" + unknown.GetSpecifiedName(), Expected: "a flag of '" + cmd.CommandPath() + "', which '" + cmd.CommandPath() + " --help' lists"}
		}
		if instead := cmd.Root().Annotations[cmd.CommandPath()+" "+name]; instead != "" {
			return input.Errorf("%s of '%s' is gone: use %s", name, cmd.CommandPath(), instead)
		}
		return unknownFlag(cmd, name)
	case errors.As(err, &invalid):
		return &input.Error{
			Key: "--" + invalid.GetFlag().Name, Value: `"` + invalid.GetValue() + `"`,
			Expected: flagType(invalid.GetFlag()),
		}
	case errors.As(err, &bare):
		what, _ := pflag.UnquoteUsage(bare.GetFlag())
		return &input.Error{Key: "--" + bare.GetFlag().Name, Expected: "a value behind it (" + what + ")"}
	}
	return &input.Error{Err: err}
}

// unknownFlag is the error for a flag that a command does not have. If the command takes keys, it suggests
// one, by l3sim's names or those of other programs.
func unknownFlag(cmd *cobra.Command, flag string) error {
	flags := flagNames(cmd)
	bare := strings.TrimPrefix(flag, "--")
	bad := &input.Error{Key: flag, Expected: "a flag of '" + cmd.CommandPath() + "'"}
	keys := system.Keys().Called(strings.ReplaceAll(bare[strings.LastIndexByte(bare, '.')+1:], "-", "_"))
	flagOfRun := slices.IndexFunc(RunKeys, func(k KeyFlag) bool { return k.flag == bare })
	if flagOfRun >= 0 && RunKeys[flagOfRun].key != "slo" {
		keys = []string{RunKeys[flagOfRun].key}
	}
	switch {
	case !cmd.HasParent() && flagOfRun >= 0:
		bad.Expected, bad.Nearest = "a command before it", cmd.Name()+" run "+flag
		return bad
	case strings.Contains(cmd.Use, "FILE.toml") && bare == "set":
		bad.Expected += "; keys that all points share go into FILE.toml under [set]"
		return bad
	case strings.Contains(cmd.Use, "FILE.toml") && len(keys) == 1:
		bad.Expected += ", or a key in FILE.toml under [set] or [grid]"
		bad.Nearest = keys[0]
		return bad
	}
	takesKeys := slices.Contains(flags, "set") && slices.Contains(flags, "config")
	if takesKeys {
		if len(keys) > 1 {
			bad.Expected += ", or --set KEY=VALUE with one of " + strings.Join(keys, ", ")
			return bad
		}
		if len(keys) == 1 {
			bad.Nearest = "--set " + keys[0] + "=VALUE"
			if i := slices.IndexFunc(RunKeys, func(k KeyFlag) bool { return k.key == keys[0] && slices.Contains(flags, k.flag) }); i >= 0 {
				bad.Nearest = "--" + RunKeys[i].flag
			}
			return bad
		}
	}
	if near := input.Nearest(bare, flags); near != "" {
		bad.Nearest = "--" + near
		return bad
	}
	if takesKeys {
		bad.Expected += ", or --set KEY=VALUE"
		if key := meantKey(bare); key != "" {
			bad.Nearest = "--set " + key + "=VALUE"
		}
	}
	return bad
}

// flagNames returns the flags that a command takes.
func flagNames(cmd *cobra.Command) (flags []string) {
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return flags
}

// meantKey returns the key whose last part is most similar to a flag's name, "" if none is. Entries of tables are never meant.
func meantKey(flag string) string {
	keys := map[string]string{}
	var lasts []string
	for _, name := range system.Keys().Names() {
		last := name[strings.LastIndexByte(name, '.')+1:]
		if keys[last] == "" && configs.TableOf(name) == "" {
			keys[last] = name
			lasts = append(lasts, last)
		}
	}
	return keys[input.Nearest(strings.ReplaceAll(flag, "-", "_"), lasts)]
}

// flagType returns a flag's type in words that a user knows.
func flagType(f *pflag.Flag) string {
	switch t := f.Value.Type(); {
	case strings.HasPrefix(t, "uint"):
		return "a whole number, at least 0"
	case strings.HasPrefix(t, "int"):
		return "a whole number"
	case strings.HasPrefix(t, "float"):
		return "a number"
	case t == "bool":
		return "true or false"
	default:
		return "a value of type " + t
	}
}

// argumentError is the error for arguments that a command does not take, in our words.
func argumentError(cmd *cobra.Command, args []string) error {
	_, wanted, _ := strings.Cut(cmd.Use, " ")
	if wanted == "" {
		wanted = "none, flags alone"
	}
	flagsAlone := !strings.Contains(cmd.Use, " ")
	examples := strings.TrimPrefix(strings.TrimSpace(cmd.Example), cmd.CommandPath()+"\n") // without an example it shows nothing
	if example, _, _ := strings.Cut(strings.TrimSpace(examples), "\n"); strings.HasPrefix(example, cmd.CommandPath()) {
		wanted += ", such as '" + example + "'"
	}
	bad := &input.Error{Key: "arguments of '" + cmd.CommandPath() + "'", Expected: fmt.Sprintf("%s; see '%s --help'", wanted, cmd.CommandPath())}
	if flagsAlone && !strings.ContainsAny(args[0], "./") {
		if flag := input.Nearest(args[0], flagNames(cmd)); flag != "" {
			bad.Nearest = "--" + flag
		}
	}
	bad.Value = cmp.Or(strings.Join(list.Map(args, strconv.Quote), " "), "none")
	return bad
}
