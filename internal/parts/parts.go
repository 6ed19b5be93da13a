package parts

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// T is what testing.TB and rapid.T share.
type T interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// DDR4 returns the device of L3's Table 2.
func DDR4(t testing.TB) *dram.Spec {
	t.Helper()
	return Of(t, "ddr4-3200-8gb-x8")
}

// DDR5 returns a rank of a sub-channel of DDR5-4800.
func DDR5(t testing.TB) *dram.Spec {
	t.Helper()
	return Of(t, "ddr5-4800-16gb-x8")
}

// Of returns a part by its name.
func Of(t T, name string) *dram.Spec {
	t.Helper()
	d, err := dram.LookupSpec(name)
	Must(t, err)
	return d
}

// Must ends the test on an error.
func Must(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
