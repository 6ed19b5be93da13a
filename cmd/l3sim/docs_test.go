//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/deep"
)

// The pages for users are README.md and docs/*.md. Terminal sessions are in blocks of the language console: lines
// that begin with "$ ", each followed by the command's standard output, or its standard error if it fails. A line
// "..." stands for any lines. Words after the language say more: "long" is a block that only L3SIM_LONG=1 runs,
// "fails" one whose commands fail. A block whose language is followed by a file's name is that file. All blocks of
// a page run in one folder, from top to bottom.

// page is one of these files.
type page struct {
	path   string
	lines  []string
	blocks []block
}

// block is a fenced block: its lines are those from the first up to the one before the last.
type block struct {
	first, last int
	language    string
	words       []string // after the language
}

// command is a line of a terminal with the lines of its output.
type command struct {
	line, first, last int // the command's, and those of its output
	text              string
}

// userPages reads the pages for users, README.md first.
func userPages(t *testing.T) []*page {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []*page
	for _, path := range append([]string{"../../README.md"}, paths...) {
		p := &page{path: path, lines: strings.Split(string(read(t, path)), "\n")}
		open := -1
		for i, line := range p.lines {
			switch mark, ok := strings.CutPrefix(line, "```"); {
			case !ok:
			case open >= 0:
				p.blocks[len(p.blocks)-1].last, open = i, -1
			default:
				words := append(strings.Fields(mark), "")
				p.blocks, open = append(p.blocks, block{first: i + 1, language: words[0], words: words[1:]}), i
			}
		}
		if open >= 0 {
			t.Fatalf("%s:%d: a block that does not end", path, open+1)
		}
		all = append(all, p)
	}
	return all
}

// has reports whether a word follows the block's language.
func (b *block) has(word string) bool { return slices.Contains(b.words, word) }

// file returns the name of the file in the block, or "".
func (b *block) file() string {
	if b.language == "console" || len(b.words) == 0 {
		return ""
	}
	return b.words[0]
}

// commands returns the commands of a block of a terminal.
func (p *page) commands(b block) []command {
	var all []command
	for i := b.first; i < b.last; i++ {
		text, ok := strings.CutPrefix(p.lines[i], "$ ")
		if !ok {
			continue
		}
		c := command{line: i, text: text}
		for strings.HasSuffix(c.text, `\`) {
			i++
			c.text = strings.TrimSuffix(c.text, `\`) + strings.TrimSpace(p.lines[i])
		}
		c.first, c.last = i+1, i+1
		for c.last < b.last && !strings.HasPrefix(p.lines[c.last], "$ ") {
			c.last++
		}
		all = append(all, c)
	}
	return all
}

// folder makes the folder in which the blocks of a page run. The checkout's examples and
// configurations are there, and so are the files of the page.
func (p *page) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"examples", "configs"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range p.blocks {
		if name := b.file(); name != "" {
			text := strings.Join(p.lines[b.first:b.last], "\n") + "\n"
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// TestPages runs the commands of user pages and compares their output. A quick run has README's, the short pages by turns, and of
// the others only parses the commands (TestPageCommands).
func TestPages(t *testing.T) {
	for _, p := range userPages(t) {
		t.Run(filepath.Base(p.path), func(t *testing.T) {
			switch filepath.Base(p.path) {
			case "README.md":
			case "accuracy.md", "serve.md", "start.md", "sure.md", "sweep.md":
				deep.Only(t)
			default:
				deep.Heavy(t)
			}
			dir, bin := p.folder(t), t.TempDir()
			linked(t, bin)
			changed := false
			for _, b := range p.blocks {
				if b.language != "console" || b.has("long") && !deep.Long() {
					continue
				}
				for _, c := range p.commands(b) {
					got := shell(t, p, c, dir, bin, b.has("fails"))
					want := p.lines[c.first:c.last]
					if printed(got, want) {
						continue
					}
					if *update {
						changed = p.renew(t, c, got) || changed
						continue
					}
					t.Errorf("%s:%d: %s\nprints\n%s\nthe page has\n%s", p.path, c.line+1, c.text, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
			if changed {
				if err := os.WriteFile(p.path, []byte(strings.Join(p.lines, "\n")), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// shell runs a command of a page and returns the lines that it prints.
func shell(t *testing.T, p *page, c command, dir, bin string, fails bool) []string {
	t.Helper()
	var out, messages bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "sh", "-c", c.text)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &messages
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+bin)
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if (err != nil) != fails {
		t.Errorf("%s:%d: %s: %v\n%s", p.path, c.line+1, c.text, err, messages.String())
	}
	if fails {
		out.Write(messages.Bytes())
	}
	text := strings.TrimRight(out.String(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// printed reports whether lines are those of a page, in which "..." stands for any.
func printed(got, want []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] != "..." {
		return len(got) > 0 && strings.TrimRight(got[0], " ") == want[0] && printed(got[1:], want[1:])
	}
	for i := range len(got) + 1 {
		if printed(got[i:], want[1:]) {
			return true
		}
	}
	return false
}

// numbers are the parts of a line that a newer program may change.
var numbers = regexp.MustCompile(`[-+]?[0-9][0-9.,]*| +`)

// renew writes a command's output into the page if the page's lines differ from it only in numbers,
// or are "?", which stands for the whole output.
func (p *page) renew(t *testing.T, c command, got []string) bool {
	at := 0
	for i := c.first; i < c.last; i++ {
		switch shape := numbers.ReplaceAllString(p.lines[i], "#"); p.lines[i] {
		case "...":
		case "?":
			p.lines[i] = strings.Join(got, "\n")
			return true
		default:
			for at < len(got) && numbers.ReplaceAllString(strings.TrimRight(got[at], " "), "#") != shape {
				at++
			}
			if at == len(got) {
				t.Errorf("%s:%d: nothing like %q is printed by %s:\n%s", p.path, i+1, p.lines[i], c.text, strings.Join(got, "\n"))
				return false
			}
			p.lines[i] = strings.TrimRight(got[at], " ")
			at++
		}
	}
	if at < len(got) && !slices.Contains(p.lines[c.first:c.last], "...") {
		t.Errorf("%s:%d: %s prints more lines than the page has, from %q on", p.path, c.line+1, c.text, got[at])
	}
	return true
}

// TestPageCommands: every command that a page names exists, with its flags. Commands that run
// something are loaded with their keys, presets and files, and stop there.
func TestPageCommands(t *testing.T) {
	inline := regexp.MustCompile("`(l3sim [^`]+)`")
	for _, p := range userPages(t) {
		t.Run(filepath.Base(p.path), func(t *testing.T) {
			inBlock := map[int]bool{}
			for _, b := range p.blocks {
				for i := b.first - 1; i <= b.last; i++ {
					inBlock[i] = true
				}
			}
			for i, line := range p.lines {
				for _, m := range inline.FindAllStringSubmatch(line, -1) {
					if !inBlock[i] {
						parses(t, fmt.Sprintf("%s:%d", p.path, i+1), m[1])
					}
				}
			}
			t.Chdir(p.folder(t))
			for _, b := range p.blocks {
				for _, c := range p.commands(b) {
					where := fmt.Sprintf("%s:%d", p.path, c.line+1)
					for _, text := range regexp.MustCompile(` && | \| `).Split(c.text, -1) {
						parses(t, where, text)
						if !b.has("fails") {
							resolves(t, where, text)
						}
					}
				}
			}
		})
	}
}

// parses reports an l3sim command or flag that does not exist.
func parses(t *testing.T, where, text string) {
	t.Helper()
	args := shellWords(text)
	if len(args) < 2 || args[0] != "l3sim" {
		return
	}
	root := program.Root(&cli.App{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}})
	cmd, rest, err := root.Find(args[1:])
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil && cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ") && len(cmd.Flags().Args()) > 0 {
		err = fmt.Errorf("no command %q", cmd.Flags().Args())
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("%s: %s: %v", where, text, err)
	}
}

// resolves loads the configuration of a command that simulates, and plans a sweep. TestPages runs
// commands that read earlier results.
func resolves(t *testing.T, where, text string) {
	t.Helper()
	args := shellWords(text)
	if len(args) < 2 || args[0] != "l3sim" || !slices.Contains([]string{"run", "capacity", "sweep"}, args[1]) || slices.Contains(args[2:min(3, len(args))], "merge") {
		return
	}
	dry := []string{args[1]}
	if args[1] == "capacity" {
		dry = []string{"run", "--rate", "1"}
	}
	for i := 2; i < len(args); i++ {
		switch args[i] {
		case "--out", "--plots", "--precision", "--timeline", "--timeline-window", "--tune", "--tune-requests": // outputs, and capacity's own
			i++
		case "--json", "--iterations", "--dry-run", "--emit":
		default:
			if strings.HasPrefix(args[i], "out/") {
				return
			}
			dry = append(dry, args[i])
		}
	}
	for n := range 4 { // of several systems, models, GPUs or policies one after the other
		one := append(slices.Clone(dry), "--dry-run")
		for i, name := range one[:len(one)-1] {
			if slices.Contains([]string{"--system", "--model", "--gpu", "--policy"}, name) {
				several := strings.Split(one[i+1], ",")
				one[i+1] = several[min(n, len(several)-1)]
			}
		}
		var out, messages bytes.Buffer
		if code := run(t.Context(), one, &out, &messages); code != cli.OK {
			t.Errorf("%s: %s: exit code %d: %s", where, text, code, messages.String())
		}
		if slices.Equal(one[:len(one)-1], dry) {
			return
		}
	}
}

// shellWords splits a command as a shell does, up to a redirection or a comment.
func shellWords(text string) []string {
	var words []string
	for _, m := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(text, -1) {
		if strings.HasPrefix(m, "#") || strings.HasPrefix(m, ">") || strings.HasPrefix(m, "2>") {
			break
		}
		words = append(words, strings.NewReplacer("'", "", `"`, "").Replace(m))
	}
	return words
}
