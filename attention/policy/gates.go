package policy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// gates is what a file of gates holds: a number from 0 to 1 for each KV head, by layer.
type gates struct {
	layers [][]float64
	lines  []int // of the file, on which layers begin
}

// parseGates reads a line for each layer with a number for each KV head, with spaces, tabs (as DuoAttention's
// full_attention_heads.tsv) or commas between them, or an array of layers in JSON. Empty lines are left out.
func parseGates(name, text string) (*gates, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		return parseGatesJSON(name, text)
	}
	g, line := &gates{}, 0
	for one := range strings.Lines(text) {
		line++
		words := strings.FieldsFunc(one, func(c rune) bool { return strings.ContainsRune(" \t\r\n,", c) })
		if len(words) == 0 {
			continue
		}
		layer := make([]float64, len(words))
		for i, w := range words {
			var err error
			if layer[i], err = parseGate(w); err != nil {
				return nil, input.Edit(err, func(e *input.Error) { e.File, e.Line = name, line })
			}
		}
		g.layers, g.lines = append(g.layers, layer), append(g.lines, line)
	}
	return g, nil
}

// parseGate reads one number. Gates are trained from 1, a head that attends to everything, towards 0, one that streams
// (DuoAttention, section 2.2).
func parseGate(word string) (float64, error) {
	v, err := strconv.ParseFloat(word, 64)
	if err != nil || !(v >= 0 && v <= 1) { // NaN is neither
		return 0, &input.Error{Value: word, Expected: "a gate, a number from 0 to 1"}
	}
	return v, nil
}

// parseGatesJSON reads [layers][KV heads].
func parseGatesJSON(name, text string) (*gates, error) {
	g, j := &gates{}, input.NewJSON(name, strings.NewReader(text))
	for depth := 0; ; {
		token, err := j.Token()
		if err != nil {
			return nil, j.Cut(err)
		}
		bad := &input.Error{File: name, Line: j.Line(), Value: fmt.Sprint(token), Expected: "an array of layers, each an array of numbers, one for each KV head"}
		switch number, isNumber := token.(json.Number); {
		case token == json.Delim('[') && depth < 2:
			if depth++; depth == 2 {
				g.layers, g.lines = append(g.layers, nil), append(g.lines, j.Line())
			}
		case token == json.Delim(']'):
			if depth--; depth == 0 {
				return g, j.End("the array of layers")
			}
		case depth == 2 && isNumber:
			v, err := parseGate(number.String())
			if err != nil {
				return nil, input.Edit(err, func(e *input.Error) { e.File, e.Line = name, j.Line() })
			}
			last := len(g.layers) - 1
			g.layers[last] = append(g.layers[last], v)
		default:
			return nil, bad
		}
	}
}

// fit says whether there is a gate for each KV head of a model. The error is an *input.Error without the file.
func (g *gates) fit(shape Shape) error {
	expected := fmt.Sprintf("%d layers, each of %d numbers, one for each KV head", shape.Layers, shape.KVHeads)
	for i, layer := range g.layers {
		if len(layer) != shape.KVHeads || i == shape.Layers {
			return &input.Error{Line: g.lines[i], Value: fmt.Sprintf("%d numbers in layer %d", len(layer), i), Expected: expected}
		}
	}
	if len(g.layers) != shape.Layers {
		return &input.Error{Value: fmt.Sprintf("%d layers", len(g.layers)), Expected: expected}
	}
	return nil
}
