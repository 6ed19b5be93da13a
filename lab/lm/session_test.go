package lm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// generate returns the text that a node decodes after prompts, and the last logits of the first.
func generate(t *testing.T, m *Model, on *Node, tokens int, prompts ...[]byte) ([][]byte, []float32) {
	t.Helper()
	texts, samplers := make([][]byte, len(prompts)), make([]*Sampler, len(prompts))
	for i := range samplers {
		samplers[i] = NewSampler(0.7, 3, i)
	}
	s, err := Generate(t.Context(), m, on, prompts, tokens, samplers, func(i int, token byte) error {
		texts[i] = append(texts[i], token)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts, s.lanes[0].logits
}

// TestSideBySide: the number of workers, cached decoded bytes, rotation and channels change no bit, and a
// sequence does not depend on the others.
func TestSideBySide(t *testing.T) {
	deep.Heavy(t)
	text := SampleText()
	prompts := [][]byte{text[:514], text[100:140], text[700:701], text[3000:3021], text[40:57]}
	one := builtin(t, 1)
	if quick() {
		prompts[0] = text[510:540]
	}
	for _, precision := range []string{"fp32", "paper"}[:deep.Of(1, 2, 2)] {
		set := "pim.precision.preset=" + precision
		want, logits := generate(t, one, desk(t, set), 4, prompts...)
		for i, c := range []struct {
			name string
			m    *Model
			on   *Node
		}{
			{"three workers", builtin(t, 3), desk(t, set)},
			{"decoded at each read", one, &Node{Config: desk(t, set).Config, Exact: true}},
			{"two channels", one, desk(t, set, "node.channels=2")},
			{"no rotation", one, desk(t, set, "comm.rotation=false", "node.ranksets=3")},
			{"one rankset", one, desk(t, set, "node.ranksets=1")},
		} {
			if i > 1 && precision == "paper" && !deep.Long() {
				break // placement does not depend on formats
			}
			if i > 0 && testing.Short() {
				break // under the race detector only workers matter
			}
			got, bits := generate(t, c.m, c.on, 4, prompts...)
			if fmt.Sprint(got) != fmt.Sprint(want) || !slices.Equal(bits, logits) {
				t.Errorf("%s, %s: got %q, want %q", precision, c.name, got, want)
			}
		}
		alone, bits := generate(t, one, desk(t, set), 4, prompts[0])
		if string(alone[0]) != string(want[0]) || !slices.Equal(bits, logits) {
			t.Errorf("%s: alone %q, with others %q", precision, alone[0], want[0])
		}
	}
}

// TestPlants: each mistake on the path of keys, values and results changes predictions.
func TestPlants(t *testing.T) {
	deep.Turn(t, 1, 4)
	m := builtin(t, 2)
	text := SampleText()[20_000:] // the beginning is a licence that it recites despite any mistake
	mean := func(on *Node) float64 {
		e, err := Evaluate(t.Context(), m, on, text, 40, 160, nil)
		if err != nil {
			t.Fatal(on.Plant, err)
		}
		return e.Mean()
	}
	right := mean(desk(t, fp32))
	for _, plant := range Plants()[:deep.Of(3, len(Plants()), len(Plants()))] {
		on := desk(t, fp32)
		on.Plant = Plant(plant)
		got := mean(on)
		t.Logf("%s: %.4f nats, %.4f without", plant, got, right)
		if !(math.Abs(got-right) > 0.01) {
			t.Errorf("%s changes %.5f nats to %.5f", plant, right, got)
		}
	}
}

// TestPlaces: layers rotate over the ranksets, heads spread over the channels, and no two heads
// share a row.
func TestPlaces(t *testing.T) {
	deep.Heavy(t)
	m := builtin(t, 1)
	lengths := []int{513, 1, 2000}
	d, err := newDIMMs(m, desk(t, "node.channels=2"), newHost(m, lengths, true), m.headShape(nil), lengths)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for sequence, places := range d.places {
		for i, p := range places {
			layer, head := i/m.Heads, i%m.Heads
			if p.rankset != (layer+sequence)%4 || p.channel != head/2 {
				t.Errorf("sequence %d, layer %d, head %d: %+v", sequence, layer, head, p)
			}
			for row := range int32(2 * ((lengths[sequence] + 511) / 512)) {
				at := fmt.Sprint(p.channel, p.rankset, p.firstRow+row)
				if taken[at] {
					t.Errorf("row %s is two heads'", at)
				}
				taken[at] = true
			}
		}
	}
}

// TestRefused: an error names what does not fit.
func TestRefused(t *testing.T) {
	m := builtin(t, 1)
	for _, c := range []struct {
		limits []int
		on     *Node
		want   string
	}{
		{[]int{5, 8193}, nil, "sequence 2 = 8193 tokens: expected 1 to 8192"},
		{[]int{8192}, desk(t, "node.memory_capacity=4MiB"), "node.memory_capacity"},
	} {
		_, err := NewSession(m, c.on, c.limits)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	w, err := readSmall(small(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSession(NewModel(w, 1), desk(t, "node.channels=4"), []int{9}); err == nil || !strings.Contains(err.Error(), "node.channels = 4") {
		t.Errorf("two heads on four channels: %v", err)
	}
}

// TestTraffic counts bytes of two texts by hand: 6 layers of 4 heads of 256 bytes a vector.
func TestTraffic(t *testing.T) {
	m := builtin(t, 1)
	s, err := Generate(t.Context(), m, desk(t, fp32), [][]byte{SampleText()[:10], SampleText()[10:20]}, 6, []*Sampler{NewSampler(0, 1, 0), NewSampler(0, 1, 0)},
		func(int, byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	const heads, vector = 2 * 24, 256
	want := Traffic{PCIeDown: heads * vector * (10*2 + 5*3), PCIeUp: heads * vector * 5, Channel: heads * (vector*(10*2+5*4) + 5*64)}
	if got := s.Traffic(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var w Work
	if err := MeasureSteps(t.Context(), m, desk(t, fp32), 11, 5, &w); err != nil {
		t.Fatal(err)
	}
	c := desk(t, fp32).Config
	alone, err := machine.Measure(t.Context(), &c.PIM, &c.DRAM.Spec, machine.Load{Context: 11, KVHeads: 4, Shape: pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Contexts of 11 to 15 have one chunk each.
	if one := 30 * float64(alone.TotalCycles); w.LayerSteps != 30 || w.Clocks < 0.9*one || w.Clocks > 1.15*one || w.Energy.RefreshJoules <= 0 {
		t.Errorf("%+v, one layer of 11 tokens takes %d clocks", w, alone.TotalCycles)
	}
}

// TestDot: vectors of any length, of small integers, whose sums are exact.
func TestDot(t *testing.T) {
	var x []float64
	var w []float32
	want := 0.0
	for i := range 13 {
		if got := dot(x, w); got != want {
			t.Errorf("%d elements: %v, want %v", i, got, want)
		}
		x, w = append(x, float64(i+1)), append(w, float32(i*i-7))
		want += float64((i + 1) * (i*i - 7))
	}
}

func TestSampler(t *testing.T) {
	logits := []float32{1, 3, 3, 2}
	if got := NewSampler(0, 1, 0).Next(logits); got != 1 {
		t.Errorf("greedy: %d", got)
	}
	counts := [4]float64{}
	s := NewSampler(1, 1, 0)
	const n = 20000
	for range n {
		counts[s.Next(logits)]++
	}
	sum := math.E + 2*math.Exp(3) + math.Exp(2)
	for i, x := range logits {
		if want := math.Exp(float64(x)) / sum; math.Abs(counts[i]/n-want) > 0.015 {
			t.Errorf("token %d drawn %.3f of the time, want %.3f", i, counts[i]/n, want)
		}
	}
}

// BenchmarkEvaluate decodes the first bytes of the sample text; its bytes/s fall with the context.
func BenchmarkEvaluate(b *testing.B) {
	m, on := builtin(b, 2), desk(b, fp32)
	b.ReportAllocs()
	for b.Loop() {
		evaluate(b, m, on, 1, 1000)
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "bytes/s")
}

// BenchmarkGenerate decodes at a context of 2,049 on one core.
func BenchmarkGenerate(b *testing.B) {
	m := builtin(b, 1)
	s, err := NewSession(m, desk(b, fp32), []int{8192})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Prefill(0, SampleText()[:2049]); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.reads[0].length = 2049
		if _, err := s.Step([]int{0}, []byte("x")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}
