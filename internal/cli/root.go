package cli

import (
	"cmp"
	"errors"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/input"
)

// Root returns the program's command tree for one command line.
func (p *Program) Root(a *App) *cobra.Command {
	root := NewGroup(p.Name, p.Short)
	root.SilenceErrors = true // Run prints the error, on one line
	root.SilenceUsage = true
	info, _ := debug.ReadBuildInfo()
	root.Version = p.Name + " " + describeBuild(info).String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(printHelp)
	root.PersistentFlags().BoolVarP(&a.Quiet, "quiet", "q", false, "no progress and no warnings on standard error; errors always show")
	p.Commands(a, root)
	root.Annotations = map[string]string{}
	for _, old := range slices.Sorted(maps.Keys(p.Moved)) {
		root.Annotations[p.Name+" "+old] = p.Moved[old]
		if !strings.Contains(old, "--") {
			addMoved(root, strings.Fields(old), input.Errorf("'%s %s' is gone: use %s", p.Name, old, p.Moved[old]))
		}
	}
	root.SetHelpCommand(newHelpCommand(root))
	root.InitDefaultCompletionCmd() // else it would be added after the following commands
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			asGroup(c)
		}
	}
	a.markStart(root)
	completeFlags(root)
	return root
}

// addMoved adds a hidden command that only says what replaced it.
func addMoved(root *cobra.Command, path []string, gone error) {
	parent := root
	if len(path) > 1 {
		parent, _, _ = root.Find(path[:1])
	}
	parent.AddCommand(&cobra.Command{
		Use: path[len(path)-1], Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error { return gone },
	})
}

// AddGroup adds commands to the root under a title of the help.
func AddGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// newHelpCommand is cobra's help command, except that an unknown command is an error.
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
			return cmd.Help()
		},
	}
}

// NewGroup returns a command that only holds others: alone it prints its help,
// and an unknown subcommand is an error that names the nearest one.
func NewGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: use, Short: short}
	asGroup(group)
	group.AddCommand(commands...)
	return group
}

// InsteadOf prefixes a word of SuggestFor in a command's annotations, whose value is what to write instead of that
// word.
const InsteadOf = "instead of "

// asGroup makes a command print its help if it is called alone, and refuse unknown subcommands.
func asGroup(group *cobra.Command) {
	group.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		meant := ""
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
			if slices.Contains(c.SuggestFor, args[0]) {
				meant = cmp.Or(c.Annotations[InsteadOf+args[0]], c.Name())
			}
		}
		key := strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()) + " command")
		return input.Edit(input.UnknownName(key, args[0], names), func(e *input.Error) { e.Nearest = cmp.Or(meant, e.Nearest) })
	}
	group.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// oneStdin refuses a command line with two files from standard input.
func oneStdin(cmd *cobra.Command, args []string) error {
	var readers []string
	for _, arg := range args {
		if arg == input.Stdin {
			readers = append(readers, "an argument")
		}
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, v := range flagValues(f) {
			if v == input.Stdin {
				readers = append(readers, "--"+f.Name)
			}
		}
	})
	switch {
	case len(readers) < 2:
		return nil
	case readers[0] == readers[1]:
		return &input.Error{Value: input.Stdin, Expected: "standard input for one file only"}
	}
	return &input.Error{Key: readers[1], Value: input.Stdin, Expected: "standard input for one file only; " + readers[0] + " reads it, too"}
}

// markStart wraps the function of every command under cmd, so that a.started tells its errors from
// usage errors. A command takes no arguments unless it declares them, and wrong ones are reported
// in our words.
func (a *App) markStart(cmd *cobra.Command) {
	if inner := cmd.RunE; inner != nil {
		allowed := cmd.Args
		if allowed == nil {
			allowed = cobra.NoArgs
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := allowed(cmd, args)
			if err == nil || errors.As(err, new(*input.Error)) {
				return err
			}
			return argumentError(cmd, args)
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
