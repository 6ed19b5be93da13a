package policy

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// streamingHeads returns, by layer, which KV heads attend to sink and window alone: Round(share ·
// all heads) of them. Without gates they are the last heads of each layer, spread evenly over
// the layers. With gates [layers][KV heads] they are the heads with the lowest gates of all
// layers, so layers differ; of equal ones the later.
func streamingHeads(shape Shape, share float64, gates [][]float64) [][]bool {
	all := shape.Layers * shape.KVHeads
	n := int(math.Round(share * float64(all)))
	heads := make([][]bool, shape.Layers)
	for l := range heads {
		heads[l] = make([]bool, shape.KVHeads)
		if gates == nil {
			for h := shape.KVHeads - (n*(l+1)/shape.Layers - n*l/shape.Layers); h < shape.KVHeads; h++ {
				heads[l][h] = true
			}
		}
	}
	if gates == nil {
		return heads
	}
	order := make([]int, all)
	for i := range order {
		order[i] = all - 1 - i
	}
	gate := func(i int) float64 { return gates[i/shape.KVHeads][i%shape.KVHeads] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(gate(a), gate(b)) })
	for _, i := range order[:n] {
		heads[i/shape.KVHeads][i%shape.KVHeads] = true
	}
	return heads
}

// streamingHeads returns streamingHeads of a section with own values, whose file of gates it
// reads. What is wrong with the file is an *input.Error.
func (s *Spec) streamingHeads(shape Shape) ([][]bool, error) {
	if s.Gates == "" {
		return streamingHeads(shape, s.StaticSparsity, nil), nil
	}
	text, err := input.ReadFile(s.Gates)
	if err != nil {
		return nil, err
	}
	gates, err := parseGates(shape, text)
	if err != nil {
		return nil, input.Edit(err, func(e *input.Error) { e.File = input.Name(s.Gates) })
	}
	return streamingHeads(shape, s.StaticSparsity, gates), nil
}

// parseGates reads a line for each layer with a number for each KV head, with spaces, tabs (as DuoAttention's
// full_attention_heads.tsv) or commas between them, or an array of layers in JSON. Empty lines are left out.
func parseGates(shape Shape, text []byte) ([][]float64, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		return parseGatesJSON(shape, text)
	}
	var gates [][]float64
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for line := 1; lines.Scan(); line++ {
		words := strings.FieldsFunc(lines.Text(), func(c rune) bool { return strings.ContainsRune(" \t\r,", c) })
		if len(words) == 0 {
			continue
		}
		if len(words) != shape.KVHeads || len(gates) == shape.Layers {
			return nil, &input.Error{Line: line, Value: fmt.Sprintf("%d numbers", len(words)), Expected: fmt.Sprintf(
				"%d lines, one for each layer, of %d numbers, one for each KV head", shape.Layers, shape.KVHeads)}
		}
		layer := make([]float64, len(words))
		for i, w := range words {
			v, err := strconv.ParseFloat(w, 64)
			if err != nil || math.IsNaN(v) {
				return nil, &input.Error{Line: line, Value: w, Expected: "a number"}
			}
			layer[i] = v
		}
		gates = append(gates, layer)
	}
	if len(gates) != shape.Layers {
		return nil, &input.Error{Value: fmt.Sprintf("%d lines", len(gates)), Expected: fmt.Sprintf("%d, one for each layer", shape.Layers)}
	}
	return gates, nil
}

// parseGatesJSON reads [layers][KV heads].
func parseGatesJSON(shape Shape, text []byte) ([][]float64, error) {
	expected := fmt.Sprintf("an array of %d layers, each an array of %d numbers, one for each KV head", shape.Layers, shape.KVHeads)
	var gates [][]float64
	if err := json.Unmarshal(text, &gates); err != nil {
		return nil, &input.Error{Value: err.Error(), Expected: expected}
	}
	if len(gates) != shape.Layers {
		return nil, &input.Error{Value: fmt.Sprintf("%d layers", len(gates)), Expected: expected}
	}
	for l := range gates {
		if len(gates[l]) != shape.KVHeads {
			return nil, &input.Error{Key: fmt.Sprintf("[%d]", l), Value: fmt.Sprintf("%d numbers", len(gates[l])), Expected: expected}
		}
	}
	return gates, nil
}
