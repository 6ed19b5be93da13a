package sweep

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/system"
	"pgregory.net/rapid"
)

// choicesOf are values of keys of every type: some valid, at least with some values of the others,
// and some never valid.
var choicesOf = map[string]struct{ good, bad []string }{
	"run.model":                    {[]string{`"llama-2-7b"`, `"opt-66b"`, `"gpt-175b"`}, []string{`"no-model"`}},
	"run.seed":                     {[]string{"1", "7"}, []string{"-1", `"1"`}},
	"run.trace":                    {[]string{`"longbench"`, `"openr1"`}, []string{`"missing.csv"`}},
	"node.ranksets":                {[]string{"2", "4", "8"}, []string{"0", "4.0", `"4"`}},
	"node.gpus":                    {[]string{"4", "8"}, []string{"7"}},
	"node.memory_capacity":         {[]string{`"1TiB"`, `"2TiB"`, `"2048GiB"`}, []string{"2", `"-1GiB"`}},
	"model.tensor_parallel":        {[]string{"1", "2", "8"}, []string{"true"}},
	"model.layers":                 {[]string{"2", "96"}, nil},
	"pcie.latency":                 {[]string{`"1us"`, `"1.5us"`, `"1000ns"`}, []string{`"soon"`}},
	"dram.tRCD":                    {[]string{"22", "23"}, []string{"-1"}},
	"traces.max_tokens":            {[]string{"20000", "32768"}, []string{"9223372036854775807"}},
	"scheduler.sub_batches":        {[]string{"1", "2"}, []string{"3"}},
	"scheduler.min_prefill_tokens": {[]string{"1", "64"}, nil},
	"gpu.preset":                   {[]string{`"a100-sxm-80gb"`, `"a100-paper"`}, []string{`"none"`}},
}

// TestResolverIsExact plans random sweeps with and without the fast path: points, addresses, rows,
// errors and configurations are equal.
func TestResolverIsExact(t *testing.T) {
	var known []string
	for key := range choicesOf {
		if system.Keys().Key(key) != nil {
			known = append(known, key)
		} else {
			t.Errorf("%s is no key", key)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.Permutation(known).Draw(t, "keys")[:rapid.IntRange(1, 4).Draw(t, "axes")]
		text := "repeats = 2\n[set]\nrun.requests = 2\n[grid]\n"
		for _, key := range keys {
			if key == "run.seed" {
				text = strings.Replace(text, "repeats = 2", "", 1)
			}
			values := rapid.Permutation(choicesOf[key].good).Draw(t, key)
			if bad := choicesOf[key].bad; len(bad) > 0 && rapid.IntRange(0, 9).Draw(t, "bad") == 0 {
				values = append(values, bad...)
			}
			text += fmt.Sprintf("%s = [%s]\n", key, strings.Join(values[:rapid.IntRange(1, len(values)).Draw(t, "n")], ", "))
		}
		file, err := design.ParseFile(system.Configs(), "sweep.toml", text)
		if err != nil {
			t.Fatal(err)
		}
		short, shortErr := NewPlan(file, "test")
		long, longErr := newPlan(file, "test", true)
		if fmt.Sprint(shortErr) != fmt.Sprint(longErr) {
			t.Fatalf("%s\nshort way: %v\nlong way:  %v", text, shortErr, longErr)
		}
		if shortErr != nil {
			return
		}
		if len(short.Points) != len(long.Points) {
			t.Fatalf("%d and %d points", len(short.Points), len(long.Points))
		}
		for i := range short.Points {
			a, b := short.Points[i], long.Points[i]
			if fmt.Sprint(a.Err) != fmt.Sprint(b.Err) {
				t.Fatalf("%s: %v and %v", a.Name, a.Err, b.Err)
			}
			if a.Err == nil {
				x, errX := short.Config(&a)
				y, errY := long.Config(&b)
				if errX != nil || errY != nil || !reflect.DeepEqual(x, y) {
					t.Fatalf("%s: %v, %v\n%+v\n%+v", a.Name, errX, errY, x, y)
				}
				if sum, err := y.SHA256(); err != nil || sum != a.config {
					t.Fatalf("%s: hash %s, want %s, %v", a.Name, a.config, sum, err)
				}
			}
			a.Err, b.Err = nil, nil
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("\n%+v\n%+v", a, b)
			}
		}
	})
}
