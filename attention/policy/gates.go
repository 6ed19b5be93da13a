package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// gates is the contents of a file of gates: a number for each KV head, by layer. Training starts gates at 1, a head that attends to
// everything, and moves them towards 0, a streaming head (DuoAttention, section 2.2).
type gates struct {
	layers [][]float64
	lines  []int // lines of the file on which layers begin
}

// parseGates reads a line for each layer, with a number for each KV head. Numbers are separated by spaces, tabs (as in DuoAttention's
// full_attention_heads.tsv) or commas; brackets, as in JSON arrays, are ignored. Empty lines are skipped.
func parseGates(name, text string) (*gates, error) {
	g, line := &gates{}, 0
	for one := range strings.Lines(text) {
		line++
		words := strings.FieldsFunc(one, func(c rune) bool { return strings.ContainsRune(" \t\r\n,[]", c) })
		if len(words) == 0 {
			continue
		}
		layer := make([]float64, len(words))
		for i, w := range words {
			v, err := strconv.ParseFloat(w, 64)
			if err != nil || !(v >= 0 && v <= 1) { // also refuses NaN
				return nil, &input.Error{File: name, Line: line, Value: w, Expected: "a gate, a number from 0 to 1"}
			}
			layer[i] = v
		}
		g.layers, g.lines = append(g.layers, layer), append(g.lines, line)
	}
	return g, nil
}

// fit checks that there is a gate for each KV head of a model. The error is an *input.Error without the file.
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

// Streaming returns, by layer, which KV heads attend only to sink and window, for keys that embed HeadsSpec: the share static_sparsity of
// the heads with the lowest gates in the file policy.gates.
func (u *Use) Streaming() [][]bool {
	return streamingHeads(u.Shape, u.Keys.(splitsHeads).HeadKeys().StaticSparsity, u.gates)
}

// streamingHeads returns, by layer, which KV heads attend only to sink and window: Round(share · all heads) of them. Without gates they are
// the last heads of each layer, spread evenly over the layers. With gates [layers][KV heads] they are the heads with the lowest gates over
// all layers, so layers differ; ties go to the later head.
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
