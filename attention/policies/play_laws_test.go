package policies

import (
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"pgregory.net/rapid"
)

// TestPlayed checks, for any settings, that parts are disjoint (play), that kept and dropped mass add up to 1, that merging parts gives
// attention over their union, and that dense − kept = dropped mass · (attention over the dropped − kept).
func TestPlayed(t *testing.T) {
	for _, name := range plainNames() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				d := drawPlay(t, name)
				d.play(t, d.state, d.prompt, func(p *played) {
					for head := range d.q {
						d.checkStep(t, p, head)
					}
				})
			})
		})
	}
}

// checkStep compares a step of a query head with dense attention.
func (d *drawn) checkStep(t *rapid.T, p *played, head int) {
	token, all := p.context-1, upTo(p.context)
	var dropped []int32
	kept, dense := 0.0, d.weights(head, token, all)
	for _, j := range all {
		if n := len(dropped); n+len(p.attended[head]) < p.context && (int(j)-n >= len(p.attended[head]) || p.attended[head][int(j)-n] != j) {
			dropped = append(dropped, j)
		} else {
			kept += dense[j]
		}
	}
	want, lse := d.output(head, token, all)
	got, gotLSE := d.merged(p, head)
	other, otherLSE := d.output(head, token, dropped)
	mass := math.Exp(otherLSE - lse)
	if math.Abs(kept+mass-1) > 1e-5 || math.Abs(math.Exp(gotLSE-lse)-kept) > 1e-5 {
		t.Fatalf("context %d: kept mass %v, of the result %v, dropped %v", p.context, kept, math.Exp(gotLSE-lse), mass)
	}
	for c := range want {
		if e := want[c] - got[c] - float64(mass*(other[c]-got[c])); math.Abs(e) > 1e-9 {
			t.Fatalf("context %d: the error is off by %v", p.context, e)
		}
	}
}

// merged returns the result of a query head from its parts, each weighted by its sum.
func (d *drawn) merged(p *played, head int) (out []float64, lse float64) {
	out, lse = make([]float64, d.dim), math.Inf(-1)
	for i := range p.selection.Parts {
		part := &p.selection.Parts[i]
		if !part.For(head) {
			continue
		}
		var tokens []int32
		for _, r := range part.Ranges {
			tokens = append(tokens, upTo(r[1])[r[0]:]...)
		}
		x, partLSE := d.output(head, p.context-1, tokens)
		top := max(lse, partLSE)
		a, b := math.Exp(lse-top), math.Exp(partLSE-top)
		for c := range out {
			out[c] = (float64(a*out[c]) + float64(b*x[c])) / (a + b)
		}
		lse = top + math.Log(a+b)
	}
	return out, lse
}

// TestCounts: a state attends to the number of tokens that costs are based on.
func TestCounts(t *testing.T) {
	for _, name := range []string{"quest", "lserve"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			d := drawPlay(t, name)
			st, ok := d.state.(*pageState)
			if !ok {
				t.Skip("a streaming head or a skipped layer")
			}
			d.play(t, d.state, d.prompt, func(p *played) {
				for _, tokens := range p.attended {
					pages := map[int32]bool{}
					for _, j := range tokens {
						pages[j/int32(d.spec.Page)] = true
					}
					if len(tokens) != st.pages.Tokens(d.prompt, p.context) || len(pages) != st.pages.PagesRead(d.prompt, p.context) {
						t.Fatalf("context %d: %d tokens of %d pages, want %d of %d", p.context, len(tokens), len(pages),
							st.pages.Tokens(d.prompt, p.context), st.pages.PagesRead(d.prompt, p.context))
					}
				}
			})
		}))
	}
	t.Run("window", rapid.MakeCheck(func(t *rapid.T) {
		d := drawPlay(t, "window")
		d.play(t, d.state, d.prompt, func(p *played) {
			near, home := &p.selection.Parts[0], &p.selection.Parts[1]
			left := p.context
			if d.spec.Window > 0 {
				left -= hgcaWindow{Size: d.spec.Window, Block: d.spec.Block}.Held(p.context)
			}
			if want := max(0, left-d.spec.Sink); near.Device != policy.GPU || home.Device != policy.Home || home.Tokens() != want || near.Tokens() != p.context-want {
				t.Fatalf("context %d: %+v, want %d tokens at home", p.context, p.selection.Parts, want)
			}
		})
	}))
	t.Run("h2o", rapid.MakeCheck(func(t *rapid.T) {
		d := drawPlay(t, "h2o")
		budget := (H2OSpec{d.spec.Heavy, d.spec.Recent}).budget(d.prompt)
		d.play(t, d.state, d.prompt, func(p *played) {
			if got := p.selection.Parts[0].Tokens(); got != budget.Attended(p.context) || len(p.selection.Parts) != 1 {
				t.Fatalf("context %d: %d tokens, want %d", p.context, got, budget.Attended(p.context))
			}
		})
	}))
	t.Run("hgca", rapid.MakeCheck(func(t *rapid.T) {
		d := drawPlay(t, "hgca")
		w := hgcaWindow{Size: d.spec.Window, Block: d.spec.Block}
		d.play(t, d.state, d.prompt, func(p *played) {
			parts := p.selection.Parts
			window := parts[len(parts)-1]
			left := w.Evicted(p.context - 1)
			if window.Device != policy.GPU || window.Tokens() != w.Held(p.context) || window.Ranges[0] != [2]int{left, p.context} {
				t.Fatalf("context %d: the window is %+v, want %d tokens", p.context, window, w.Held(p.context))
			}
			if len(parts) > 2 || len(parts) == 2 && (parts[0].Device != policy.Home || parts[0].Tokens() > left) {
				t.Fatalf("context %d: %d tokens have left, salient are %+v", p.context, left, parts)
			}
		})
	}))
	t.Run("csattention", rapid.MakeCheck(func(t *rapid.T) {
		d := drawPlay(t, "csattention")
		sizes := keysOf[CSAttentionSpec](d.spec).Tables(d.prompt, len(d.q))
		d.play(t, d.state, d.prompt, func(p *played) {
			for head, tokens := range p.attended {
				got, most := len(tokens), sizes.attended(p.context, 0, 1, 0)
				exact := sizes.Entries >= sizes.Selected+sizes.Recent && p.context-1 >= sizes.Selected+sizes.Recent && d.spec.Period == 1
				if got > most || got < min(p.context, sizes.Recent) || exact && got != most {
					t.Fatalf("context %d, head %d: %d tokens, want %d (%+v)", p.context, head, got, most, sizes)
				}
			}
		})
	}))
}

// TestNothingDropped: with settings that drop nothing, a policy equals dense attention.
func TestNothingDropped(t *testing.T) {
	whole := map[string]func(d *drawn){
		"dense":             func(*drawn) {},
		"window":            func(*drawn) {},
		"streaming":         func(d *drawn) { d.spec.Window = d.tokens },
		"streaming sink":    func(d *drawn) { d.spec.Sink, d.spec.Window = d.tokens-1, 1 },
		"quest":             func(d *drawn) { d.spec.Budget = d.tokens },
		"quest skipped":     func(d *drawn) { d.spec.SkipLayers = 1 },
		"lserve":            func(d *drawn) { d.spec.Budget, d.spec.StaticSparsity = d.tokens, 0 },
		"lserve streaming":  func(d *drawn) { d.spec.StaticSparsity, d.spec.Window = 1, d.tokens },
		"duo":               func(d *drawn) { d.spec.StaticSparsity = 0 },
		"h2o":               func(d *drawn) { d.spec.Heavy, d.spec.Recent = 2, 2 }, // beyond the keys' ranges
		"hgca":              func(d *drawn) { d.spec.Beta = 0 },
		"hgca window":       func(d *drawn) { d.spec.Window, d.spec.Block, d.spec.Beta = d.tokens+1, 1, 1e6 },
		"csattention":       func(d *drawn) { d.spec.TableShare, d.spec.SelectShare, d.spec.RecentTokens = 1, 1, d.tokens },
		"csattention lists": func(d *drawn) { d.spec.TableShare, d.spec.SelectShare = 1, 1 },
	}
	for name, set := range whole {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				own, _, _ := strings.Cut(name, " ")
				d := drawPlay(t, own)
				set(d)
				d.play(t, d.newState(d.spec), d.prompt, func(p *played) {
					switch {
					case own == "h2o" && p.context > 4*d.prompt+1:
						return // the kept tokens have reached the budget
					case name == "csattention lists" && p.context > d.prompt+1:
						return // the lists had all prompt tokens; later ones displace them
					}
					for head, tokens := range p.attended {
						if len(tokens) != p.context {
							t.Fatalf("context %d, head %d: %d tokens", p.context, head, len(tokens))
						}
					}
				})
			})
		})
	}
}

// TestStepsAllocateNothing: a step uses only memory that the prompt allocated.
func TestStepsAllocateNothing(t *testing.T) {
	for _, name := range plainNames() {
		x := newSequence(fixedSource(), 2, 16, 400)
		spec := ownSpec(t, name, func(s *keys) {
			if name == "hgca" {
				s.Window, s.Block = 64, 16
			}
		})
		st := x.newState(spec)
		const prompt = 200
		st.Prompt([][]float32{x.q[0][:prompt*x.dim], x.q[1][:prompt*x.dim]}, x.k[:prompt*x.dim], x.v[:prompt*x.dim])
		token, weights := prompt, make([]float32, x.tokens)
		query, given := make([][]float32, 2), make([][]float32, 2)
		allocations := testing.AllocsPerRun(150, func() {
			st.Append(x.at(x.k, token), x.at(x.v, token))
			query[0], query[1] = x.at(x.q[0], token), x.at(x.q[1], token)
			n := 0
			for _, p := range st.Select(query).Parts {
				n += p.Tokens()
			}
			for i := range weights[:n] {
				weights[i] = 1 / float32(n)
			}
			given[0], given[1] = weights[:n], weights[:n]
			st.Observe(given)
			token++
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations a step", name, allocations)
		}
	}
}
