package policies

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/internal/deep"
)

// planted is testdata/planted_reference.safetensors, made for this project by a program in
// float64 that shares no code with this one. In each of four sets of 2,048 keys one key is replaced by c
// times a query, at many places. iid and local keys are random, decoy has pages with large bounds and no
// large product, in tie all pages have equal scores. The query is the last token's.
type planted struct {
	*testing.T
	file       *attention.Safetensors
	places     []int
	c          []float64
	keys, q, v []float32
}

const (
	plantedTokens = 2048
	plantedDim    = 128
)

func (p *planted) floats(name string) []float32 {
	x, err := p.file.Tensor(name).Float32s()
	if err != nil {
		p.Fatal(name, err)
	}
	return x
}

func (p *planted) ints(name string) []int {
	x, err := p.file.Tensor(name).Ints()
	if err != nil {
		p.Fatal(name, err)
	}
	return x
}

// TestPlantedKeys: whether each policy attends to the planted key, the rank of its page, and its share of the result equal the reference's.
func TestPlantedKeys(t *testing.T) {
	deep.Heavy(t)
	file, err := attention.OpenSafetensors("testdata/planted_reference.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for i, set := range []string{"iid", "local", "decoy", "tie"} {
		t.Run(set, func(t *testing.T) {
			p := planted{T: t, file: file}
			p.places, p.keys, p.q = p.ints("places"), p.floats(set+".k"), p.floats("q")
			if p.c, err = file.Tensor("c").Float64s(); err != nil {
				t.Fatal(err)
			}
			if set == "tie" {
				p.q = p.floats("tie.q")
			}
			for j, name := range []string{"dense", "quest_256", "quest_512", "lserve_64_16_512", "lserve_64_64_512", "lserve_128_16_1024", "lserve_512_16_1024",
				"streaming_4_508", "streaming_128_256"} {
				if deep.Case(j-i+4, 4) {
					p.compare(set, name)
				}
			}
		})
	}
}

// plantedSpec returns the section for a name in the file.
func plantedSpec(name string) *keys {
	var n []int
	f := strings.Split(name, "_")
	for _, text := range f[1:] {
		v, _ := strconv.Atoi(text)
		n = append(n, v)
	}
	s := newKeys(f[0])
	switch f[0] {
	case "quest":
		s.Budget, s.SkipLayers = n[0], 0
	case "lserve":
		s.Page, s.LogicalPage, s.Budget, s.StaticSparsity = n[0], n[1], n[2], 0
	case "streaming":
		s.Sink, s.Window = n[0], n[1]
	}
	return s
}

func (p *planted) compare(set, name string) {
	spec, prefix := plantedSpec(name), set+"."+name+"."
	values, err := policy.NewValues(spec.spec(), policy.Shape{Layers: 1, QueryHeads: 1, KVHeads: 1, Dim: plantedDim, ElementBits: 16})
	if err != nil {
		p.Fatal(err)
	}
	var found, rank []int
	want := p.file.Tensor(set + ".dense_weight")
	if name != "dense" {
		found, want = p.ints(prefix+"found"), p.file.Tensor(prefix+"out0")
	}
	if strings.HasPrefix(name, "quest") || strings.HasPrefix(name, "lserve") {
		rank = p.ints(prefix + "rank")
	}
	weight, err := want.Float32s()
	if err != nil {
		p.Fatal(err)
	}
	a, scores, out := policy.NewAttender(plantedTokens, plantedDim), make([]float64, plantedTokens), make([]float64, plantedDim)
	queries := len(p.q) / plantedDim
	for i := 0; i < len(weight); i += deep.Of(29, 29, 1) {
		place, query := p.places[i/len(p.c)/queries], p.q[i/len(p.c)%queries*plantedDim:][:plantedDim]
		keys := slices.Clone(p.keys)
		for j, x := range query {
			keys[place*plantedDim+j] = attention.RoundHalf(float32(p.c[i%len(p.c)] * float64(x)))
		}
		st := values.NewState(0, 0, plantedTokens)
		last := (plantedTokens - 1) * plantedDim
		st.Prompt(nil, keys[:last], nil)
		st.Append(keys[last:], nil)
		sel := st.Select([][]float32{query})
		attended := slices.ContainsFunc(sel.Parts[0].Ranges, func(r [2]int) bool { return r[0] <= place && place < r[1] })
		if found != nil && attended != (found[i] == 1) {
			p.Errorf("%s, case %d: the key at %d is attended to: %v", name, i, place, attended)
		}
		if rank != nil {
			p.compareRank(set, name, st.(*pageState), query, place, rank[i])
		}
		policy.Scores(scores, query, keys, sel.Parts[0].Ranges)
		a.Attend(out, &sel, 0, scores, p.oneHot(place))
		if math.Abs(out[0]-float64(weight[i])) > 1e-5 {
			p.Errorf("%s, case %d: the key at %d weighs %g, want %g", name, i, place, out[0], weight[i])
		}
	}
}

// compareRank compares the rank of a token's page, -1 for the newest.
func (p *planted) compareRank(set, name string, st *pageState, q []float32, place, want int) {
	newest := (plantedTokens - 1) / st.pages.Page
	own, got := place/st.pages.Page, 0
	scores := make([]float64, newest)
	st.pageScores(scores, [][]float32{q})
	if own == newest {
		got = -1
	} else {
		for page, s := range scores {
			if s > scores[own] || s == scores[own] && page < own {
				got++
			}
		}
	}
	off := got - want
	if off < -1 || off > 1 || set == "tie" && off != 0 || (got < 0) != (want < 0) {
		p.Errorf("%s: the page of %d has rank %d, want %d", name, place, got, want)
	}
}

// oneHot returns values with a single 1: in element 0 for the given token, in element 1 + t mod 127 for any other token t.
func (p *planted) oneHot(place int) []float32 {
	if p.v == nil {
		p.v = make([]float32, plantedTokens*plantedDim)
		for i := range plantedTokens {
			p.v[i*plantedDim+1+i%(plantedDim-1)] = 1
		}
	}
	v := slices.Clone(p.v)
	clear(v[place*plantedDim:][:plantedDim])
	v[place*plantedDim] = 1
	return v
}
