package policies

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
)

// TestCSATable: a list always has the highest products of all tokens that it has seen, earlier tokens first among equals, and its first
// entry is the lowest.
func TestCSATable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists, prompt := rapid.IntRange(1, 3).Draw(t, "lists"), rapid.IntRange(1, 40).Draw(t, "prompt")
		table := newCSATable(lists, rapid.IntRange(1, prompt).Draw(t, "entries"))
		values := rapid.IntRange(1, 50).Draw(t, "different products")
		all := make([][]float32, lists)
		product := func() float32 { // some that FP16 rounds
			return float32(rapid.IntRange(-values, values).Draw(t, "product")) * 0.3
		}
		for n := range lists {
			for range prompt {
				all[n] = append(all[n], product())
			}
			table.build(n, slices.Clone(all[n]), make([]float32, prompt))
		}
		for token := prompt; token < prompt+60; token++ {
			for n := range lists {
				want := bestByHand(upTo(len(all[n])), func(j int32) float64 { return float64(attention.RoundHalf(all[n][j])) }, table.entries)
				tokens, kept := table.list(n)
				for i, j := range tokens {
					if kept[i] != attention.RoundHalf(all[n][j]) || kept[0] > kept[i] || kept[0] == kept[i] && tokens[0] < j {
						t.Fatalf("list %d: %v %v", n, tokens, kept)
					}
				}
				if got := slices.Sorted(slices.Values(tokens)); !slices.Equal(got, want) {
					t.Fatalf("list %d has %v, want %v of %v", n, got, want, all[n])
				}
				all[n] = append(all[n], product())
				table.insert(n, int32(token), all[n][token])
			}
		}
	})
}

// TestCSAExact: every query of the prompt is a centroid, lists have all tokens, and products are weighted by norms. A search with one of
// these queries then finds the tokens with the highest products. Queries are powers of two along one axis in each subspace, so that
// nothing is rounded.
func TestCSAExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const dim, prompt = 16, 40
		x := newSequence(newSource(t), 1, dim, prompt+1)
		spec := ownSpec(t, "csattention", func(s *keys) {
			s.Subspaces, s.Centroids, s.TableShare, s.Weight, s.RecentTokens = 4, prompt, 1, "norm", 1
			s.SelectShare = float64(rapid.IntRange(1, prompt).Draw(t, "selected")) / prompt
			s.Iterations = rapid.IntRange(0, 5).Draw(t, "iterations")
		})
		clear(x.q[0])
		for i := range prompt {
			for b := range 4 {
				size := rapid.SampledFrom([]float32{0.5, 1, -1, 4, -8}).Draw(t, "size")
				x.at(x.q[0], i)[4*b+rapid.IntRange(0, 3).Draw(t, "axis")] = size
			}
		}
		copy(x.at(x.q[0], prompt), x.at(x.q[0], rapid.IntRange(0, prompt-1).Draw(t, "query")))
		x.play(t, x.newState(spec), prompt, func(p *played) {
			want := bestByHand(upTo(prompt), func(j int32) float64 { return float64(x.score(0, prompt, int(j))) }, int(spec.SelectShare*prompt))
			if got := p.attended[0][:len(p.attended[0])-1]; !slices.Equal(got, want) {
				t.Fatalf("found %v, want %v", got, want)
			}
		})
	})
}

// TestCSASearch repeats every search with maps, from the state's centroids and lists, query, steps and tokens.
func TestCSASearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlay(t, "csattention")
		st := d.state.(*csaState)
		found := make([][]int32, len(d.q))
		d.play(t, st, d.prompt, func(p *played) {
			step, from := p.context-1-d.prompt, max(0, p.context-d.spec.RecentTokens)
			for head := range d.q {
				asked := p.context - 1
				if d.spec.Search == "lagged" {
					asked--
				}
				if step%d.spec.Period == 0 {
					query := d.at(d.q[head], asked)
					if d.spec.SelectGroup == "mean" { // of all query heads, in their order
						query = make([]float32, d.dim)
						for j := range query {
							for _, q := range d.q {
								query[j] += d.at(q, asked)[j]
							}
							query[j] /= float32(len(d.q))
						}
					}
					var nearest []int32
					found[head], nearest = searchByHand(st, query, from)
					if tokens, before, lists, of := st.Searched(head); !slices.Equal(tokens, found[head]) || before != from || !slices.Equal(lists, nearest) || of != st.sizes.Subspaces*st.sizes.Centroids {
						t.Fatalf("context %d, head %d: %v before %d in %v of %d lists", p.context, head, tokens, before, lists, of)
					}
				}
				want := append(slices.Clone(found[head]), upTo(p.context)[from:]...)
				if !slices.Equal(p.attended[head], want) {
					t.Fatalf("context %d, head %d: attends to %v, want %v", p.context, head, p.attended[head], want)
				}
			}
		})
	})
}

// searchByHand returns what a query finds before a token, and the lists that it searches.
func searchByHand(st *csaState, query []float32, end int) (found, lists []int32) {
	estimate := map[int32]float32{}
	for b := range st.sizes.Subspaces {
		part := query[b*st.part : (b+1)*st.part]
		best, nearest := math.Inf(-1), -1
		for c := range st.found[b] {
			product := make([]float32, 1)
			if policy.Products(product, st.subspace(b)[c*st.part:], part); float64(product[0]) > best {
				best, nearest = float64(product[0]), c
			}
		}
		if nearest < 0 {
			continue
		}
		weight := float32(1)
		if st.spec.Weight == "norm" {
			square := 0.0
			for _, v := range part {
				square += float64(float64(v) * float64(v))
			}
			weight = float32(math.Sqrt(square))
		}
		list := b*st.sizes.Centroids + nearest
		lists = append(lists, int32(list))
		tokens, values := st.table.list(list)
		for i, j := range tokens {
			if int(j) < end {
				estimate[j] += float32(weight * values[i])
			}
		}
	}
	var listed []int32
	for j := range estimate {
		listed = append(listed, j)
	}
	return bestByHand(listed, func(j int32) float64 { return float64(estimate[j]) }, st.sizes.Selected), lists
}

// TestCSALists: after any steps the lists equal those built at once from all keys but the newest.
func TestCSALists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlay(t, "csattention")
		st := d.state.(*csaState)
		d.play(t, st, d.prompt, func(p *played) {
			for b, n := range st.found {
				for c := range n {
					score := func(j int32) float64 {
						product := make([]float32, 1)
						policy.Products(product, st.inSubspace(d.at(d.k, int(j)), b), st.subspace(b)[c*st.part:(c+1)*st.part])
						return float64(attention.RoundHalf(product[0]))
					}
					tokens, _ := st.table.list(b*st.sizes.Centroids + c)
					want := bestByHand(upTo(p.context-1), score, max(1, int(d.spec.TableShare*float64(d.prompt))))
					if got := slices.Sorted(slices.Values(tokens)); !slices.Equal(got, want) {
						t.Fatalf("context %d, subspace %d, centroid %d: %v, want %v", p.context, b, c, got, want)
					}
				}
			}
		})
	})
}

// TestCSANested: a search for more tokens finds all that a search for fewer finds; queries of twice the length find the same.
func TestCSANested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlay(t, "csattention")
		search := func(factor float32, share float64) (all [][][]int32) {
			spec, longer := *d.spec, *d.sequence
			spec.SelectShare = min(1, spec.SelectShare*share)
			longer.q = nil
			for _, head := range d.q {
				scaled := slices.Clone(head)
				for i := range scaled {
					scaled[i] *= factor
				}
				longer.q = append(longer.q, scaled)
			}
			longer.play(t, longer.newState(&spec), d.prompt, func(p *played) { all = append(all, p.attended) })
			return all
		}
		few, same, more := search(1, 1), search(2, 1), search(1, 1.5)
		if !slices.EqualFunc(few, same, func(a, b [][]int32) bool { return slices.EqualFunc(a, b, slices.Equal) }) {
			t.Fatal("queries twice as long find other tokens")
		}
		for i := range few {
			for head, tokens := range few[i] {
				for _, j := range tokens {
					if !slices.Contains(more[i][head], j) {
						t.Fatalf("step %d, head %d: %v is not in %v", i, head, tokens, more[i][head])
					}
				}
			}
		}
	})
}

// TestSphericalKMeans: centroids have length 1, and there are no more of them than directions. Rounds do not move vectors away from their
// centroids, and equal seeds give equal results.
func TestSphericalKMeans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim, n, most := rapid.IntRange(1, 9).Draw(t, "dim"), rapid.IntRange(1, 60).Draw(t, "vectors"), rapid.IntRange(1, 70).Draw(t, "centroids")
		s, x := newSource(t), make([]float32, n*dim)
		directions := map[string]bool{}
		for i := range n {
			v := s.normal(dim)
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				clear(v)
			case 1: // one of few directions
				clear(v)
				v[0] = float32(rapid.SampledFrom([]int{1, -2}).Draw(t, "along the first axis"))
			}
			unit(x[i*dim:(i+1)*dim], v)
			if norm(v) > 0 {
				directions[fmt.Sprint(x[i*dim:(i+1)*dim])] = true
			}
		}
		cluster := func(rounds int) (centroids []float32, closeness float64) {
			centroids = make([]float32, most*dim)
			found := sphericalKMeans(centroids, x, dim, rounds, rand.New(rand.NewPCG(3, 4)))
			if want := min(most, len(directions)); found != want {
				t.Fatalf("%d centroids of %d directions, want %d", found, len(directions), want)
			}
			centroids = centroids[:found*dim]
			for v := range slices.Chunk(x, dim) {
				best := math.Inf(-1)
				for c := range slices.Chunk(centroids, dim) {
					if math.Abs(norm(c)-1) > 1e-6 {
						t.Fatalf("centroid %v has length %v", c, norm(c))
					}
					product := make([]float32, 1)
					policy.Products(product, c, v)
					best = max(best, float64(product[0]))
				}
				if found > 0 {
					closeness += best
				}
			}
			return centroids, closeness
		}
		_, before := cluster(0)
		for rounds := 1; rounds < 5; rounds++ {
			_, after := cluster(rounds)
			if after < before-1e-5*float64(n) {
				t.Fatalf("round %d: closeness falls from %v to %v", rounds, before, after)
			}
			before = after
		}
		a, _ := cluster(3)
		if b, _ := cluster(3); !slices.Equal(a, b) {
			t.Fatalf("%v, then %v", a, b)
		}
	})
}

// TestDraw: indices are drawn in proportion to their weights, and never with a weight of 0.
func TestDraw(t *testing.T) {
	random, weights, times := fixedSource().Rand, []float64{0, 1, 0, 3, 4, 0}, make([]float64, 6)
	const draws = 80000
	for range draws {
		times[draw(weights, random)]++
	}
	for i, w := range weights {
		want := draws * w / 8
		if math.Abs(times[i]-want) > 5*math.Sqrt(want) {
			t.Errorf("index %d of weight %v was drawn %v times, want %v", i, w, times[i], want)
		}
	}
	if got := draw([]float64{0, 0}, random); got != -1 {
		t.Errorf("of no weights %d was drawn", got)
	}
}

// TestSphericalKMeansRound: a round moves each centroid to the direction of the sum of its nearest vectors. A vector between two centroids
// belongs to the first; a centroid without vectors stays.
func TestSphericalKMeansRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const dim = 3
		n, most := rapid.IntRange(1, 40).Draw(t, "vectors"), rapid.IntRange(1, 9).Draw(t, "centroids")
		x := make([]float32, n*dim)
		for v := range slices.Chunk(x, dim) {
			for i := range v { // few directions, so that some are equally near
				v[i] = float32(rapid.IntRange(-1, 1).Draw(t, "element"))
			}
			unit(v, v)
		}
		seeds, moved := make([]float32, most*dim), make([]float32, most*dim)
		found := sphericalKMeans(seeds, x, dim, 0, rand.New(rand.NewPCG(5, 6)))
		sphericalKMeans(moved, x, dim, 1, rand.New(rand.NewPCG(5, 6)))
		sums := make([]float64, len(seeds))
		for v := range slices.Chunk(x, dim) {
			best, nearest := float32(math.Inf(-1)), 0
			for c := range found {
				product := make([]float32, 1)
				if policy.Products(product, seeds[c*dim:], v); product[0] > best {
					best, nearest = product[0], c
				}
			}
			for i := range v {
				sums[nearest*dim+i] += float64(v[i])
			}
		}
		for c := range found {
			want := slices.Clone(seeds[c*dim : (c+1)*dim])
			if length := norm(sums[c*dim : (c+1)*dim]); length > 0 {
				for i := range want {
					want[i] = float32(sums[c*dim+i] / length)
				}
			}
			if got := moved[c*dim : (c+1)*dim]; !slices.Equal(got, want) {
				t.Fatalf("centroid %d of %v moves to %v, want %v", c, seeds[:found*dim], got, want)
			}
		}
	})
}

// TestSphericalKMeansFinds: each of several distant clusters gets one centroid.
func TestSphericalKMeansFinds(t *testing.T) {
	const dim, clusters, each = 16, 12, 30
	s := fixedSource()
	var x []float32
	for range each {
		for c := range clusters {
			v := s.normal(dim)
			for i := range v {
				v[i] *= 0.02
			}
			v[c] += 3
			unit(v, v)
			x = append(x, v...)
		}
	}
	centroids := make([]float32, clusters*dim)
	sphericalKMeans(centroids, x, dim, 10, s.Rand)
	var axes []int
	for c := range slices.Chunk(centroids, dim) {
		axis := slices.Index(c, slices.Max(c))
		if c[axis] < 0.999 {
			t.Errorf("centroid %v is between clusters", c)
		}
		axes = append(axes, axis)
	}
	slices.SortFunc(axes, cmp.Compare)
	if len(slices.Compact(axes)) != clusters {
		t.Errorf("clusters %v", axes)
	}
}

// TestCSANothingShared: with shares of 0, a list has one entry, a search finds one token, and the GPUs hold that
// one.
func TestCSANothingShared(t *testing.T) {
	k := newKeys("csattention")
	k.TableShare, k.SelectShare, k.Mode, k.Search = 0, 0, "host", "lagged"
	shape := policy.Shape{Layers: 1, KVHeads: 2, QueryHeads: 8, Dim: 16, ElementBits: 16, Apart: true}
	for group, want := range map[string]int{"per-head": 4, "mean": 1} { // a token of each search
		k.SelectGroup = group
		held, _ := k.spec().Costs(shape).Memory(0)
		if lists, found := held[1].Tokens(9000, 9100), held[3].Tokens(9000, 9100); lists != 1 || int(found) != want {
			t.Errorf("%s: %d entries and %d found tokens are held, want 1 and %d", group, lists, found, want)
		}
	}
}
