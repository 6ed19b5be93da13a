package attention

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTensorTypes: 1.5, -2 and 0.1 in each type of numbers: the bits of IEEE 754, low byte first, and the values read back.
func TestTensorTypes(t *testing.T) {
	for _, c := range []struct {
		dtype string
		bytes []byte
		tenth float64 // nearest to 0.1
	}{
		{"F64", []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f}, 0.1},
		{"F32", []byte{0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0, 0xcd, 0xcc, 0xcc, 0x3d}, 13421773. / (1 << 27)},
		{"F16", []byte{0, 0x3e, 0, 0xc0, 0x66, 0x2e}, 1638. / (1 << 14)},
		{"BF16", []byte{0xc0, 0x3f, 0, 0xc0, 0xcd, 0x3d}, 205. / (1 << 11)},
	} {
		tensor, err := NewTensor("x", c.dtype, []int{3, 1}, []float64{1.5, -2, 0.1})
		if err != nil || !bytes.Equal(tensor.data, c.bytes) {
			t.Errorf("%s: %x, %v, want %x", c.dtype, tensor.data, err, c.bytes)
			continue
		}
		if x, err := tensor.Float64s(); err != nil || !slices.Equal(x, []float64{1.5, -2, c.tenth}) {
			t.Errorf("%s: %v, %v", c.dtype, x, err)
		}
		if x, err := tensor.Float32s(); c.dtype != "F64" && (err != nil || !slices.Equal(x, []float32{1.5, -2, float32(c.tenth)})) {
			t.Errorf("%s: %v, %v", c.dtype, x, err)
		}
	}
	for _, c := range []struct {
		dtype string
		bytes []byte
		want  []int
	}{
		{"U8", []byte{0, 127, 200}, []int{0, 127, 200}},
		{"I16", []byte{1, 2, 0xff, 0xff, 0, 0x80}, []int{513, -1, -32768}},
		{"I32", []byte{1, 2, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0x80}, []int{513, -2, math.MinInt32}},
	} {
		tensor := &Tensor{Name: "x", DType: c.dtype, Shape: []int{3}, data: c.bytes}
		if x, err := tensor.Ints(); err != nil || !slices.Equal(x, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.dtype, x, err, c.want)
		}
	}
}

// TestTensorErrors: invalid tensors, wrong types and wrong shapes, with the error of each.
func TestTensorErrors(t *testing.T) {
	of := func(_ any, err error) error { return err }
	i64, f64 := &Tensor{Name: "i", DType: "I64"}, &Tensor{Name: "f", DType: "F64"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{of((*Tensor)(nil).Float32s()), "no such tensor"}, {of((*Tensor)(nil).Float64s()), "no such tensor"}, {of((*Tensor)(nil).Ints()), "no such tensor"},
		{of(i64.Float32s()), "i = I64: expected F16, BF16 or F32"}, {of(i64.Float64s()), "i = I64: expected F16, BF16 or F32"}, {of(f64.Float32s()), "f = F64: expected F16, BF16 or F32"},
		{of(i64.Ints()), "i = I64: expected U8, I16 or I32"},
		{of(NewTensor("n", "F32", []int{2, 3}, make([]float64, 5))), `tensor "n": shape [2 3] holds 6 elements, got 5`},
		{of(NewTensor("n", "U8", []int{1}, make([]float64, 1))), "n = U8: expected F64, F32, F16 or BF16"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
}

// TestFileOfTensors: a file on disk has the tensors in the order of their names with their shapes and its metadata, and an error names the file.
func TestFileOfTensors(t *testing.T) {
	b, _ := NewTensor("b", "F16", []int{2}, []float64{1, 2})
	a, _ := NewTensor("a", "F32", []int{1, 3}, []float64{3, 4, 5})
	var file bytes.Buffer
	if err := WriteSafetensors(&file, []*Tensor{b, a}, map[string]string{"by": "hand"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := s.Tensor("a").Float64s()
	y, _ := s.Tensor("b").Float64s()
	if len(s.Tensors) != 2 || s.Tensors[0].Name != "a" || s.Metadata("by") != "hand" || s.Metadata("of") != "" || s.Tensor("c") != nil || !slices.Equal(x, []float64{3, 4, 5}) || !slices.Equal(y, []float64{1, 2}) ||
		!slices.Equal(s.Tensor("a").Shape, []int{1, 3}) || s.Tensor("a").Elements() != 3 || file.Len()%8 != (3*4+2*2)%8 {
		t.Errorf("read %+v with %v and %v", s, x, y)
	}
	if s, err = NewSafetensors([]*Tensor{b, a}); err != nil || s.Tensors[0].Name != "a" || s.Tensors[1].Name != "b" {
		t.Errorf("of tensors: %+v, %v", s, err)
	}
	if err := os.WriteFile(path, file.Bytes()[:file.Len()-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSafetensors(path); err == nil || !strings.Contains(err.Error(), "x.safetensors") || !strings.Contains(err.Error(), "data_offsets [12 16], expected [begin, end] within 15 bytes") {
		t.Errorf("a byte too few: %v", err)
	}
}

// TestHeadersByHand: each type with the bytes of its elements, and both sides of the limits of a header.
func TestHeadersByHand(t *testing.T) {
	entry := func(name, dtype, shape string, begin, end int) string {
		return fmt.Sprintf(`{%q:{"dtype":%q,"shape":[%s],"data_offsets":[%d,%d]}}`, name, dtype, shape, begin, end)
	}
	for dtype, size := range map[string]int{"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8} {
		s, err := ParseSafetensors(safetensorsFile(entry("x", dtype, "3", 0, 3*size), 3*size))
		if err != nil || s.Tensor("x").DType != dtype || len(s.Tensor("x").data) != 3*size {
			t.Errorf("%s: %v", dtype, err)
		}
	}
	name := strings.Repeat("n", 1024)
	for _, c := range []struct {
		header string
		body   int
		want   string
	}{
		{`{}`, 0, ""}, {`{} `, 0, ""}, {`{}`, 1, "the arrays take 0 bytes, the file holds 1"},
		{`{"__metadata__":{"a":"b"}}`, 0, ""},
		{entry(name, "U8", "1", 0, 1), 1, ""}, {entry(name+"n", "U8", "1", 0, 1), 1, "safetensors header: a name of 1025 bytes, expected at most 1024"},
		{entry("x", "U8", strings.Repeat("1,", 15)+"1", 0, 1), 1, ""},
		{entry("x", "U8", strings.Repeat("1,", 16)+"1", 0, 1), 1, `tensor "x": 17 dimensions, a dtype of 2 bytes and 2 data_offsets, expected at most 16, 16 and 2`},
		{entry("x", "U8", "", 0, 1), 1, ""}, {entry("x", "U8", "0", 0, 0), 0, ""}, {entry("x", "U8", "0,9223372036854775807,9223372036854775807", 0, 0), 0, ""},
		{entry("x", "U16", "4611686018427387903", 0, 0), 0, `tensor "x": U16[4611686018427387903] takes 9223372036854775806 bytes, data_offsets give 0`},
		{entry("x", "U16", "4611686018427387904", 0, 0), 0, `tensor "x": shape [4611686018427387904]`},
		{entry("x", "U16", "2", 0, 3), 3, `tensor "x": U16[2] takes 4 bytes, data_offsets give 3`},
		{entry("x", "X", "2", 0, 3), 3, `tensor "x": unknown dtype "X"`},
		{entry("x", "U8", "3", -1, 2), 3, `tensor "x": data_offsets [-1 2], expected [begin, end] within 3 bytes`},
		{entry("x", "U8", "0", 2, 1), 3, `tensor "x": data_offsets [2 1], expected [begin, end] within 3 bytes`},
		{entry("x", "U8", "4", 0, 4), 3, `tensor "x": data_offsets [0 4], expected [begin, end] within 3 bytes`},
		{entry("x", "U8", "2", 1, 3), 3, "the arrays leave a hole or overlap at byte 0 of the data"},
		{`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}`, 4, "the arrays leave a hole or overlap at byte 2 of the data"},
		{`{"a":{"dtype":"U8","shape":[3],"data_offsets":[1,4]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 4, "the arrays leave a hole or overlap at byte 1 of the data"},
		{`{"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 4, ""},
		{`{"a":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2, ""},
		{`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":1}`, 1, `safetensors header: "a" appears twice`},
	} {
		got := ""
		if _, err := ParseSafetensors(safetensorsFile(c.header, c.body)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%.60s with %d bytes: %s, want %s", c.header, c.body, got, c.want)
		}
	}
	for _, c := range []struct {
		data []byte
		want string
	}{
		{make([]byte, 7), "not a safetensors file: 7 bytes, the length of its header takes 8"},
		{[]byte{3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, "not a safetensors file: a header of 3 bytes in a file of 10"},
	} {
		if _, err := ParseSafetensors(c.data); err == nil || err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.data, err, c.want)
		}
	}
	whole := string(safetensorsFile(entry("x", "U8", "4", 0, 4), 4))
	if _, err := readSafetensors(strings.NewReader(whole), int64(len(whole))); err != nil {
		t.Errorf("a file of as many bytes as may be: %v", err)
	}
	if _, err := readSafetensors(strings.NewReader(whole), int64(len(whole)-1)); err == nil || err.Error() != fmt.Sprintf("the arrays end at byte 4, expected at most %d bytes in a file", len(whole)-1) {
		t.Errorf("a byte more: %v", err)
	}
}

// TestHalfTable: a few numbers by their bits.
func TestHalfTable(t *testing.T) {
	for bits, want := range map[uint16]float32{0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x0001: 0x1p-24, 0x7bff: 65504, 0x3555: 0x1.554p-2} {
		if got := HalfTable()[bits]; got != want {
			t.Errorf("%#x: %v, want %v", bits, got, want)
		}
	}
}
