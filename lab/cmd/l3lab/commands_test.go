package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/internal/cli"
)

// TestCommandLines: every command takes the numbers of arguments, of 0 to 4, and has the flags that testdata/commands.txt lists, and no
// others.
func TestCommandLines(t *testing.T) {
	want, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	got, args := "", make([]string, 0, 4)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		got += c.CommandPath()
		for n := range cap(args) + 1 {
			if c.Args(c, args[:n]) == nil {
				got += fmt.Sprint(" ", n)
			}
		}
		got += ":"
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { got += " " + f.Name })
		got += "\n"
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				walk(sub)
			}
		}
	}
	walk(program.Root(&cli.App{}))
	if got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
