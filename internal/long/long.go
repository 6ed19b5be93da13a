package long

import "os"

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
