package deep

import (
	"context"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

const quickChecks = 5 // number of random cases of a property in a quick run

func init() { drawLess() } // before any test begins and before flags are parsed

// drawLess lowers rapid's number of cases in a quick run and fixes its seed, so that each run takes the same time and the go command
// can cache its result. RAPID_CHECKS, RAPID_SEED and their flags take precedence.
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

// Files returns the files that match a pattern, as Case selects them from the sorted list, and always those with one of the names
// (without extension). If -test.run names tests it returns all.
func Files(t testing.TB, pattern string, part int, always ...string) (chosen []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files fit %s, %v", len(files), pattern, err)
	}
	for i, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)); named() || Case(i, part) || slices.Contains(always, name) {
			chosen = append(chosen, file)
		}
	}
	return chosen
}

// Of returns the number of random repeats of a test in a quick, a deep and a long run.
func Of(quick, deep, long int) int {
	switch {
	case Long():
		return long
	case On():
		return deep
	}
	return quick
}

// Case says whether a run tries the i-th case of a table, of which a quick run tries every part-th, from the first on. L3SIM_TURN shifts
// them: 1 begins with the part-th case, 2 with the one before. .ci/run sets another turn for each commit.
func Case(i, part int) bool {
	turn, _ := strconv.Atoi(os.Getenv("L3SIM_TURN")) // 0 where it is not set
	return On() || (i+turn)%part == 0
}

// Turn skips the i-th of a number of tests, counted from 0, of which a quick run runs one, selected as by Case. It skips no test that
// -test.run names.
func Turn(t testing.TB, i, of int) {
	t.Helper()
	if !named() && !Case(i, of) {
		t.Skip("another test's turn: L3SIM_DEEP=1 runs all, -run this one")
	}
}

const heavyTurns = 3

// Heavy marks a test that takes a third of a second or more: each turn runs a third of these, chosen by their names.
func Heavy(t testing.TB) {
	t.Helper()
	Turn(t, turnOf(t.Name()), heavyTurns)
}

func turnOf(name string) int { return int(crc32.ChecksumIEEE([]byte(name)) % heavyTurns) }

// named reports whether the flag -test.run selects tests.
func named() bool {
	f := flag.Lookup("test.run")
	return f != nil && f.Value.String() != ""
}

// Cases tries a property on one part-th of the random cases of rapid.Check, at least one: for properties whose cases take
// seconds. A long run tries all. It does not affect other tests.
func Cases(t rapid.TB, part int, property func(*rapid.T)) {
	t.Helper()
	most := max(1, checks(t)/part)
	tried, failed := 0, false
	rapid.Check(t, func(c *rapid.T) {
		if tried >= most && !failed && !Long() {
			return // an empty case
		}
		try(c, property, &failed)
		tried++
	})
}

const further = 200 // number of extra cases of Until

// Until is rapid.Check for a property that only some cases exercise: had says whether one has. A quick run draws so few cases that all
// may miss it. If none of the usual number had it, the last case draws others from its stream of random numbers, so that a fixed seed
// draws other cases, too. If these also miss it, the test fails.
func Until(t rapid.TB, had func() bool, property func(*rapid.T)) {
	t.Helper()
	usual := checks(t)
	tried, failed := 0, false
	rapid.Check(t, func(c *rapid.T) {
		try(c, property, &failed)
		tried++
		// After a failure rapid repeats the case and tries smaller ones, which earlier successes must not end early.
		for n := 0; n < further && !c.Failed() && (failed || tried >= usual && !had()); n++ {
			try(c, property, &failed)
		}
	})
	if usual > 0 && !had() {
		t.Error("no random case had what is tested")
	}
}

// Seeds tries a property on the cases of seeds 0 to n-1, however few cases rapid draws: for properties whose cases take at most
// a millisecond, which a quick run would try too rarely. The cases are the same in every run.
func Seeds(t testing.TB, n int, property func(*rapid.T)) {
	t.Helper()
	for seed := range n {
		if why := fails(seed, property); why != nil {
			t.Fatalf("the case of seed %d: %v", seed, why)
		}
	}
}

// fails returns why a property fails for a seed, nil if it holds or skips the case.
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

// checks returns the number of cases of rapid.Check.
func checks(t rapid.TB) int {
	t.Helper()
	n, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatalf("the flag rapid.checks: %v", err)
	}
	if testing.Short() {
		n /= 5 // as in rapid
	}
	return n
}

// try tries a property on a case and reports whether it fails. A skipped case does not fail: rapid ends it with a panic of its own.
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

// Asked returns a context that ends at the call of Err after most calls. An endless loop that checks it every few steps then stops
// after the same work on any machine.
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
