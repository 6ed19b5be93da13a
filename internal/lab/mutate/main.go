package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// options are the command line.
type options struct {
	pkg     string
	tests   []string // arguments of the test's executable
	lines   *regexp.Regexp
	sample  int
	workers int
	list    bool
}

func main() {
	var o options
	run := flag.String("run", "", "only tests that match this `pattern`")
	short := flag.Bool("short", false, "short tests")
	lines := flag.String("lines", "", "only mutants whose file:line matches this `pattern`, such as '^merge.go:(15[0-9]|3)$'")
	flag.IntVar(&o.sample, "sample", 0, "so `many` mutants, drawn evenly; 0 for all")
	flag.IntVar(&o.workers, "workers", 1, "mutants under test at a time")
	flag.BoolVar(&o.list, "list", false, "list the mutants and stop")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./internal/lab/mutate [flags] PACKAGE, such as ./internal/sweep")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	o.pkg = flag.Arg(0)
	o.tests = []string{"-test.failfast", "-test.short=" + strconv.FormatBool(*short), "-test.run=" + *run}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if o.lines, err = regexp.Compile(*lines); err == nil {
		err = o.carryOut(ctx, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// carryOut tests the mutants and prints the survivors.
func (o *options) carryOut(ctx context.Context, out io.Writer) error {
	dir, mutants, err := o.mutants(ctx)
	if err != nil || o.list {
		for i := range mutants {
			fmt.Fprintln(out, &mutants[i])
		}
		return err
	}
	scratch, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	b := &bench{options: o, dir: dir, limit: 10 * time.Minute}
	start := time.Now()
	if fate, output := b.try(ctx, filepath.Join(scratch, "whole"), nil); fate != survived {
		return fmt.Errorf("the tests of %s fail as they are:\n%s", o.pkg, output)
	}
	b.limit = 10*time.Second + 3*time.Since(start)

	next := make(chan *mutant)
	fates := map[fate]int{}
	var mu sync.Mutex
	var workers sync.WaitGroup
	for w := range o.workers {
		workers.Go(func() {
			for m := range next {
				result, _ := b.try(ctx, filepath.Join(scratch, strconv.Itoa(w)), m)
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				if fates[result]++; result == survived {
					fmt.Fprintln(out, m)
				}
				mu.Unlock()
			}
		})
	}
	for i := range mutants {
		select {
		case next <- &mutants[i]:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	fmt.Fprintf(out, "%d survived, %d were found, %d by a time limit; %d do not compile\n",
		fates[survived], fates[found]+fates[late], fates[late], fates[invalid])
	return ctx.Err()
}

// String returns "file:line: what".
func (m *mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.what) }

// mutants returns the package's folder and its mutants.
func (o *options) mutants(ctx context.Context) (dir string, all []mutant, err error) {
	listed, err := exec.CommandContext(ctx, "go", "list", "-json=Dir,GoFiles", o.pkg).Output()
	if err != nil {
		if failed := new(exec.ExitError); errors.As(err, &failed) {
			err = errors.New(strings.TrimSpace(string(failed.Stderr)))
		}
		return "", nil, err
	}
	var p struct {
		Dir     string
		GoFiles []string
	}
	if err := json.Unmarshal(listed, &p); err != nil {
		return "", nil, err
	}
	for _, name := range p.GoFiles {
		source, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return "", nil, err
		}
		of, err := findMutants(name, source)
		if err != nil {
			return "", nil, err
		}
		for _, m := range of {
			if o.lines.MatchString(fmt.Sprintf("%s:%d", m.file, m.line)) {
				all = append(all, m)
			}
		}
	}
	if o.sample > 0 && o.sample < len(all) {
		random := rand.New(rand.NewPCG(1, 1))
		drawn := random.Perm(len(all))[:o.sample]
		slices.Sort(drawn)
		for i, k := range drawn {
			all[i] = all[k]
		}
		all = all[:o.sample]
	}
	return p.Dir, all, nil
}

// fate is what became of a mutant.
type fate int

const (
	survived fate = iota
	found         // a test fails
	late          // the tests take too long
	invalid       // it does not compile
)

// bench builds and runs the tests of one package.
type bench struct {
	*options
	dir   string
	limit time.Duration
}

// try runs the tests with a mutant, or with the package as it is if m is nil. The
// compiler reads the mutant's file from the scratch folder: the package is not touched.
func (b *bench) try(ctx context.Context, scratch string, m *mutant) (fate, []byte) {
	fail := func(err error) (fate, []byte) { return invalid, []byte(err.Error()) }
	if err := os.MkdirAll(scratch, 0o777); err != nil {
		return fail(err)
	}
	replaced := map[string]string{}
	if m != nil {
		source, err := os.ReadFile(filepath.Join(b.dir, m.file))
		if err != nil {
			return fail(err)
		}
		replaced[filepath.Join(b.dir, m.file)] = filepath.Join(scratch, m.file)
		if err := os.WriteFile(filepath.Join(scratch, m.file), m.apply(source), 0o666); err != nil {
			return fail(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return fail(err)
	}
	list, program := filepath.Join(scratch, "overlay.json"), filepath.Join(scratch, "tests")
	if err := os.WriteFile(list, overlay, 0o666); err != nil {
		return fail(err)
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", list, "-o", program, b.pkg)
	if output, err := build.CombinedOutput(); err != nil {
		return invalid, output
	}
	limited, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	tests := exec.CommandContext(limited, program, b.tests...)
	tests.Dir = b.dir
	tests.WaitDelay = time.Second // for processes that the tests started
	output, err := tests.CombinedOutput()
	switch {
	case limited.Err() != nil:
		return late, output
	case err != nil:
		return found, output
	}
	return survived, output
}
