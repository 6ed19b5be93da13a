package attention

import "math"

// Latent is the shape of latent attention (DeepSeek-V2, section 2.1, https://arxiv.org/abs/2405.04434). A token stores one row for all
// heads: a latent, then a rotated key. A matrix [Heads·(Nope + Value), Latent] expands the latent to each head's unrotated part of the key
// and its value. Attention may use these keys and values (Expand). Or it may use the rows directly, as keys of one head that all query
// heads share, whose values are the first Latent elements (Absorb, Project).
type Latent struct {
	Heads  int // query heads
	Latent int // elements of the latent
	Rope   int // elements of the rotated key, the last part of every head's key
	Nope   int // elements of the first, unrotated part
	Value  int // elements of a head's value
}

// Row returns the number of elements of a token's row.
func (l *Latent) Row() int { return l.Latent + l.Rope }

// Key returns the number of elements of a head's query and expanded key.
func (l *Latent) Key() int { return l.Nope + l.Rope }

// Scale returns the factor on scores in either form.
func (l *Latent) Scale() float64 { return 1 / math.Sqrt(float64(l.Key())) }

// float is the precision of vectors.
type float interface{ float32 | float64 }

// parts returns a head's rows of the matrix, for its key and for its value.
func (l *Latent) parts(matrix []float32, head int) (key, value []float32) {
	at := matrix[head*(l.Nope+l.Value)*l.Latent:]
	return at[:l.Nope*l.Latent], at[l.Nope*l.Latent:][:l.Value*l.Latent]
}

// Expand computes the keys [Heads, Key] and values [Heads, Value] of all heads from a token's row.
func Expand[T float](l *Latent, keys, values []T, matrix []float32, row []T) {
	latent, rope := row[:l.Latent], row[l.Latent:l.Row()]
	for h := range l.Heads {
		forKey, forValue := l.parts(matrix, h)
		key := keys[h*l.Key():][:l.Key()]
		times(key[:l.Nope], forKey, latent)
		copy(key[l.Nope:], rope)
		times(values[h*l.Value:][:l.Value], forValue, latent)
	}
}

// Absorb computes the absorbed queries [Heads, Row] from a token's queries [Heads, Key]: the product of an absorbed query with a row equals
// that of the query with the row's expanded key.
func Absorb[T float](l *Latent, absorbed []T, matrix []float32, queries []T) {
	for h := range l.Heads {
		forKey, _ := l.parts(matrix, h)
		q, to := queries[h*l.Key():][:l.Key()], absorbed[h*l.Row():][:l.Row()]
		clear(to[:l.Latent])
		for i, x := range q[:l.Nope] {
			for c, w := range forKey[i*l.Latent:][:l.Latent] {
				to[c] += T(x * T(w))
			}
		}
		copy(to[l.Latent:], q[l.Nope:])
	}
}

// Project computes the results [Heads, Value] of attention from the results of attention over rows, the weighted latents [Heads, Latent].
func Project[T float](l *Latent, results []T, matrix []float32, latents []T) {
	for h := range l.Heads {
		_, forValue := l.parts(matrix, h)
		times(results[h*l.Value:][:l.Value], forValue, latents[h*l.Latent:][:l.Latent])
	}
}

// times sets y to the product of a matrix [len(y), len(x)] with x.
func times[T float](y []T, matrix []float32, x []T) {
	for i := range y {
		var sum T
		for c, w := range matrix[i*len(x):][:len(x)] {
			sum += T(x[c] * T(w))
		}
		y[i] = sum
	}
}
