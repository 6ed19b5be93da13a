package attention

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Bounds on a safetensors file. maxHeader is that of the format's reference implementation.
const (
	maxHeader = 100_000_000 // bytes
	maxFile   = 4 << 30     // bytes: the file is held in memory
	maxName   = 1024        // bytes of a tensor's name, so that errors stay short
	maxShape  = 16          // dimensions of a tensor
)

// dtypeBytes are the element sizes of the format's types.
var dtypeBytes = map[string]int{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
	"U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}

// Tensor is one array of a safetensors file: row-major, little-endian.
type Tensor struct {
	Name  string
	DType string // "F16", "BF16", "F32", "F64", "U8", …
	Shape []int
	data  []byte
}

// Elements returns the product of the shape.
func (t *Tensor) Elements() int {
	n := 1
	for _, s := range t.Shape {
		n *= s
	}
	return n
}

// Float64s returns the elements of an F16, BF16, F32 or F64 tensor; another
// type, or a nil tensor, is an input.Error.
func (t *Tensor) Float64s() ([]float64, error) {
	if t != nil && t.DType == "F64" {
		x := make([]float64, len(t.data)/8)
		for i := range x {
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.data[8*i:]))
		}
		return x, nil
	}
	narrow, err := t.Float32s()
	if err != nil {
		return nil, err
	}
	x := make([]float64, len(narrow))
	for i, v := range narrow {
		x[i] = float64(v)
	}
	return x, nil
}

// Float32s returns the elements of an F16, BF16 or F32 tensor, exactly;
// another type, or a nil tensor, is an input.Error.
func (t *Tensor) Float32s() ([]float32, error) {
	if t == nil {
		return nil, input.Errorf("no such tensor")
	}
	x := make([]float32, t.Elements())
	switch t.DType {
	case "F16":
		for i := range x {
			x[i] = widen[binary.LittleEndian.Uint16(t.data[2*i:])]
		}
	case "BF16":
		for i := range x {
			x[i] = BFloat16ToFloat32(binary.LittleEndian.Uint16(t.data[2*i:]))
		}
	case "F32":
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.data[4*i:]))
		}
	default:
		return nil, &input.Error{Key: t.Name, Value: t.DType, Expected: "F16, BF16 or F32"}
	}
	return x, nil
}

// Ints returns the elements of a U8, I16 or I32 tensor; another type, or a nil tensor, is an
// input.Error.
func (t *Tensor) Ints() ([]int, error) {
	if t == nil {
		return nil, input.Errorf("no such tensor")
	}
	read := map[string]func(i int) int{
		"U8":  func(i int) int { return int(t.data[i]) },
		"I16": func(i int) int { return int(int16(binary.LittleEndian.Uint16(t.data[2*i:]))) },
		"I32": func(i int) int { return int(int32(binary.LittleEndian.Uint32(t.data[4*i:]))) },
	}[t.DType]
	if read == nil {
		return nil, &input.Error{Key: t.Name, Value: t.DType, Expected: "U8, I16 or I32"}
	}
	x := make([]int, t.Elements())
	for i := range x {
		x[i] = read(i)
	}
	return x, nil
}

// Safetensors is a file of named arrays
// (https://github.com/huggingface/safetensors#format).
type Safetensors struct {
	metadata map[string]string
	Tensors  []*Tensor // sorted by name

	byName map[string]*Tensor
}

// Metadata returns the value of a key in the file's metadata, or "".
func (s *Safetensors) Metadata(key string) string { return s.metadata[key] }

// Tensor returns the named array, or nil.
func (s *Safetensors) Tensor(name string) *Tensor { return s.byName[name] }

// OpenSafetensors reads a file of at most 4 GiB. A faulty file is an input.Error.
func OpenSafetensors(path string) (*Safetensors, error) {
	f, err := input.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := readSafetensors(f, maxFile)
	if err != nil {
		return nil, input.FileError(path, err)
	}
	return s, nil
}

// readSafetensors reads a stream of at most limit bytes. It reads only as far as the header indicates, since the stream may have no end.
func readSafetensors(r io.Reader, limit int64) (*Safetensors, error) {
	var data bytes.Buffer
	size := int64(8)
	for range 2 { // first up to the header's length, then up to the header's end
		if _, err := data.ReadFrom(io.LimitReader(r, size)); err != nil {
			return nil, err
		}
		if data.Len() < 8 {
			break
		}
		size = int64(min(binary.LittleEndian.Uint64(data.Bytes()), maxHeader+1))
		if size > maxHeader {
			break
		}
	}
	header := data.Len()
	if size <= maxHeader && int64(header) == 8+size {
		end, err := bodyBytes(data.Bytes()[8:])
		if err != nil {
			return nil, err
		}
		if end > limit-int64(header) {
			return nil, input.Errorf("the arrays end at byte %d, expected at most %d bytes in a file", end, limit)
		}
		// One more byte shows whether the file continues.
		if _, err := data.ReadFrom(io.LimitReader(r, end+1)); err != nil {
			return nil, err
		}
	}
	return ParseSafetensors(data.Bytes())
}

// bodyBytes returns the end of the last array in a header, at least 0.
func bodyBytes(header []byte) (int64, error) {
	entries, err := headerEntries(header)
	if err != nil {
		return 0, input.Errorf("safetensors header: %w", err)
	}
	end := int64(0)
	for _, e := range entries {
		var h struct {
			Offsets []int64 `json:"data_offsets"`
		}
		if e.name != "__metadata__" && json.Unmarshal(e.value, &h) == nil && len(h.Offsets) == 2 {
			end = max(end, h.Offsets[1]) // ParseSafetensors reports other faults
		}
	}
	return end, nil
}

// ParseSafetensors parses a file's bytes; the tensors' Data alias them. The file must follow the format exactly: the arrays fill it without
// gaps or overlap, and names are unique.
func ParseSafetensors(data []byte) (*Safetensors, error) {
	if len(data) < 8 {
		return nil, input.Errorf("not a safetensors file: %d bytes, the length of its header takes 8", len(data))
	}
	size := binary.LittleEndian.Uint64(data)
	if size > maxHeader || size > uint64(len(data)-8) {
		return nil, input.Errorf("not a safetensors file: a header of %d bytes in a file of %d", size, len(data))
	}
	header, body := data[8:8+size], data[8+size:]
	entries, err := headerEntries(header)
	if err != nil {
		return nil, input.Errorf("safetensors header: %w", err)
	}
	s := &Safetensors{byName: make(map[string]*Tensor)}
	spans := make([]span, 0, len(entries))
	for _, e := range entries {
		if e.name == "__metadata__" {
			if err := json.Unmarshal(e.value, &s.metadata); err != nil {
				return nil, input.Errorf("safetensors header: __metadata__: %w", err)
			}
			continue
		}
		t, begin, err := readEntry(e, body)
		if err != nil {
			return nil, input.Errorf("tensor %q: %w", e.name, err)
		}
		s.Tensors = append(s.Tensors, t)
		s.byName[t.Name] = t
		spans = append(spans, span{begin, begin + len(t.data)})
	}
	slices.SortFunc(s.Tensors, func(a, b *Tensor) int { return strings.Compare(a.Name, b.Name) })
	if err := fill(spans, len(body)); err != nil {
		return nil, err
	}
	return s, nil
}

type span struct{ begin, end int } // range of bytes of one array within the body

func fill(spans []span, size int) error {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.begin-b.begin, a.end-b.end) })
	at := 0
	for _, s := range spans {
		if s.begin != at {
			return input.Errorf("the arrays leave a hole or overlap at byte %d of the data", min(at, s.begin))
		}
		at = s.end
	}
	if at != size {
		return input.Errorf("the arrays take %d bytes, the file holds %d", at, size)
	}
	return nil
}

// headerEntry is one key of the header with its value.
type headerEntry struct {
	name  string
	value json.RawMessage
}

// headerEntries splits the header's object. With encoding/json, the last of two equal names would win.
func headerEntries(header []byte) ([]headerEntry, error) {
	decoder := json.NewDecoder(bytes.NewReader(header))
	if t, err := decoder.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("expected a JSON object")
	}
	var entries []headerEntry
	seen := make(map[string]bool)
	for decoder.More() {
		t, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		e := headerEntry{name: t.(string)} // the decoder rejects keys that are not strings
		if len(e.name) > maxName {
			return nil, fmt.Errorf("a name of %d bytes, expected at most %d", len(e.name), maxName)
		}
		if seen[e.name] {
			return nil, fmt.Errorf("%q appears twice", e.name)
		}
		seen[e.name] = true
		if err := decoder.Decode(&e.value); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if rest := bytes.Trim(header[decoder.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes follow the object", len(rest))
	}
	return entries, nil
}

// readEntry returns one array and its offset in body.
func readEntry(e headerEntry, body []byte) (*Tensor, int, error) {
	var h struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets []int  `json:"data_offsets"`
	}
	decoder := json.NewDecoder(bytes.NewReader(e.value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&h); err != nil {
		if text := err.Error(); len(text) > maxName { // it quotes numbers and names
			return nil, 0, fmt.Errorf("%s…", text[:100])
		}
		return nil, 0, err
	}
	if len(h.Shape) > maxShape || len(h.DType) > maxShape || len(h.Offsets) > maxShape {
		return nil, 0, fmt.Errorf("%d dimensions, a dtype of %d bytes and %d data_offsets, expected at most %d, %d and 2",
			len(h.Shape), len(h.DType), len(h.Offsets), maxShape, maxShape)
	}
	size, ok := dtypeBytes[h.DType]
	if !ok {
		return nil, 0, fmt.Errorf("unknown dtype %q", h.DType)
	}
	if len(h.Offsets) != 2 || h.Offsets[0] < 0 || h.Offsets[1] < h.Offsets[0] || h.Offsets[1] > len(body) {
		return nil, 0, fmt.Errorf("data_offsets %v, expected [begin, end] within %d bytes", h.Offsets, len(body))
	}
	n := size
	for _, s := range h.Shape {
		if s < 0 || s > 0 && n > math.MaxInt/s {
			return nil, 0, fmt.Errorf("shape %v", h.Shape)
		}
		n *= s
	}
	if begin, end := h.Offsets[0], h.Offsets[1]; n != end-begin {
		return nil, 0, fmt.Errorf("%s%v takes %d bytes, data_offsets give %d", h.DType, h.Shape, n, end-begin)
	}
	data := body[h.Offsets[0]:h.Offsets[1]:h.Offsets[1]]
	return &Tensor{Name: e.name, DType: h.DType, Shape: h.Shape, data: data}, h.Offsets[0], nil
}
