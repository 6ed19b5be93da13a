package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// programs are the executables to be measured; "" leaves one out.
type programs struct{ user, lab string }

// flagLine finds the name of a flag in a command's help.
var flagLine = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z][a-z0-9-]*)`)

// flags of every command, counted once at the top
var sharedFlags = []string{"help", "quiet", "version"}

// print writes the rows that need the programs, and the words of the documentation.
func (p *programs) print(w io.Writer, root string) error {
	fmt.Fprintln(w)
	if p.user != "" {
		if err := p.printCommands(w, "l3sim", p.user); err != nil {
			return err
		}
		all, err := output(p.user, "__complete", "run", "--set", "")
		if err != nil {
			return err
		}
		listed, err := output(p.user, "config", "keys")
		if err != nil {
			return err
		}
		keys := strings.Count(listed, "\n") - 1 // below the heading
		fmt.Fprintf(w, "%-28s %8d\n", "configuration keys", keys)
		fmt.Fprintf(w, "%-28s %8d\n", "entries of named tables", strings.Count(all, "=\t")+strings.Count(all, "=\n")-keys)
		columns, err := p.columns()
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-28s %8d\n", "columns of results.csv", columns)
	}
	if p.lab != "" {
		if err := p.printCommands(w, "l3lab", p.lab); err != nil {
			return err
		}
	}
	return printWords(w, root)
}

// printCommands counts commands, their leaves, and flags over all leaves.
func (p *programs) printCommands(w io.Writer, name, program string) error {
	top, err := commands(program)
	if err != nil {
		return err
	}
	flags := map[string]bool{}
	leaves := 0
	var visit func(path []string) error
	visit = func(path []string) error {
		below, err := commands(program, path...)
		if err != nil {
			return err
		}
		help, err := output(program, append(slices.Clone(path), "--help")...)
		if err != nil {
			return err
		}
		for _, found := range flagLine.FindAllStringSubmatch(help, -1) {
			if !slices.Contains(sharedFlags, found[1]) {
				flags[strings.Join(path, " ")+" --"+found[1]] = true
			}
		}
		if len(below) == 0 {
			leaves++
		}
		for _, sub := range below {
			if err := visit(append(slices.Clone(path), sub)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, command := range top {
		if err := visit([]string{command}); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%-28s %8d: %s\n", name+" commands", len(top), strings.Join(top, " "))
	fmt.Fprintf(w, "%-28s %8d\n%-28s %8d\n", name+" commands, leaves", leaves, name+" flags, all leaves", len(flags))
	return nil
}

// commands returns the subcommands in a command's help, without help and completion.
func commands(program string, path ...string) ([]string, error) {
	help, err := output(program, append(slices.Clone(path), "--help")...)
	if err != nil {
		return nil, err
	}
	_, usage, _ := strings.Cut(help, "Usage:\n")
	if !strings.Contains(usage, "[command]\n") {
		return nil, nil
	}
	var names []string
	listed := false
	for _, line := range strings.Split(usage, "\n") {
		switch {
		case line == "":
			continue
		case !strings.HasPrefix(line, " "):
			// A heading. Titles of command groups and "Available Commands:" end in a colon; so do Usage, Flags and
			// Examples.
			listed = strings.HasSuffix(line, ":") && !slices.Contains([]string{"Usage:", "Flags:", "Global Flags:", "Examples:", "Aliases:"}, line)
		case listed && strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   "):
			if name := strings.Fields(line)[0]; name != "help" && name != "completion" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// columns runs the smallest sweep and counts the columns of its results.
func (p *programs) columns() (n int, err error) {
	folder, err := os.MkdirTemp("", "surface")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "sweep.toml")
	if err := os.WriteFile(file, []byte("[set]\nrun.requests = 2\n[grid]\nnode.ranksets = [4]\n"), 0o666); err != nil {
		return 0, err
	}
	out := filepath.Join(folder, "out")
	if _, err := output(p.user, "-q", "sweep", file, "--out", out); err != nil {
		return 0, err
	}
	results, err := os.Open(filepath.Join(out, "results.csv"))
	if err != nil {
		return 0, err
	}
	header, err := csv.NewReader(results).Read()
	return len(header), errors.Join(err, results.Close())
}

// printWords counts the words of README, of the pages for users and of those of the lab.
func printWords(w io.Writer, root string) error {
	for _, group := range []struct{ name, pattern string }{
		{"README.md", "README.md"}, {"pages for users", "docs/*.md"}, {"pages for developers", "docs/reference/*.md"}, {"pages of the lab", "lab/docs/*.md"},
	} {
		pages, err := filepath.Glob(filepath.Join(root, group.pattern))
		if err != nil {
			return err
		}
		words, lines := 0, 0
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				return err
			}
			words += len(bytes.Fields(text))
			lines += bytes.Count(text, []byte("\n"))
		}
		fmt.Fprintf(w, "%-28s %8d words, %d lines, %d files\n", group.name, words, lines, len(pages))
	}
	return nil
}

func output(program string, args ...string) (string, error) {
	command := exec.Command(program, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, stderr.String())
	}
	return string(text), nil
}
