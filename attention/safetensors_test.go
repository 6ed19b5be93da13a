package attention

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// safetensorsFile puts a header before a body.
func safetensorsFile(header string, body int) []byte {
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(data, header...), make([]byte, body)...)
}

func TestParseSafetensorsErrors(t *testing.T) {
	for _, c := range []struct {
		name, header string
		body         int
		want         string
	}{
		{"no object", `[]`, 0, "JSON object"},
		{"truncated", `{"a":`, 0, "EOF"},
		{"two objects", `{}{}`, 0, "2 bytes follow"},
		{"twice", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, "twice"},
		{"dtype", `{"a":{"dtype":"F17","shape":[1],"data_offsets":[0,2]}}`, 2, "unknown dtype"},
		{"size", `{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,2]}}`, 2, "takes 4 bytes"},
		{"negative", `{"a":{"dtype":"F16","shape":[-1],"data_offsets":[0,2]}}`, 2, "shape"},
		{"product overflows", `{"a":{"dtype":"F16","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0, "shape"},
		{"beyond", `{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}`, 2, "within 2 bytes"},
		{"backwards", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[2,1]}}`, 2, "data_offsets"},
		{"hole", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, "hole"},
		{"overlap", `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3, "overlap"},
		{"rest", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2, "file holds 2"},
		{"unknown field", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}`, 1, "unknown field"},
		{"metadata", `{"__metadata__":{"a":1}}`, 0, "__metadata__"},
	} {
		_, err := ParseSafetensors(safetensorsFile(c.header, c.body))
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an input.Error with %q", c.name, err, c.want)
		}
	}
	for _, data := range [][]byte{nil, make([]byte, 7), bytes.Repeat([]byte{255}, 16)} {
		if _, err := ParseSafetensors(data); err == nil {
			t.Errorf("%v: no error", data)
		}
	}
	if _, err := OpenSafetensors("testdata/absent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

// A written file reads back, and a file of PyTorch's writer is written again byte by byte.
func TestSafetensorsRoundTrip(t *testing.T) {
	var tensors []*Tensor
	values := []float64{0, 1, -2, 0.5, 65504, 1e-7}
	for _, dtype := range []string{"F16", "BF16", "F32", "F64"} {
		x, err := NewTensor("x."+dtype, dtype, []int{2, 3}, values)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, x)
	}
	scalar, _ := NewTensor("scalar", "F64", nil, []float64{7})
	tensors = append(tensors, scalar)
	var file bytes.Buffer
	if err := WriteSafetensors(&file, tensors, map[string]string{"by": "l3sim"}); err != nil {
		t.Fatal(err)
	}
	s, err := ParseSafetensors(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if s.metadata["by"] != "l3sim" || len(s.Tensors) != 5 {
		t.Errorf("got %v, %d tensors", s.metadata, len(s.Tensors))
	}
	for _, x := range tensors {
		got := s.Tensor(x.Name)
		if got.DType != x.DType || !bytes.Equal(got.data, x.data) || got.Elements() != x.Elements() {
			t.Errorf("%s differs", x.Name)
		}
	}
	if x, err := s.Tensor("x.F32").Float64s(); err != nil || x[3] != 0.5 || x[2] != -2 {
		t.Errorf("got %v, %v", x, err)
	}
	if _, err := s.Tensor("x.F64").Float32s(); err == nil {
		t.Error("F64 narrows to float32")
	}
	if _, err := s.Tensor("none").Float64s(); err == nil {
		t.Error("an absent tensor has values")
	}
}

// Any text that parses is unchanged by writing and parsing.
func FuzzParseSafetensors(f *testing.F) {
	f.Add(safetensorsFile(`{}`, 0))
	f.Add(safetensorsFile(`{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"__metadata__":{"k":"v"}} `, 4))
	f.Add(safetensorsFile(`{"b":{"dtype":"F64","shape":[],"data_offsets":[4,12]},"a":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]}}`, 12))
	f.Add(safetensorsFile(`{"z":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}}`, 0))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSafetensors(data)
		if err != nil {
			return
		}
		var file bytes.Buffer
		if err := WriteSafetensors(&file, s.Tensors, s.metadata); err != nil {
			t.Fatal(err)
		}
		again, err := ParseSafetensors(file.Bytes())
		if err != nil {
			t.Fatalf("its own output is refused: %v", err)
		}
		if len(again.Tensors) != len(s.Tensors) || len(again.metadata) != len(s.metadata) {
			t.Fatal("tensors are lost")
		}
		for i, x := range s.Tensors {
			y := again.Tensors[i]
			if x.Name != y.Name || x.DType != y.DType || !bytes.Equal(x.data, y.data) || len(x.Shape) != len(y.Shape) ||
				len(x.Shape) > 0 && !reflect.DeepEqual(x.Shape, y.Shape) {
				t.Fatalf("%q differs", x.Name)
			}
		}
	})
}
