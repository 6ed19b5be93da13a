package attention

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// NewTensor returns a tensor of F64, F32, F16 or BF16 elements rounded from x. A shape that does not match x, or another type, is an
// input.Error.
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

// WriteSafetensors writes tensors in the order of their names, so that equal content gives equal bytes. Names
// must be unique.
func WriteSafetensors(w io.Writer, tensors []*Tensor, metadata map[string]string) error {
	ordered, header, at := slices.Clone(tensors), map[string]any{}, 0
	slices.SortFunc(ordered, func(a, b *Tensor) int { return strings.Compare(a.Name, b.Name) })
	var body []byte
	for _, t := range ordered {
		header[t.Name] = map[string]any{"dtype": t.DType, "shape": append([]int{}, t.Shape...), "data_offsets": []int{at, at + len(t.data)}}
		at += len(t.data)
		body = append(body, t.data...)
	}
	if len(metadata) > 0 {
		header["__metadata__"] = metadata
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	text = append(text, strings.Repeat(" ", -len(text)&7)...)
	_, err = w.Write(slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, body))
	return err
}

// NewSafetensors returns a file's content with these tensors, whose names must differ.
func NewSafetensors(tensors []*Tensor) (*Safetensors, error) {
	var file bytes.Buffer
	if err := WriteSafetensors(&file, tensors, nil); err != nil {
		return nil, err
	}
	return ParseSafetensors(file.Bytes())
}
