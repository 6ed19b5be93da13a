package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// TestStreamingHeads: a share of all heads, spread evenly, or the heads with the lowest gates.
func TestStreamingHeads(t *testing.T) {
	count := func(heads [][]bool) (n []int) {
		for _, l := range heads {
			c := 0
			for _, h := range l {
				if h {
					c++
				}
			}
			n = append(n, c)
		}
		return n
	}
	shape := Shape{Layers: 3, KVHeads: 4}
	for _, c := range []struct {
		share float64
		want  [3]int
	}{{0, [3]int{}}, {0.5, [3]int{2, 2, 2}}, {0.4, [3]int{1, 2, 2}}, {1, [3]int{4, 4, 4}}} {
		heads := streamingHeads(shape, c.share, nil)
		if got := count(heads); [3]int(got) != c.want {
			t.Errorf("share %v: %v streaming heads, want %v", c.share, got, c.want)
		}
		if c.share == 0.5 && (heads[0][1] || !heads[0][2]) {
			t.Errorf("not the last heads: %v", heads)
		}
	}
	heads := streamingHeads(shape, 0.5, [][]float64{{.1, .2, .3, .4}, {.5, .5, .5, .5}, {.9, .9, .9, .0}})
	if got := count(heads); [3]int(got) != [3]int{4, 1, 1} || !heads[1][3] || !heads[2][3] {
		t.Errorf("by gates: %v", heads)
	}
}

// FuzzGates: a file of gates gives numbers from 0 to 1, or an error that names the file and a line.
func FuzzGates(f *testing.F) {
	f.Add("0.5 1 0\n\n1\t0.25\n")
	f.Add("[[0.5, 1e-3],\r\n [0x1p-1, NaN]]")
	f.Add("-0,inf")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := parseGates("g.tsv", text)
		if err != nil {
			var bad *input.Error
			if !errors.As(err, &bad) || bad.File != "g.tsv" || bad.Line < 1 || bad.Line > 1+strings.Count(text, "\n") {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if len(g.layers) != len(g.lines) {
			t.Fatalf("%d layers on %d lines", len(g.layers), len(g.lines))
		}
		for i, layer := range g.layers {
			for _, v := range layer {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("a gate of %v on line %d", v, g.lines[i])
				}
			}
		}
		_ = g.fit(Shape{Layers: 2, KVHeads: 3})
	})
}
