package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"math"
	"math/rand/v2"
)

// sphericalKMeans clusters vectors of dim elements by direction, and writes the unit vectors of the clusters to centroids, at most as many
// as fit. It finds none if all vectors are 0, and no more than there are directions. x has the vectors scaled to length 1, or zero vectors.
// Seeds are chosen by k-means++ (Arthur and Vassilvitskii, 2007), followed by rounds of Lloyd's algorithm, in which a centroid without
// vectors stays unchanged. It returns the number of centroids.
func sphericalKMeans(centroids, x []float32, dim, rounds int, random *rand.Rand) int {
	n := seeds(centroids, x, dim, random)
	if n == 0 {
		return 0
	}
	vectors := len(x) / dim
	best, product, nearest := make([]float32, vectors), make([]float32, vectors), make([]int, vectors)
	sums := make([]float64, n*dim)
	for range rounds {
		for c := range n {
			policy.Products(product, x, centroids[c*dim:(c+1)*dim])
			for i, p := range product {
				if c == 0 || p > best[i] {
					best[i], nearest[i] = p, c
				}
			}
		}
		clear(sums)
		for i, c := range nearest {
			sum := sums[c*dim : (c+1)*dim]
			for j, v := range x[i*dim : (i+1)*dim] {
				sum[j] += float64(v)
			}
		}
		for c := range n {
			unit(centroids[c*dim:(c+1)*dim], sums[c*dim:(c+1)*dim])
		}
	}
	return n
}

// seeds chooses vectors as the first centroids: each next one randomly, with probability proportional to the square of its distance to the
// nearest one so far.
func seeds(centroids, x []float32, dim int, random *rand.Rand) int {
	distance := make([]float64, len(x)/dim)
	for i := range distance {
		if norm(x[i*dim:(i+1)*dim]) > 0 {
			distance[i] = 4 // at least the squared distance of any two directions
		}
	}
	n := 0
	for ; n < len(centroids)/dim; n++ {
		chosen := draw(distance, random)
		if chosen < 0 {
			break
		}
		seed := centroids[n*dim : (n+1)*dim]
		copy(seed, x[chosen*dim:])
		for i := range distance {
			if distance[i] == 0 {
				continue
			}
			var square float64
			for j, v := range x[i*dim : (i+1)*dim] {
				d := float64(v - seed[j])
				square += float64(d * d)
			}
			distance[i] = min(distance[i], square)
		}
	}
	return n
}

// draw returns a random index, with probability proportional to the weights; -1 if all are 0.
func draw(weights []float64, random *rand.Rand) int {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	chosen, left := -1, float64(random.Float64()*sum)
	for i, w := range weights {
		if w > 0 {
			if chosen = i; left < w {
				break
			}
			left -= w
		}
	}
	return chosen
}

// unit sets out to v scaled to length 1. For the zero vector it leaves out unchanged.
func unit[T float32 | float64](out []float32, v []T) {
	if length := norm(v); length > 0 {
		for i, x := range v {
			out[i] = float32(float64(x) / length)
		}
	}
}

func norm[T float32 | float64](v []T) float64 {
	var square float64
	for _, x := range v {
		square += float64(float64(x) * float64(x))
	}
	return math.Sqrt(square)
}
