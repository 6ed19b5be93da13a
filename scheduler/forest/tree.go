package forest

import (
	"math/rand/v2"
)

// node is a split or a leaf of a tree; the children of a split lie side by side.
type node struct {
	threshold float64 // of a split: x[feature] > threshold goes to left+1, else to left
	value     float64 // mean of the target
	left      int32   // 0 for a leaf
	feature   int32
}

// tree is one regression tree; its root is node 0.
type tree struct {
	nodes []node
	data  *matrix // the data that it was grown on
}

// predict returns the tree's value at x.
func (t *tree) predict(x []float64) float64 {
	n := &t.nodes[0]
	for n.left > 0 {
		i := n.left
		if x[n.feature] > n.threshold {
			i++
		}
		n = &t.nodes[i]
	}
	return n.value
}

// grower grows trees on one matrix. It holds the scratch memory that they share.
type grower struct {
	spec *Spec
	data *matrix
	// sorted[f] holds the distinct rows of the bootstrap sample by ascending feature f. A node owns
	// the same range of every sorted[f]. A split partitions the range and keeps its order, so the data
	// is sorted once for all trees.
	sorted [][]int32
	left   []bool // [row]: goes left at the split under way
	spare  []int32
	tree   tree
	counts []int32 // [row]: how often the tree's bootstrap sample holds it
}

// newGrower allocates all scratch memory that growing a tree needs, so that refitting allocates
// little.
func newGrower(spec *Spec, data *matrix) *grower {
	g := &grower{
		spec: spec, data: data, sorted: make([][]int32, len(data.columns)), left: make([]bool, len(data.y)),
		spare: make([]int32, 0, len(data.y)),
	}
	for f := range g.sorted {
		g.sorted[f] = make([]int32, 0, len(data.y))
	}
	return g
}

// bootstrap draws as many rows as there are, with replacement.
func bootstrap(n int, rng *rand.Rand) []int32 {
	counts := make([]int32, n)
	for range n {
		counts[rng.IntN(n)]++
	}
	return counts
}

// grow grows a tree on the rows of the matrix, with row i counts[i] times.
func (g *grower) grow(counts []int32) tree {
	for f := range g.sorted {
		g.sorted[f] = g.sorted[f][:0]
		for _, row := range g.data.order[f] {
			if counts[row] > 0 {
				g.sorted[f] = append(g.sorted[f], row)
			}
		}
	}
	g.tree, g.counts = tree{nodes: make([]node, 1, 64), data: g.data}, counts
	g.node(0, 0, len(g.sorted[0]), 0)
	return g.tree
}

// node makes node i from the rows in sorted[·][low:high].
func (g *grower) node(i int32, low, high, depth int) {
	rows, mean, constant := g.summary(low, high)
	g.tree.nodes[i].value = mean
	if constant || depth == g.spec.MaxDepth || rows < 2*g.spec.MinLeaf {
		return
	}
	best := g.best(low, high, rows, mean)
	if best.gain <= 0 {
		return
	}
	g.partition(low, high, best)
	left := int32(len(g.tree.nodes))
	g.tree.nodes = append(g.tree.nodes, node{}, node{})
	g.tree.nodes[i] = node{threshold: best.threshold, value: mean, left: left, feature: int32(best.feature)}
	g.node(left, low, best.at, depth+1)
	g.node(left+1, best.at, high, depth+1)
}

// summary returns the size of a node's sample, the mean of its target, and
// whether the target is constant.
func (g *grower) summary(low, high int) (rows int, mean float64, constant bool) {
	y, counts := g.data.y, g.counts
	first := y[g.sorted[0][low]]
	least, most, sum := first, first, 0.0
	for _, row := range g.sorted[0][low:high] {
		c := counts[row]
		rows += int(c)
		sum += float64(float64(c) * (y[row] - first))
		least, most = min(least, y[row]), max(most, y[row])
	}
	// Rounding must not carry a mean out of the data's range.
	mean = min(max(first+sum/float64(rows), least), most)
	return rows, mean, least == most
}

// split is a way to divide the rows of a node.
type split struct {
	gain      float64 // reduction of the sum of squares; 0: no split
	feature   int
	threshold float64
	at        int // first position of the right side in sorted[feature]
}

// best returns the best split over all features. Ties go to the first feature and
// its lowest threshold.
func (g *grower) best(low, high, rows int, mean float64) split {
	var best split
	for f := range g.sorted {
		if s := g.scan(f, low, high, rows, mean); s.gain > best.gain {
			best = s
		}
	}
	return best
}

// scan returns the best split on one feature. A split into sizes a and b reduces the sum
// of squares by D²(a+b)/(ab). D is the sum, on the left, of the deviations from the
// node's mean.
func (g *grower) scan(feature, low, high, rows int, mean float64) split {
	column, y, counts := g.data.columns[feature], g.data.y, g.counts
	sorted := g.sorted[feature][low:high]
	least := g.spec.MinLeaf
	var best split
	size, sum := 0, 0.0
	value := column[sorted[0]]
	for i, row := range sorted {
		next := column[row]
		if next > value && size >= least {
			if rows-size < least {
				break
			}
			gain := sum * sum * float64(rows) / (float64(size) * float64(rows-size))
			if gain > best.gain {
				best = split{gain: gain, feature: feature, threshold: between(value, next), at: low + i}
			}
		}
		value = next
		c := counts[row]
		size += int(c)
		sum += float64(float64(c) * (y[row] - mean))
	}
	return best
}

// between returns the middle of a < b, but never b itself.
func between(a, b float64) float64 {
	if m := a + float64((b-a)/2); m < b {
		return m
	}
	return a
}

// partition divides a node's range in every feature, keeping the order.
func (g *grower) partition(low, high int, s split) {
	for _, row := range g.sorted[s.feature][low:s.at] {
		g.left[row] = true
	}
	for _, row := range g.sorted[s.feature][s.at:high] {
		g.left[row] = false
	}
	for f := range g.sorted {
		if f == s.feature {
			continue
		}
		part := g.sorted[f][low:high]
		right, n := g.spare[:0], 0
		for _, row := range part {
			if g.left[row] {
				part[n] = row
				n++
			} else {
				right = append(right, row)
			}
		}
		copy(part[n:], right)
	}
}
