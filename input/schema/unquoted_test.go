package schema

import (
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// level is a quantity that a bare number is a text of.
type level string

func (l *level) UnmarshalText(text []byte) error {
	*l = level(text)
	return nil
}

// TestUnquoted: for a number in place of a quantity, the error shows the quoted text; for other text, it says that it is no
// quantity.
func TestUnquoted(t *testing.T) {
	for value, want := range map[any]string{
		int64(30000): `30000: expected a string: "30000"`,
		0.5:          `0.5: expected a string: "0.5"`,
	} {
		if _, err := Convert(reflect.TypeFor[level](), value); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", value, err, want)
		}
	}
	if got, err := Convert(reflect.TypeFor[level](), "30000"); err != nil || got.String() != "30000" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Convert(reflect.TypeFor[units.Bytes](), int64(7)); err == nil || err.Error() == `7: expected a string: "7"` {
		t.Errorf("got %v", err)
	}
}
