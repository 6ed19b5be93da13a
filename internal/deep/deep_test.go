package deep

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// setFlag sets a flag of rapid for a test. None of these tests runs in parallel.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flag.Set(name, before); err != nil {
			t.Error(err)
		}
	})
}

// TestDrawLess: a quick run draws few cases, the same every time, unless the environment overrides it; a deep run draws as rapid does.
func TestDrawLess(t *testing.T) {
	t.Setenv("L3SIM_LONG", "")
	for _, c := range []struct{ deep, checks, seed, want string }{
		{"", "", "", "5 1"}, {"", "70", "", "90 1"}, {"", "", "30", "5 40"}, {"", "70", "30", "90 40"}, {"1", "", "", "90 40"},
	} {
		setFlag(t, "rapid.checks", "90")
		setFlag(t, "rapid.seed", "40")
		t.Setenv("L3SIM_DEEP", c.deep)
		t.Setenv("RAPID_CHECKS", c.checks)
		t.Setenv("RAPID_SEED", c.seed)
		drawLess()
		if got := flag.Lookup("rapid.checks").Value.String() + " " + flag.Lookup("rapid.seed").Value.String(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// recorder is a test of its own, so that its failure can be observed.
type recorder struct {
	testing.TB
	failed bool
	said   strings.Builder
}

func (r *recorder) Name() string                   { return "recorded" }
func (r *recorder) Failed() bool                   { return r.failed }
func (r *recorder) Fail()                          { r.failed = true }
func (r *recorder) FailNow()                       { r.failed = true; panic(r) }
func (r *recorder) Log(args ...any)                { fmt.Fprintln(&r.said, args...) }
func (r *recorder) Logf(format string, a ...any)   { fmt.Fprintf(&r.said, format+"\n", a...) }
func (r *recorder) Error(args ...any)              { r.Log(args...); r.Fail() }
func (r *recorder) Errorf(format string, a ...any) { r.Logf(format, a...); r.Fail() }

// record runs a test on a recorder until it ends or fails.
func record(t *testing.T, test func(rapid.TB)) (r *recorder) {
	r = &recorder{TB: t}
	defer func() {
		if end := recover(); end != nil && end != any(r) {
			panic(end)
		}
	}()
	test(r)
	return r
}

// numbers draws values that two cases never share by chance.
func numbers(c *rapid.T) [4]uint64 {
	var n [4]uint64
	for i := range n {
		n[i] = rapid.Uint64().Draw(c, "number")
	}
	return n
}

// TestUntilDrawsOtherCases: under any fixed seed, Until finds a property of every third case. Drawing the usual cases again and again
// misses it under many seeds.
func TestUntilDrawsOtherCases(t *testing.T) {
	setFlag(t, "rapid.checks", "5") // one with -short
	for seed := range 40 {
		setFlag(t, "rapid.seed", fmt.Sprint(seed+1))
		drawn, met := map[[4]uint64]bool{}, false
		Until(t, func() bool { return met }, func(c *rapid.T) {
			n := numbers(c)
			drawn[n] = true
			met = met || n[0]%3 == 1
		})
		if len(drawn) < checks(t) {
			t.Fatalf("seed %d: %d cases, want %d", seed+1, len(drawn), checks(t))
		}
	}
}

// TestUntilGivesUp: a test fails only after many further, different cases without the wanted property.
func TestUntilGivesUp(t *testing.T) {
	setFlag(t, "rapid.checks", "10")
	setFlag(t, "rapid.seed", "1")
	drawn := map[[4]uint64]bool{}
	r := record(t, func(t rapid.TB) {
		Until(t, func() bool { return false }, func(c *rapid.T) { drawn[numbers(c)] = true })
	})
	if want := checks(t) + further; !r.failed || !strings.Contains(r.said.String(), "no random case had what is tested") || len(drawn) != want {
		t.Errorf("%d cases, want %d; failed: %v, %s", len(drawn), want, r.failed, &r.said)
	}
}

// TestFailuresAreRepeated: a failing case fails again when rapid repeats it and looks for a smaller one, whatever was drawn before, for the
// first case and for those that Until adds.
func TestFailuresAreRepeated(t *testing.T) {
	setFlag(t, "rapid.checks", "10")
	setFlag(t, "rapid.nofailfile", "true")
	setFlag(t, "rapid.shrinktime", "10m") // the smallest case, however busy the machine is
	var none []int
	ends := map[string]func(*rapid.T){
		"Fatal": func(c *rapid.T) { c.Fatal("too large") }, "Error": func(c *rapid.T) { c.Error("too large") },
		"index out of range": func(*rapid.T) { none[0]++ },
	}
	for name, end := range ends {
		for seed := range Of(4, 20, 20) {
			setFlag(t, "rapid.seed", fmt.Sprint(seed+1))
			met := 0
			property := func(c *rapid.T) {
				n := rapid.IntRange(0, 1000).Draw(c, "n")
				if n%7 == 0 {
					c.Skip("not of this kind")
				}
				if n > 30 {
					met++
					end(c)
				}
			}
			tests := map[string]func(rapid.TB){
				"Until": func(t rapid.TB) { Until(t, func() bool { return met > 0 }, property) },
				"Cases": func(t rapid.TB) { Cases(t, 1, property) },
			}
			for by, test := range tests {
				met = 0
				r := record(t, test)
				if said := r.said.String(); r.failed && (strings.Contains(said, "flaky") || !strings.Contains(said, "n: 31\n")) || !r.failed && met > 0 {
					t.Errorf("%s, %s, seed %d, met %d: %s", by, name, seed+1, met, said)
				}
			}
		}
	}
}

// TestCases: one part-th of the cases is drawn, skipped or not, and a flag that parallel tests read does not change.
func TestCases(t *testing.T) {
	setFlag(t, "rapid.checks", "60")
	all := checks(t) // 12 with -short
	for part, want := range map[int]int{1: all, 3: all / 3, 6: all / 6, 1000: 1} {
		if Long() {
			want = all
		}
		tried := 0
		Cases(t, part, func(c *rapid.T) {
			if rapid.IntRange(0, 3).Draw(c, "n") == 0 {
				c.Skip("none of it")
			}
			tried++
			if checks(t) != all {
				t.Errorf("a property sees %d cases, want %d", checks(t), all)
			}
		})
		if tried != want {
			t.Errorf("a part of %d: %d cases, want %d of %d", part, tried, want, all)
		}
	}
}

// TestCase: a quick run tries the first case of a table and each part-th after it, or begins at its turn; deep and long runs try all.
func TestCase(t *testing.T) {
	for _, c := range []struct {
		deep, long, turn string
		want             []int
	}{
		{"", "", "", []int{0, 3, 6}}, {"", "", "1", []int{2, 5}}, {"", "", "2", []int{1, 4, 7}}, {"", "", "15", []int{0, 3, 6}},
		{"1", "", "1", []int{0, 1, 2, 3, 4, 5, 6, 7}}, {"", "1", "", []int{0, 1, 2, 3, 4, 5, 6, 7}},
	} {
		t.Setenv("L3SIM_TURN", c.turn)
		t.Setenv("L3SIM_DEEP", c.deep)
		t.Setenv("L3SIM_LONG", c.long)
		var tried []int
		for i := range 8 {
			if Case(i, 3) {
				tried = append(tried, i)
			}
		}
		if !slices.Equal(tried, c.want) {
			t.Errorf("%+v: %v", c, tried)
		}
	}
}

// TestTurn: of three tests a quick run runs one, another one at the next turn; a deep run, and one that names tests, runs all.
func TestTurn(t *testing.T) {
	for _, c := range []struct{ deep, turn, run, want string }{{"", "", "", "0"}, {"", "1", "", "2"}, {"", "2", "", "1"}, {"1", "2", "", "012"}, {"", "1", "Some", "012"}} {
		quick(t, c.deep, c.turn, c.run)
		ran := ""
		for i := range 3 {
			t.Run("", func(t *testing.T) {
				Turn(t, i, 3)
				ran += strconv.Itoa(i)
			})
		}
		if ran != c.want {
			t.Errorf("%+v: %s ran", c, ran)
		}
	}
}

// quick sets the environment and the flag that say how much is tested.
func quick(t *testing.T, deep, turn, run string) {
	t.Helper()
	for key, value := range map[string]string{"L3SIM_LONG": "", "L3SIM_DEEP": deep, "L3SIM_TURN": turn} {
		t.Setenv(key, value)
	}
	before := flag.Lookup("test.run").Value.String()
	if err := flag.Set("test.run", run); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set("test.run", before) })
}

// TestHeavy: a heavy test runs at its turn and is skipped at the others, and no turn has more than half of thirty tests.
func TestHeavy(t *testing.T) {
	for turn := range heavyTurns {
		quick(t, "", strconv.Itoa(turn), "")
		ran, due := false, false
		t.Run("", func(t *testing.T) {
			due = Case(turnOf(t.Name()), heavyTurns)
			Heavy(t)
			ran = true
		})
		if ran != due {
			t.Errorf("at turn %d the test ran: %t", turn, ran)
		}
	}
	of := [heavyTurns]int{}
	for i := range 30 {
		of[turnOf("Test"+strconv.Itoa(i))]++
	}
	if slices.Min(of[:]) == 0 || slices.Max(of[:]) > 15 {
		t.Errorf("the turns have %v of 30 tests", of)
	}
}

// TestFiles: of three files a quick run takes the first and the third, or at the next turn the second, and those that are always
// taken; a deep run, and one that names tests, takes all.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"c.x", "a.x", "b.x", "a.y"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		turn   int
		deep   string
		run    string
		always []string
		want   string
	}{
		{0, "", "", nil, "[a.x c.x]"}, {1, "", "", nil, "[b.x]"}, {2, "", "", nil, "[a.x c.x]"}, {1, "1", "", nil, "[a.x b.x c.x]"},
		{0, "", "", []string{"b", "none"}, "[a.x b.x c.x]"}, {1, "", "", []string{"b", "c"}, "[b.x c.x]"},
		{1, "", "TestFiles", nil, "[a.x b.x c.x]"},
	} {
		quick(t, c.deep, strconv.Itoa(c.turn), c.run)
		files := Files(t, filepath.Join(dir, "*.x"), 2, c.always...)
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		if fmt.Sprint(files) != c.want {
			t.Errorf("%+v: %v", c, files)
		}
	}
	quick(t, "", "", "")
	if Of(1, 2, 3) != 1 || On() || Long() {
		t.Error("a quick run is none")
	}
	t.Setenv("L3SIM_DEEP", "1")
	if Of(1, 2, 3) != 2 || !On() || Long() {
		t.Error("a deep run is none")
	}
	t.Setenv("L3SIM_LONG", "1")
	if Of(1, 2, 3) != 3 || !On() || !Long() {
		t.Error("a long run is none")
	}
}

// TestAsked: a context ends at the first check beyond its limit, or with its parent.
func TestAsked(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	ctx := Asked(parent, 3)
	for i, want := range []error{nil, nil, nil, context.DeadlineExceeded, context.DeadlineExceeded} {
		if err := ctx.Err(); !errors.Is(err, want) {
			t.Errorf("question %d: %v, want %v", i+1, err, want)
		}
	}
	cancel()
	if err := Asked(parent, 3).Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v of a context that is cancelled", err)
	}
}

// TestSeeds: a property is tried on the same cases in every run, and can fail in each way.
func TestSeeds(t *testing.T) {
	draw := func(n int) (drawn []int) {
		Seeds(t, n, func(c *rapid.T) {
			drawn = append(drawn, rapid.IntRange(0, 1<<20).Draw(c, "n"))
			if len(drawn)%3 == 0 {
				c.Skip("none of it")
			}
		})
		return drawn
	}
	if a, b := draw(20), draw(20); len(a) != 20 || !slices.Equal(a, b) || slices.Max(a) == slices.Min(a) {
		t.Errorf("%v, then %v", a, b)
	}
	for want, property := range map[string]func(c *rapid.T){
		"<nil>": func(*rapid.T) {}, "much": func(c *rapid.T) { c.Fatal("much") }, "an error": func(c *rapid.T) { c.Error("some") },
		"runtime error: index out of range [3] with length 0": func(*rapid.T) { _ = draw(0)[3] },
	} {
		if got := fmt.Sprint(fails(7, property)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
