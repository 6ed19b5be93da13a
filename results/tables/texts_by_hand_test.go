package tables

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

// TestTextsByHand: changes in percent, levels of a key with their ranges, and bytes too long for an exact text.
func TestTextsByHand(t *testing.T) {
	for v, want := range map[float64]string{0: "0%", 0.125: "+12.50%", -0.5: "-50.00%", math.Inf(1): "from 0", math.Inf(-1): "from 0", 0.00001: "+0.00%"} {
		if got := percentChange(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	for _, c := range []struct {
		l    Level
		want string
	}{{Level{Value: Of(3)}, "3"}, {Level{Value: Of(3), To: Of(7)}, "3..7"}, {Level{Value: Of(1024), To: Of(2048)}, "1024..2048"}} {
		if got := c.l.label("x"); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got := (&Level{Value: Of(1024), To: Of(2048)}).label("x_bytes"); got != "1KiB..2KiB" {
		t.Errorf("got %s", got)
	}
	if got := ForPeople("x_bytes", Of(1234567890123457)); got != "1122.8 TiB" {
		t.Errorf("got %s", got)
	}
	for _, c := range []struct {
		v    any
		kind Kind
	}{{3, Integer}, {uint8(3), Unsigned}, {0.5, Real}, {true, Truth}, {"a", Text}, {[]int{}, Text}} {
		if got := KindOf(reflect.TypeOf(c.v)); got != c.kind {
			t.Errorf("%T is %s, want %s", c.v, got, c.kind)
		}
	}
	for _, c := range []struct {
		v      float64
		digits int
		want   float64
	}{{1234.5, 2, 1200}, {0.0012345, 3, 0.00123}, {-99.96, 3, -100}, {0, 3, 0}, {5e-324, 3, 5e-324}, {1e22, 3, 1e22}} {
		if got := Round(c.v, c.digits); got != c.want {
			t.Errorf("%v to %d digits is %v, want %v", c.v, c.digits, got, c.want)
		}
	}
	table := &Table{Name: "t.csv", Columns: []string{"a"}}
	if _, err := table.parseLimit("--where", "a = 3"); err == nil || !strings.HasPrefix(err.Error(), `--where = "a = 3": expected COLUMN<=NUMBER, or with >=, < or >, such as "tbt_p99_ms <= 100"`) {
		t.Errorf("got %v", err)
	}
	if err := table.tooLarge(7); !strings.HasPrefix(err.Error(), "t.csv:7: expected a table that takes at most ") {
		t.Errorf("got %v", err)
	}
}
