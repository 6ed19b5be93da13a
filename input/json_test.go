package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestJSON reads parts of a text, skips some, and knows the line of each.
func TestJSON(t *testing.T) {
	const text = "[1.50,\n{\"a\": [1, {\"b\": 2}]}\n,\n\"x\",\n5, \n\n null\n]\n"
	for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		j := NewJSON("f", r)
		var got []string
		token := func() {
			v, err := j.Token()
			got = append(got, fmt.Sprintf("%d:%v:%v", j.Line(), v, err))
		}
		token()
		token()
		if err := j.Skip(); err != nil || j.Line() != 2 {
			t.Errorf("line %d, %v", j.Line(), err)
		}
		var number int
		err := j.Decode(&number)
		if wrong := new(json.UnmarshalTypeError); !errors.As(err, &wrong) || err.Error() != "f:4: "+wrong.Error() {
			t.Errorf("got %v", err)
		}
		if err := j.Decode(&number); err != nil || number != 5 || j.Line() != 5 || !j.More() {
			t.Errorf("%d, line %d, %v", number, j.Line(), err)
		}
		token()
		if j.More() {
			t.Error("more behind the last")
		}
		token()
		token()
		if want := "[1:[:<nil> 1:1.50:<nil> 7:<nil>:<nil> 8:]:<nil> 8:<nil>:EOF]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

func TestJSONErrors(t *testing.T) {
	deep.Heavy(t)
	read := func(text string, r io.Reader) error {
		j := NewJSON("f", io.MultiReader(strings.NewReader(text), r))
		for {
			if _, err := j.Token(); err != nil {
				return j.Cut(err)
			}
		}
	}
	const again = "; expected a whole file: copy or fetch it again"
	for text, want := range map[string]string{
		"[1,\n2": "f:2: the file ends within a value" + again, "[1,\n": "f:1: the file ends within a value" + again, "[\n\"a": "f:2: the file ends within a value" + again,
		"1\n\n 2\n\n{\"a\": \"b\n\"}\n": "f:5: not JSON: invalid character '\\n' in string literal", "[1\n2]": "f:2: not JSON: invalid character '2' after array element",
	} {
		if err := read(text, strings.NewReader("")); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if err := read("[1,\n2,", iotest.ErrReader(errors.New("read on"))); err == nil || err.Error() != "f:2: read on" {
		t.Errorf("got %v", err)
	}
	// A text without end, in one value and in many, which is no error.
	if err := read("[\"", &repeated{'x', 1 << 40}); !errors.Is(err, ErrLongLine) {
		t.Errorf("got %v", err)
	}
	j := NewJSON("f", io.MultiReader(strings.NewReader("["), io.LimitReader(&repeated{'[', 1 << 40}, 9000), &repeated{'\n', 1 << 40}))
	if err := j.Skip(); !errors.Is(err, ErrLongLine) {
		t.Errorf("got %v", err)
	}
	j = NewJSON("f", strings.NewReader("["+strings.Repeat("\"xxxxxxxxxxxxxxxxxxxxxxx\", ", 700_000)+"1]"))
	if err := j.Skip(); err != nil {
		t.Errorf("got %v of many values", err)
	}
}
