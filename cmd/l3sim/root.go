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
	root.InitDefaultCompletionCmd() // else it is added behind what follows
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			asGroup(c)
		}
	}
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
	asGroup(group)
	return group
}

// asGroup has a command print its help alone, and refuse what is none of its subcommands.
func asGroup(group *cobra.Command) {
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
		checkArguments(cmd)
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
