package attention

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLatentForms: attention over stored rows equals Reference's over each head's own keys and values. All rows and heads differ, so that
// using the wrong part of the matrix changes the result.
func TestLatentForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		l := Latent{Heads: number("heads", 1, 4), Latent: number("latent", 1, 20), Rope: number("rope", 0, 8), Nope: number("nope", 1, 12), Value: number("value", 1, 12)}
		r, n := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7)), number("tokens", 1, 30)
		matrix, rows := vectors(r, l.Heads*(l.Nope+l.Value), l.Latent, 1), vectors(r, n, l.Row(), 1)
		q := vectors(r, l.Heads, l.Key(), 1)
		wide := func(x []float32) []float64 {
			y := make([]float64, len(x))
			for i, v := range x {
				y[i] = float64(v)
			}
			return y
		}
		// Expanded, by the definition.
		keys, values := make([][]float64, n), make([][]float64, n)
		for i := range n {
			keys[i], values[i] = make([]float64, l.Heads*l.Key()), make([]float64, l.Heads*l.Value)
			Expand(&l, keys[i], values[i], matrix, wide(rows[i*l.Row():(i+1)*l.Row()]))
		}
		absorbed, latents, got := make([]float64, l.Heads*l.Row()), make([]float64, l.Heads*l.Latent), make([]float64, l.Heads*l.Value)
		Absorb(&l, absorbed, matrix, wide(q))
		for h := range l.Heads {
			var weights []float64
			top, sum := math.Inf(-1), 0.0
			for i := range n {
				var expanded, score float64
				for e := range l.Key() {
					expanded += float64(q[h*l.Key()+e]) * keys[i][h*l.Key()+e]
				}
				for e := range l.Row() {
					score += absorbed[h*l.Row()+e] * float64(rows[i*l.Row()+e])
				}
				if !near(expanded, score, 1e-9) {
					t.Fatalf("%+v, head %d, token %d: score %v expanded, %v absorbed", l, h, i, expanded, score)
				}
				weights = append(weights, expanded*l.Scale())
				top = max(top, weights[i])
			}
			for i := range weights {
				weights[i] = math.Exp(weights[i] - top)
				sum += weights[i]
			}
			for i, w := range weights {
				for e := range l.Latent {
					latents[h*l.Latent+e] += w / sum * float64(rows[i*l.Row()+e])
				}
			}
			// The reference over rows agrees for a query that a float32 can hold.
			out, exact := make([]float64, l.Latent), make([]float64, l.Row())
			narrow := vectors(r, 1, l.Row(), 1)
			lse := Reference(exact, narrow, rows, rows, l.Scale())
			if own := RowsReference(out, narrow, rows, l.Scale()); own != lse {
				t.Fatalf("log-sum-exp %v of rows, %v", own, lse)
			}
			for e, x := range out {
				if x != exact[e] {
					t.Fatalf("element %d: %v of rows, %v", e, x, exact[e])
				}
			}
		}
		Project(&l, got, matrix, latents)
		for h := range l.Heads {
			want, top, sum := make([]float64, l.Value), math.Inf(-1), 0.0
			scores := make([]float64, n)
			for i := range n {
				for e := range l.Key() {
					scores[i] += float64(q[h*l.Key()+e]) * keys[i][h*l.Key()+e] / math.Sqrt(float64(l.Nope+l.Rope))
				}
				top = max(top, scores[i])
			}
			for i := range n {
				sum += math.Exp(scores[i] - top)
			}
			for i := range n {
				for e := range want {
					want[e] += math.Exp(scores[i]-top) / sum * values[i][h*l.Value+e]
				}
			}
			for e, x := range want {
				if !near(x, got[h*l.Value+e], 1e-9) {
					t.Fatalf("%+v, head %d: result %v expanded, %v absorbed", l, h, x, got[h*l.Value+e])
				}
			}
		}
	})
}

// TestLatentByHand: one head whose matrix makes 2·latent of a latent as the key and 3·latent as the value.
func TestLatentByHand(t *testing.T) {
	l := Latent{Heads: 1, Latent: 1, Rope: 1, Nope: 1, Value: 1}
	key, value, q, result := make([]float64, 2), make([]float64, 1), make([]float64, 2), make([]float64, 1)
	Expand(&l, key, value, []float32{2, 3}, []float64{5, 7})
	Absorb(&l, q, []float32{2, 3}, []float64{11, 13})
	Project(&l, result, []float32{2, 3}, []float64{5})
	if key[0] != 10 || key[1] != 7 || value[0] != 15 || q[0] != 22 || q[1] != 13 || result[0] != 15 || l.Row() != 2 || l.Key() != 2 {
		t.Errorf("key %v, value %v, query %v, result %v", key, value, q, result)
	}
}

// TestLatentSizes: a row is the latent and the rotated key, a key has these two parts, and Queries overwrites its output.
func TestLatentSizes(t *testing.T) {
	l := Latent{Heads: 2, Latent: 3, Rope: 1, Nope: 2, Value: 5}
	if l.Row() != 4 || l.Key() != 3 || math.Abs(l.Scale()-1/math.Sqrt(3)) > 1e-15 {
		t.Errorf("a row of %d, a key of %d, a scale of %v", l.Row(), l.Key(), l.Scale())
	}
	matrix := make([]float32, 2*(2+5)*3)
	for i := range matrix {
		matrix[i] = float32(i)
	}
	// The second head's keys begin after 7 rows of 3: {21, 22, 23} and {24, 25, 26}.
	absorbed := []float64{9, 9, 9, 9, 9, 9, 9, 9}
	Absorb(&l, absorbed, matrix, []float64{1, 10, 100, 2, 1, 7})
	if want := []float64{30, 41, 52, 100, 66, 69, 72, 7}; !slices.Equal(absorbed, want) {
		t.Errorf("absorbed %v, want %v", absorbed, want)
	}
}
