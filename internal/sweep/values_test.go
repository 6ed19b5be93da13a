package sweep

import (
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// TestValues: a journal returns the value stored at an address, also to its next reader. A nil journal has nothing and accepts
// everything.
func TestValues(t *testing.T) {
	dir := t.TempDir()
	for _, put := range []bool{true, false} {
		j, err := OpenJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		if there := j.Get("a", &got); there == put {
			t.Errorf("%v: there %v", put, there)
		}
		if put {
			if err := j.Put("a", "first", "v1", []float64{1, 2.5}); err != nil {
				t.Fatal(err)
			}
		}
		if !j.Get("a", &got) || len(got) != 2 || got[1] != 2.5 || j.Get("b", &got) {
			t.Errorf("%v: %v", put, got)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var none *Journal
	if err := none.Put("a", "first", "v1", 1); err != nil || none.Get("a", new(int)) || none.Close() != nil {
		t.Errorf("%v", err)
	}
}

// TestAddressOfMore: an address depends on version, configuration, trace and further values; without further values it is a point's.
func TestAddressOfMore(t *testing.T) {
	trace := func(input int) *traces.Trace {
		return &traces.Trace{Requests: []traces.Request{{Input: input, Output: 1}}}
	}
	config := func(set string) *configs.Config {
		cfg, err := system.Load(configs.Options{Sets: []string{set}})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	seen := map[string]bool{}
	for _, x := range []struct {
		version, set string
		input        int
		more         []string
	}{
		{"v1", "run.seed=1", 1, nil}, {"v2", "run.seed=1", 1, nil}, {"v1", "run.seed=2", 1, nil}, {"v1", "run.seed=1", 2, nil},
		{"v1", "run.seed=1", 1, []string{"a"}}, {"v1", "run.seed=1", 1, []string{"a", "b"}}, {"v1", "run.seed=1", 1, []string{"a b"}}, {"v1", "run.seed=1", 1, []string{"a\nb"}},
	} {
		address, err := Address(x.version, config(x.set), trace(x.input), x.more...)
		if err != nil || seen[address] {
			t.Errorf("%+v: %s, %v", x, address, err)
		}
		seen[address] = true
		var point Point
		if err := point.identify(x.version, config(x.set), hashTrace(trace(x.input))); err != nil || (point.Hash == address) != (x.more == nil) {
			t.Errorf("%+v: a point has %s, this %s, %v", x, point.Hash, address, err)
		}
	}
}
