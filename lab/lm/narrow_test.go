package lm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pim"
)

// TestNarrowing: each stored key and value is within half a step of the original, with the scales of its token, of its tensor
// (clamped to its range), or of a key's element and group. Tokens without a full group are still unchanged.
func TestNarrowing(t *testing.T) {
	w, err := readSmall(small(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	m := NewModel(w, 1)
	const prompt, all = 200, 300
	every := []llm.KVScales{"", llm.TensorScales, llm.ChannelScales}
	for bits, kinds := range map[int][]llm.KVScales{4: every, 8: every, 0: every[:2]} { // 0: FP8, which has one scale a tensor
		for _, scales := range kinds {
			t.Run(fmt.Sprint(bits, scales), func(t *testing.T) {
				widths := &llm.Widths{KVBits: bits, KVScales: scales}
				if bits == 0 {
					widths.KVFormat = llm.FP8
				}
				n, err := newNarrowing(m, widths, named("dense"))
				if err != nil {
					t.Fatal(err)
				}
				r, h := rand.New(rand.NewPCG(1, 2)), make([]chosenHead, 1)
				var came [2][]float32
				for token := range all {
					for kv, x := range []*[]float32{&h[0].keys, &h[0].values} {
						for e := range m.HeadDim { // elements have ranges of their own
							*x = append(*x, float32(r.NormFloat64()*float64(1+e)+float64(kv)))
						}
						came[kv] = append(came[kv], (*x)[token*m.HeadDim:]...)
					}
					if token == prompt-1 {
						n.fit(0, h)
					}
					if token >= prompt-1 {
						n.narrow(0, m.HeadDim, &h[0])
					}
				}
				x, want := &h[0].narrow, all
				if scales == llm.ChannelScales {
					want = all / keyGroup * keyGroup
				}
				if x.tokens() != want {
					t.Errorf("%d tokens are narrow, want %d", x.tokens(), want)
				}
				for kv, got := range [2][]float32{h[0].keys, h[0].values} {
					for i, v := range got {
						token, e, most := i/m.HeadDim, i%m.HeadDim, math.Inf(1)
						if token >= want {
							if v != came[kv][i] {
								t.Fatalf("token %d changes before its group is full", token)
							}
							continue
						}
						s := x.scales[kv][token]
						if bits == 0 { // within a sixteenth, or half of the smallest step
							in, stored := float64(came[kv][i]), s.DecodeFP8(x.elements[kv][i])
							most := float64(s.Scale) * attention.E4M3Max
							in = min(max(in, -most), most)
							if s != n.tensor[0][kv] || v != stored || math.Abs(float64(v)-in) > max(math.Abs(in)/16, float64(s.Scale)*0x1p-10)*1.0001 {
								t.Fatalf("token %d, element %d: %v is %v, stored %v", token, e, came[kv][i], v, stored)
							}
							continue
						}
						switch {
						case scales == llm.ChannelScales && kv == int(pim.Key):
							s = x.groups[token/keyGroup][e]
						case scales == llm.TensorScales:
							s, most = n.tensor[0][kv], float64(s.Scale)*math.Ldexp(1, bits-1)
						}
						in := float64(came[kv][i])
						if scales == llm.TensorScales {
							in = min(max(in, -most), most-float64(s.Scale))
						}
						if math.Abs(float64(v)-in) > float64(s.Scale)*0.51+math.Abs(in)*0x1p-9 || v != s.Decode(x.elements[kv][i]) {
							t.Fatalf("token %d, element %d: %v is %v, with steps of %v", token, e, came[kv][i], v, s.Scale)
						}
					}
				}
			})
		}
	}
}
