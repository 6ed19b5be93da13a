package long

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Tests reports whether the environment asks for tests at full length: L3SIM_LONG=1.
func Tests() bool { return os.Getenv("L3SIM_LONG") == "1" }

// Of returns how often a test repeats what it does at random: usual times, or all times
// at full length.
func Of(usual, all int) int {
	if Tests() {
		return all
	}
	return usual
}

// Cases has the rest of a test draw part of the random cases that rapid draws elsewhere, one at least, where a case takes
// seconds. At full length it draws them all. Tests that run beside it draw fewer, too.
func Cases(t testing.TB, part int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	all := checks.Value.String()
	n, err := strconv.Atoi(all)
	if err == nil && !Tests() {
		err = checks.Value.Set(strconv.Itoa(max(1, n/part)))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := checks.Value.Set(all); err != nil {
			t.Error(err)
		}
	})
}
