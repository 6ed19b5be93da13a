package kinds

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/system/flow"
)

// hotBuffer is the rows of one request and layer on a GPU, in order of their last use. Misses come from the host.
type hotBuffer struct {
	host    [][]float32
	rows    map[int][]float32
	order   []int // the oldest first
	size    int
	fetched int
}

// get returns the row of a token, which becomes the newest.
func (b *hotBuffer) get(token int) []float32 {
	if at := slices.Index(b.order, token); at >= 0 {
		b.order = append(slices.Delete(b.order, at, at+1), token)
		return b.rows[token]
	}
	if len(b.order) == b.size {
		delete(b.rows, b.order[0])
		b.order = b.order[1:]
	}
	b.order = append(b.order, token)
	b.rows[token] = slices.Clone(b.host[token])
	b.fetched++
	return b.rows[token]
}

// TestSparseOffloadValues: for keys and values in the host's memory, the selection of dsa and quest and attention over the rows of a
// fetching buffer equal those of gpu-only to the bit. A buffer of the whole context fetches each row at most once.
func TestSparseOffloadValues(t *testing.T) {
	const dim, tokens, prompt = 8, 300, 40
	for _, sets := range [][]string{
		{"policy.name=dsa", "model.kv_heads=1", "model.head_dim=8", "model.latent_dim=6", "model.nope_dim=4", "model.value_dim=4", "model.index_heads=2", "model.index_dim=4", "model.index_top_k=32"},
		{"policy.name=quest", "policy.quest.budget=32", "policy.quest.page=4", "policy.quest.skip_layers=0", "model.kv_heads=1", "model.head_dim=8"},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		vector := func(n int) (v []float32) {
			for range n {
				v = append(v, float32(rng.NormFloat64()))
			}
			return v
		}
		var states []policy.State
		for _, system := range []string{"gpu-only", "sparse-offload"} {
			n := rigOf(t, slices.Concat([]string{"run.model=llama-3-8b", "model.layers=1", "model.heads=1", "run.system=" + system, "model.tensor_parallel=1"}, sets)...)
			v, err := policy.NewValues(&n.cfg.Policy, flow.PolicyShape(n.Hardware))
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, v.NewState(0, 0, tokens))
		}
		var host [][]float32
		small, large := &hotBuffer{rows: map[int][]float32{}, size: 40}, &hotBuffer{rows: map[int][]float32{}, size: tokens}
		chosen := 0
		for token := range tokens {
			row, query := vector(dim), vector(dim)
			host = append(host, row)
			small.host, large.host = host, host
			index := policy.Index{Key: make([]float64, 4), Queries: make([]float64, 8), Weights: []float64{1, 2}}
			for _, x := range [][]float64{index.Key, index.Queries} {
				for i := range x {
					x[i] = rng.NormFloat64()
				}
			}
			var got [][]int
			for _, st := range states {
				if s, ok := st.(policy.IndexedState); ok {
					s.Index(&index)
				}
				if st.Append(row, row); token < prompt {
					continue
				}
				var all []int
				for _, part := range st.Select([][]float32{query}).Parts {
					for _, r := range part.Ranges {
						for i := r[0]; i < r[1]; i++ {
							all = append(all, i)
						}
					}
				}
				got = append(got, all)
			}
			if token < prompt {
				continue
			}
			if !slices.Equal(got[0], got[1]) {
				t.Fatalf("token %d: %v on the GPUs, %v out of the host's memory", token, got[0], got[1])
			}
			chosen += len(got[0])
			outputs := [3][]float64{make([]float64, dim), make([]float64, dim), make([]float64, dim)}
			for i, source := range []func(int) []float32{func(n int) []float32 { return host[n] }, small.get, large.get} {
				var rows []float32
				for _, n := range got[i%2] {
					rows = append(rows, source(n)...)
				}
				attention.Reference(outputs[i], query, rows, rows, 0.3)
			}
			if !slices.Equal(outputs[0], outputs[1]) || !slices.Equal(outputs[0], outputs[2]) {
				t.Fatalf("token %d: %v", token, outputs)
			}
		}
		if large.fetched > tokens || small.fetched < large.fetched || small.fetched >= chosen {
			t.Errorf("%d rows chosen, %d fetched into 40, %d into %d", chosen, small.fetched, large.fetched, tokens)
		}
	}
}
