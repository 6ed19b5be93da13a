package configs_test

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"

	. "github.com/l3sim/l3sim/configs"
)

// drawOverride draws "key=value" for a random key with a value of its type, which is often but not always legal.
func drawOverride(t *rapid.T, c *Config) string {
	k := rapid.SampledFrom(keys.Keys).Draw(t, "key")
	key, old := k.Name, k.Get(c).Interface()
	value := schema.Written(old)
	switch old := old.(type) {
	case int:
		value = schema.Written(rapid.SampledFrom([]int{old, old + 1, 2 * old, 16, 1, 0}).Draw(t, "int"))
	case uint64:
		value = schema.Written(rapid.Int64Min(0).Draw(t, "seed"))
	case bool:
		value = schema.Written(rapid.Bool().Draw(t, "bool"))
	case float64:
		value = schema.Written(old * rapid.Float64Range(0.5, 1).Draw(t, "factor"))
	case units.Bytes:
		value = (old + units.Bytes(rapid.Int64Range(0, 1<<40).Draw(t, "bytes"))).String()
	case units.Duration:
		value = (old + units.Duration(rapid.Int64Range(0, 1000).Draw(t, "ps"))).String()
	case units.Bandwidth:
		value = (old * units.Bandwidth(rapid.Float64Range(0.5, 2).Draw(t, "factor"))).String()
	case units.FLOPRate:
		value = (old * units.FLOPRate(rapid.Float64Range(0.5, 2).Draw(t, "factor"))).String()
	case string:
		if key == "run.trace" {
			value = rapid.StringN(1, 20, -1).Draw(t, "path")
		}
	}
	return key + "=" + value
}

// TestRoundTrip: the output of WriteTOML, loaded alone, gives the same configuration and hash. Rapid draws again for illegal ones.
func TestRoundTrip(t *testing.T) {
	deep.Heavy(t)
	preset, err := Load(Options{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var sets []string
		for range rapid.IntRange(0, 4).Draw(t, "overrides") {
			sets = append(sets, drawOverride(t, preset))
		}
		c, err := Load(Options{Sets: sets})
		if err != nil {
			t.Skip("not legal")
		}
		checkRoundTrip(t, c)
	})
}

// checkRoundTrip writes c and reads it back.
func checkRoundTrip(t interface{ Fatalf(string, ...any) }, c *Config) {
	var text bytes.Buffer
	if err := c.WriteTOML(&text); err != nil {
		t.Fatalf("%v", err)
	}
	back, err := load(text.String(), Options{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text.String())
	}
	if !reflect.DeepEqual(c, back) {
		t.Fatalf("wrote %+v\nread  %+v\n%s", c, back, text.String())
	}
	hash, err := c.SHA256()
	backHash, backErr := back.SHA256()
	if err != nil || backErr != nil || hash != backHash || len(hash) != 64 {
		t.Fatalf("hashes %s (%v) and %s (%v)", hash, err, backHash, backErr)
	}
}
