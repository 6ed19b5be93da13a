package deep

import (
	"flag"
	"os"
	"strconv"
	"testing"

	_ "pgregory.net/rapid" // registers the flag rapid.checks, which init changes
)

const quickChecks = 5 // how many random cases a property is tried on in a quick run

// init lowers rapid's number of cases in a quick run. RAPID_CHECKS and the flag
// -rapid.checks still decide where they are given.
func init() {
	if On() || os.Getenv("RAPID_CHECKS") != "" {
		return
	}
	if checks := flag.Lookup("rapid.checks"); checks != nil {
		_ = checks.Value.Set(strconv.Itoa(quickChecks)) // a number, so it cannot fail
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

// Cases has the rest of a test draw one part-th of the random cases that rapid draws
// elsewhere, and one at least: for tests whose cases take seconds. A long run draws
// all of them. Tests that run in parallel with it draw fewer, too.
func Cases(t testing.TB, part int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	all := checks.Value.String()
	n, err := strconv.Atoi(all)
	if err == nil && !Long() {
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

// Until repeats a check of random cases until these have had what the check is about, 20 times at most, and fails the test
// where they never had: a quick run draws so few cases that all may miss it.
func Until(t testing.TB, had func() bool, check func()) {
	t.Helper()
	for range 20 {
		if check(); had() || t.Failed() {
			break
		}
	}
	if !had() {
		t.Error("no random case had what is tested")
	}
}
