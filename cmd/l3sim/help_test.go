package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/internal/cli"
)

// commands returns all commands that help shows.
func commands() (all []*cobra.Command) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				walk(sub)
			}
		}
	}
	walk(program.Root(&cli.App{}))
	return all
}

// TestPlanLists: the help of plan marks each flag that takes several values.
func TestPlanLists(t *testing.T) {
	plan, _, err := program.Root(&cli.App{}).Find([]string{"plan"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"system", "model", "gpu", "policy", "tp", "gpus", "ranksets", "memory", "prices"} {
		if f := plan.Flags().Lookup(name); !strings.HasSuffix(f.Usage, ", or several (a,b) to compare") {
			t.Errorf("--%s: %s", name, f.Usage)
		}
	}
}

// TestHelpFits: every command's help fits 80 columns, says what each flag takes, and keeps every
// word of its texts; wrapped example commands end with a backslash.
func TestHelpFits(t *testing.T) {
	for _, c := range commands() {
		path := strings.Fields(c.CommandPath())[1:]
		var out, messages bytes.Buffer
		if code := run(t.Context(), append(path, "--help"), &out, &messages); code != cli.OK || messages.Len() > 0 {
			t.Fatalf("%v: exit code %d: %s", path, code, messages.String())
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%v: %d columns: %s", path, n, line)
			}
		}
		words := strings.Fields(strings.ReplaceAll(out.String(), "\\\n", " "))
		has := " " + strings.Join(words, " ") + " "
		for _, text := range []string{c.Long, c.Example} {
			for line := range strings.Lines(text) {
				if want := " " + strings.Join(strings.Fields(line), " ") + " "; want != "  " && !strings.Contains(has, want) {
					t.Errorf("%v: help lacks%s", path, want)
				}
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if what, usage := pflag.UnquoteUsage(f); strings.HasPrefix(what, "string") || usage == "" {
				t.Errorf("%v: --%s takes a %q", path, f.Name, what)
			}
		})
	}
}

// TestHelpCommands: commands of one group are in the order of their use.
func TestHelpCommands(t *testing.T) {
	var out bytes.Buffer
	run(t.Context(), nil, &out, &out)
	if !regexp.MustCompile(`(?s)Simulate:\n  run .*\n  capacity .*\n  sweep .*Look:\n  table .*Inputs:\n  trace .*Devices:\n.*About:\n`).MatchString(out.String()) {
		t.Error(out.String())
	}
}

// TestUnitsInHelp: usages that commands compose read as sentences, and name the least number of requests of a search.
func TestUnitsInHelp(t *testing.T) {
	for command, want := range map[string][]string{
		"gpu new":  {"--bandwidth bandwidth   bandwidth of its memory", "--sms number", "--power watts"},
		"plan":     {"at least 50, and two for each"},
		"capacity": {"at least 50, and two for each"},
	} {
		help := strings.Join(strings.Fields(stdout(t, append(strings.Fields(command), "--help")...)), " ")
		for _, w := range want {
			if !strings.Contains(help, strings.Join(strings.Fields(w), " ")) {
				t.Errorf("%s --help lacks %q:\n%s", command, w, help)
			}
		}
	}
}
