package deep

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

const quickChecks = 5 // how many random cases a property is tried on in a quick run

func init() { drawLess() } // before any test begins and before flags are parsed

// drawLess lowers rapid's number of cases in a quick run and has it draw the same cases every time, so that each run takes as long and
// the go command may keep its verdict. RAPID_CHECKS, RAPID_SEED and their flags still decide where they are given.
func drawLess() {
	if On() {
		return
	}
	for name, quick := range map[string]int{"checks": quickChecks, "seed": 1} {
		if set := flag.Lookup("rapid." + name); set != nil && os.Getenv("RAPID_"+strings.ToUpper(name)) == "" {
			_ = set.Value.Set(strconv.Itoa(quick)) // a number, so it cannot fail
		}
	}
}

// On reports whether the environment asks for deep tests: L3SIM_DEEP=1 or L3SIM_LONG=1.
func On() bool { return os.Getenv("L3SIM_DEEP") == "1" || Long() }

// Long reports whether the environment asks for tests at full length: L3SIM_LONG=1.
func Long() bool { return os.Getenv("L3SIM_LONG") == "1" }

// Only skips a test in a quick run.
func Only(t testing.TB) {
	t.Helper()
	if !On() {
		t.Skip("a deep test: L3SIM_DEEP=1 runs it")
	}
}

// Files returns the files that fit a pattern, as Case chooses them of a sorted list, and always those with one of the names, which
// have no extension.
func Files(t testing.TB, pattern string, part int, always ...string) (chosen []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files fit %s, %v", len(files), pattern, err)
	}
	for i, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)); Case(i, part) || slices.Contains(always, name) {
			chosen = append(chosen, file)
		}
	}
	return chosen
}

// Of returns how often a test repeats what it does at random in a quick, a deep and a long run.
func Of(quick, deep, long int) int {
	switch {
	case Long():
		return long
	case On():
		return deep
	}
	return quick
}

// Case says whether a run tries the i-th case of a table of which a quick run tries one of part: the first, and each part-th after it.
// L3SIM_TURN=1 has it begin with the part-th case in place of the first, 2 with the one before: .ci/run has another turn for each commit.
func Case(i, part int) bool {
	turn, _ := strconv.Atoi(os.Getenv("L3SIM_TURN")) // 0 where it is not set
	return On() || (i+turn)%part == 0
}

// Turn skips the i-th of a number of tests, counted from 0, of which a quick run runs one: that of its turn, as Case has it.
func Turn(t testing.TB, i, of int) {
	t.Helper()
	if !Case(i, of) {
		t.Skip("another test's turn: L3SIM_DEEP=1 runs all")
	}
}

// Cases tries a property on one part-th of the random cases that rapid.Check draws, and on one at least: for properties whose
// cases take seconds. A long run draws all of them. It changes nothing that tests beside it see.
func Cases(t rapid.TB, part int, property func(*rapid.T)) {
	t.Helper()
	most := max(1, checks(t)/part)
	tried, failed := 0, false
	rapid.Check(t, func(c *rapid.T) {
		if tried >= most && !failed && !Long() {
			return // a case of no work
		}
		try(c, property, &failed)
		tried++
	})
}

const further = 200 // how many cases more Until tries

// Until is rapid.Check for a property that is about what not every case has: a quick run draws so few that all may miss it. Where none
// of the usual number of cases had it, the last one goes on to draw others from its stream of random numbers, so that a fixed seed draws
// other cases, too. If all of these miss it, the test fails.
func Until(t rapid.TB, had func() bool, property func(*rapid.T)) {
	t.Helper()
	usual := checks(t)
	tried, failed := 0, false
	rapid.Check(t, func(c *rapid.T) {
		try(c, property, &failed)
		tried++
		// Once a case has failed, rapid repeats it and tries smaller ones: what others had must not end these early.
		for n := 0; n < further && !c.Failed() && (failed || tried >= usual && !had()); n++ {
			try(c, property, &failed)
		}
	})
	if usual > 0 && !had() {
		t.Error("no random case had what is tested")
	}
}

// Seeds tries a property on the cases of n seeds from 0 on, however few rapid draws in a run: for properties whose cases take a
// millisecond or less, which a quick run would try too seldom. The cases are the same in every run.
func Seeds(t testing.TB, n int, property func(*rapid.T)) {
	t.Helper()
	for seed := range n {
		if why := fails(seed, property); why != nil {
			t.Fatalf("the case of seed %d: %v", seed, why)
		}
	}
}

// fails returns why a property fails on the case of a seed, nil where it holds or skips the case.
func fails(seed int, property func(*rapid.T)) (why any) {
	rapid.Custom(func(c *rapid.T) bool {
		drawn := rapid.Bool().Draw(c, "of no use: rapid wants each case to draw something")
		defer func() {
			end := recover()
			if _, crashed := end.(error); crashed || c.Failed() {
				why = end
			}
			if why == nil && c.Failed() {
				why = "an error"
			}
		}()
		property(c)
		return drawn
	}).Example(seed)
	return why
}

// checks returns how many cases rapid.Check draws.
func checks(t rapid.TB) int {
	t.Helper()
	n, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatalf("the flag rapid.checks: %v", err)
	}
	if testing.Short() {
		n /= 5 // as rapid does
	}
	return n
}

// try tries a property on a case and notes whether it fails. A case that the property skips does not: rapid ends it with a panic of
// its own, which is no error.
func try(c *rapid.T, property func(*rapid.T), failed *bool) {
	defer func() {
		end := recover()
		if _, crashed := end.(error); crashed || c.Failed() {
			*failed = true
		}
		if end != nil {
			panic(end)
		}
	}()
	property(c)
}

// Asked returns a context that ends when it has been asked most times whether it has. A loop that asks every so many steps and has no end
// is then stopped after the same work on any machine, however busy.
func Asked(ctx context.Context, most int64) context.Context {
	return &asked{Context: ctx, most: most}
}

type asked struct {
	context.Context

	most  int64
	times atomic.Int64
}

func (a *asked) Err() error {
	if a.times.Add(1) > a.most {
		return context.DeadlineExceeded
	}
	return a.Context.Err()
}
