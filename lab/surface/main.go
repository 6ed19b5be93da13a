package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program. It returns the exit code: 2 for wrong use, 1 for a failure.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("surface", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var tools programs
	flags.StringVar(&tools.user, "l3sim", "", "the `program` whose commands, flags, keys and columns are counted; none are without it")
	flags.StringVar(&tools.lab, "l3lab", "", "the `program` of the lab, whose commands are counted")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(stderr, "surface: expected one argument, the folder of a checkout")
		return 2
	}
	root := flags.Arg(0)
	s, err := readSource(root)
	if err == nil {
		s.print(stdout)
		err = tools.print(stdout, root)
	}
	if err == nil && tools.user != "" {
		var all []option
		if all, err = options(context.Background(), root); err == nil {
			printOptions(stdout, all)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "surface: %v\n", err)
		return 1
	}
	return 0
}

// print writes the tables of the source: by kind, by package, and the largest structs.
func (s *source) print(w io.Writer) {
	fmt.Fprintf(w, "%-18s %8s %8s %8s %8s %9s\n", "lines of Go", "code", "comment", "blank", "all", "tokens")
	sum, tokens := lines{}, 0
	for kind := range kinds {
		l := s.kinds[kind]
		if kind != tests {
			sum.add(l)
			tokens += s.tokens[kind]
		}
		l.print(w, kindNames[kind], s.tokens[kind])
	}
	sum.print(w, "product and lab", tokens)

	fmt.Fprintf(w, "\n%-28s %8s %8s %8s %9s\n", "package", "tokens", "lines", "tests", "exported")
	exported := 0
	for _, name := range s.packageNames() {
		p := s.packages[name]
		exported += p.exported
		fmt.Fprintf(w, "%-28s %8d %8d %8d %9d\n", name, p.tokens, p.lines.all(), p.tests.all(), p.exported)
	}
	fmt.Fprintf(w, "%-55s %9d\n", "all", exported)

	slices.SortStableFunc(s.structs, func(a, b structType) int { return cmp.Compare(b.fields, a.fields) })
	fmt.Fprintf(w, "\n%-44s %6s\n", "largest structs", "fields")
	for _, t := range s.structs[:min(10, len(s.structs))] {
		fmt.Fprintf(w, "%-44s %6d\n", t.name, t.fields)
	}
}

func (l lines) print(w io.Writer, name string, tokens int) {
	fmt.Fprintf(w, "%-18s %8d %8d %8d %8d %9d\n", name, l.code, l.comment, l.blank, l.all(), tokens)
}
