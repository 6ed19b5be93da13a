package attention

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// endless is a stream that begins with text and never ends; it counts what is
// read of it.
type endless struct {
	text string
	read int64
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text)
	e.text = e.text[n:]
	if n == 0 {
		clear(p)
		n = len(p)
	}
	e.read += int64(n)
	return n, nil
}

// A stream is read as far as its header says and no further, and the error stays short whatever the
// text.
func TestReadSafetensorsIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, header, want string
	}{
		{"zeros", "", "JSON object"},
		{"goes on", `{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, "the arrays take 4 bytes, the file holds 5"},
		{"too large", `{"a":{"dtype":"U8","shape":[1048577],"data_offsets":[0,1048577]}}`, "the arrays end at byte 1048577, expected at most"},
		{"name", `{"` + long + `":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, "a name of 1048576 bytes, expected at most 1024"},
		{"dtype", `{"a":{"dtype":"` + long + `","shape":[1],"data_offsets":[0,1]}}`, "a dtype of 1048576 bytes"},
		{"shape", `{"a":{"dtype":"U8","shape":[` + strings.Repeat("1,", 1<<18) + `1],"data_offsets":[0,1]}}`, "262145 dimensions"},
		{"shape of 17", `{"a":{"dtype":"U8","shape":[` + strings.Repeat("1,", 16) + `1],"data_offsets":[0,1]}}`, "17 dimensions"},
		{"number", `{"a":{"dtype":"U8","shape":[` + strings.Repeat("1", 1<<20) + `],"data_offsets":[0,1]}}`, "cannot unmarshal number"},
		{"key", `{"a":{"` + long + `":1,"shape":[1],"data_offsets":[0,1]}}`, "unknown field"},
		{"offsets", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,` + strings.Repeat("1,", 1<<18) + `1]}}`, "262146 data_offsets"},
	} {
		header := binary.LittleEndian.AppendUint64(nil, uint64(len(c.header)))
		e := &endless{text: string(header) + c.header}
		_, err := readSafetensors(e, 1<<20+int64(8+len(c.header)))
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 400 {
			t.Errorf("%s: %d bytes of message, want %q: %.200v", c.name, len(fmt.Sprint(err)), c.want, err)
		}
		if limit := int64(2<<20 + 2*len(c.header)); e.read > limit {
			t.Errorf("%s: %d bytes read, want at most %d", c.name, e.read, limit)
		}
	}
	// A header without an end.
	e := &endless{text: "\x00\x00\x00\x00\x01\x00\x00\x00"}
	if _, err := readSafetensors(e, maxFile); err == nil || e.read > 1<<10 {
		t.Errorf("a header of 4 GiB: %v, %d bytes read", err, e.read)
	}
}

// A short file is an error, and a failing reader's own error is passed on.
func TestReadSafetensorsEndsEarly(t *testing.T) {
	whole := string(safetensorsFile(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4))
	if s, err := readSafetensors(strings.NewReader(whole), maxFile); err != nil || len(s.Tensor("a").data) != 4 {
		t.Fatalf("whole: %v", err)
	}
	failed := errors.New("failed")
	for n := range len(whole) {
		if _, err := readSafetensors(strings.NewReader(whole[:n]), maxFile); err == nil {
			t.Errorf("%d of %d bytes: no error", n, len(whole))
		}
		r := io.MultiReader(strings.NewReader(whole[:n]), readError{failed})
		if _, err := readSafetensors(r, maxFile); !errors.Is(err, failed) {
			t.Errorf("a reader that fails after %d bytes: %v", n, err)
		}
	}
}

type readError struct{ err error }

func (r readError) Read([]byte) (int, error) { return 0, r.err }
