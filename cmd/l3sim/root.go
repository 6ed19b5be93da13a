package main

import (
	"errors"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/input"
)

// app is what all commands of one command line share.
type app struct {
	stdout, stderr io.Writer
	quiet          bool // --quiet: no progress and no notes; errors always show
	json           bool // --json, of the command that runs
	started        bool // a command's own code has begun
}

// newRootCommand returns the program's command tree.
func (a *app) newRootCommand() *cobra.Command {
	root := a.newGroup("l3sim", "Simulate LLM serving on GPUs with processing-in-memory DIMMs")
	root.SilenceErrors = true // run prints the error, on one line
	root.SilenceUsage = true
	info, _ := debug.ReadBuildInfo()
	root.Version = describeBuild(info).String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no progress on standard error; errors always show")
	root.AddCommand(
		a.newCapacityCommand(),
		a.newConfigCommand(),
		a.newDRAMCommand(),
		a.newDiffCommand(),
		a.newEvalCommand(),
		a.newExploreCommand(),
		a.newGPUCommand(),
		a.newGenerateCommand(),
		a.newMergeCommand(),
		a.newOptimiseCommand(),
		a.newPIMCommand(),
		a.newPredictCommand(),
		a.newPlotCommand(),
		a.newReportCommand(),
		a.newReproduceCommand(),
		a.newRunCommand(),
		a.newSweepCommand(),
		a.newSystemsCommand(),
		a.newPoliciesCommand(),
		a.newTableCommand(),
		a.newTraceCommand(),
		a.newValidateCommand(),
		a.newVersionCommand(),
	)
	root.SetHelpCommand(newHelpCommand(root))
	a.markStart(root)
	completeFlags(root)
	return root
}

// newHelpCommand is cobra's help command, except that an unknown command is an
// error.
func newHelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil {
				err = cmd.ValidateArgs(rest)
			}
			if err != nil {
				return input.Errorf("%w", err)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// newGroup returns a command that only holds others: alone it prints its help,
// and an unknown subcommand is an error that names the nearest one.
func (a *app) newGroup(use, short string) *cobra.Command {
	group := &cobra.Command{Use: use, Short: short}
	group.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
		}
		key := strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()) + " command")
		return input.UnknownName(key, args[0], names)
	}
	group.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return group
}

// oneStdin refuses a command line that reads standard input for two files.
func oneStdin(cmd *cobra.Command, args []string) error {
	reader := ""
	claim := func(name string) error {
		if reader != "" {
			bad := &input.Error{Key: name, Value: input.Stdin, Expected: "standard input for one file only; " + reader + " reads it, too"}
			if name == reader {
				bad.Key, bad.Expected = "", "standard input for one file only"
			}
			return bad
		}
		reader = name
		return nil
	}
	var err error
	for _, arg := range args {
		if arg == input.Stdin {
			err = errors.Join(err, claim("an argument"))
		}
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, v := range flagValues(f) {
			if err == nil && v == input.Stdin {
				err = claim("--" + f.Name)
			}
		}
	})
	return err
}

// markStart wraps the function of every command under cmd so that a.started
// tells an error of the command from one of its usage. A command takes no arguments
// unless it says so.
func (a *app) markStart(cmd *cobra.Command) {
	if inner := cmd.RunE; inner != nil {
		if cmd.Args == nil {
			cmd.Args = cobra.NoArgs
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := oneStdin(cmd, args); err != nil {
				return err
			}
			a.started = true
			return inner(cmd, args)
		}
	}
	for _, c := range cmd.Commands() {
		a.markStart(c)
	}
}

// flagError turns what pflag reports into an input.Error that names the
// flag, its value, and for an unknown flag the nearest known one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var names []string
		add := func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		}
		cmd.Flags().VisitAll(add)
		cmd.InheritedFlags().VisitAll(add)
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		return &input.Error{
			Key: name, Expected: "a flag of '" + cmd.CommandPath() + "'", Nearest: input.Nearest(name, names),
		}
	case errors.As(err, &invalid):
		return &input.Error{
			Key: "--" + invalid.GetFlag().Name, Value: `"` + invalid.GetValue() + `"`,
			Expected: "a value of type " + flagType(invalid.GetFlag()),
		}
	}
	return &input.Error{Err: err}
}

// flagType returns a flag's type in words that a user knows.
func flagType(f *pflag.Flag) string {
	switch t := f.Value.Type(); {
	case strings.HasPrefix(t, "uint"):
		return "whole number, at least 0"
	case strings.HasPrefix(t, "int"):
		return "whole number"
	case strings.HasPrefix(t, "float"):
		return "number"
	case t == "bool":
		return "true or false"
	default:
		return t
	}
}
