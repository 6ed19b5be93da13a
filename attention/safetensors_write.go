package attention

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"slices"

	"github.com/l3sim/l3sim/input"
)

// NewTensor returns a tensor of F64, F32, F16 or BF16 elements rounded from x.
// A shape that does not hold them, or another type, is an input.Error.
func NewTensor(name, dtype string, shape []int, x []float64) (*Tensor, error) {
	t := &Tensor{Name: name, DType: dtype, Shape: slices.Clone(shape)}
	if t.Elements() != len(x) {
		return nil, input.Errorf("tensor %q: shape %v holds %d elements, got %d", name, shape, t.Elements(), len(x))
	}
	for _, v := range x {
		switch dtype {
		case "F64":
			t.data = binary.LittleEndian.AppendUint64(t.data, math.Float64bits(v))
		case "F32":
			t.data = binary.LittleEndian.AppendUint32(t.data, math.Float32bits(float32(v)))
		case "F16":
			t.data = binary.LittleEndian.AppendUint16(t.data, Float32ToHalf(float32(v)))
		case "BF16":
			t.data = binary.LittleEndian.AppendUint16(t.data, Float32ToBFloat16(float32(v)))
		default:
			return nil, &input.Error{Key: name, Value: dtype, Expected: "F64, F32, F16 or BF16"}
		}
	}
	return t, nil
}

// WriteSafetensors writes tensors in the order that the format's own writer
// uses (widest elements first, then by name), so that equal content gives equal
// bytes. Names must be unique.
func WriteSafetensors(w io.Writer, tensors []*Tensor, metadata map[string]string) error {
	ordered := slices.Clone(tensors)
	slices.SortStableFunc(ordered, func(a, b *Tensor) int {
		if x, y := dtypeBytes[a.DType], dtypeBytes[b.DType]; x != y {
			return y - x
		}
		return bytes.Compare([]byte(a.Name), []byte(b.Name))
	})
	var header bytes.Buffer
	header.WriteByte('{')
	field := func(name string, value any) error {
		if header.Len() > 1 {
			header.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		text, err := json.Marshal(value)
		header.Write(key)
		header.WriteByte(':')
		header.Write(text)
		return err
	}
	if len(metadata) > 0 {
		if err := field("__metadata__", metadata); err != nil {
			return err
		}
	}
	at := 0
	for _, t := range ordered {
		if err := field(t.Name, struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{t.DType, append([]int{}, t.Shape...), [2]int{at, at + len(t.data)}}); err != nil {
			return err
		}
		at += len(t.data)
	}
	header.WriteByte('}')
	for header.Len()%8 != 0 {
		header.WriteByte(' ')
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(header.Len())); err != nil {
		return err
	}
	if _, err := w.Write(header.Bytes()); err != nil {
		return err
	}
	for _, t := range ordered {
		if _, err := w.Write(t.data); err != nil {
			return err
		}
	}
	return nil
}

// NewSafetensors returns the content of a file of these tensors, whose names
// must differ.
func NewSafetensors(tensors []*Tensor) (*Safetensors, error) {
	var file bytes.Buffer
	if err := WriteSafetensors(&file, tensors, nil); err != nil {
		return nil, err
	}
	return ParseSafetensors(file.Bytes())
}
