package predict

import (
	"math"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/forest"
)

// points is the data of a forest over two counts. A point that is measured again keeps its place,
// and its times are averaged. Long phases of decoding repeat the same points, which must not
// displace the points of prefill. A point beyond the capacity replaces the oldest point.
type points struct {
	x     []float64 // [point][2]
	y     []float64 // [point]: average time
	count []int     // [point]: measurements
	index map[[2]int32]int
	next  int // the oldest point, once the capacity is reached
}

// averaged is the number of measurements after which a point's average becomes an
// exponential one. It is large enough to reduce noise by a factor of 4 (√(2·8−1)), and
// small enough to follow a device that changes.
const averaged = 8

func newPoints(capacity int) points {
	return points{
		x: make([]float64, 0, 2*capacity), y: make([]float64, 0, capacity), count: make([]int, 0, capacity),
		index: make(map[[2]int32]int, capacity),
	}
}

// add adds a measurement and says whether it changed anything.
func (p *points) add(a, b int, t float64) bool {
	key := [2]int32{int32(a), int32(b)}
	if i, known := p.index[key]; known {
		p.count[i]++
		before := p.y[i]
		p.y[i] += (t - before) / float64(min(p.count[i], averaged))
		return p.y[i] != before
	}
	if len(p.y) < cap(p.y) {
		p.index[key] = len(p.y)
		p.x, p.y, p.count = append(p.x, float64(a), float64(b)), append(p.y, t), append(p.count, 1)
		return true
	}
	i := p.next
	p.next = (p.next + 1) % len(p.y)
	delete(p.index, [2]int32{int32(p.x[2*i]), int32(p.x[2*i+1])})
	p.index[key] = i
	p.x[2*i], p.x[2*i+1], p.y[i], p.count[i] = float64(a), float64(b), t, 1
	return true
}

// schedule says when a model is due to be fitted.
type schedule struct {
	every  int  // changes between two fits
	seen   int  // observations so far
	change int  // changes since the last fit
	rows   int  // rows of the last fit
	beyond bool // an observation exceeded the fitted range by more than leeway
}

// observed counts an observation; changed says whether it changed the data.
func (s *schedule) observed(changed bool) {
	s.seen++
	if changed {
		s.change++
	}
}

// due says whether a fitted model, whose data now has rows rows, should be refitted: after every
// changes, when the data has doubled, or after an observation beyond the fitted range.
func (s *schedule) due(rows int) bool {
	return s.change > 0 && (s.change >= s.every || rows >= 2*s.rows || s.beyond)
}

func (s *schedule) fitted(rows int) { s.change, s.rows, s.beyond = 0, rows, false }

// leeway is how far, relatively, an observation may lie beyond the fitted range before the model is
// refitted at once. The number of fits thus grows with the logarithm of the load, and predictions
// never extrapolate further for long.
const leeway = 1.0 / 8

// outside says whether v is beyond low or high by more than leeway.
func outside(v, low, high float64) bool {
	return v < low-float64(leeway*math.Abs(low)) || v > high+float64(leeway*math.Abs(high))
}

// latencyForest predicts a time from two counts.
type latencyForest struct {
	spec   forest.Spec
	seed   uint64
	data   points
	when   schedule
	forest *forest.Forest // nil until the first fit
	// work is proportional to the time beyond the range of the data.
	work func(a, b float64) float64
	at   [2]float64
}

// newLatencyForest returns a forest that is not fitted yet. work is a quantity to which time is proportional
// beyond the range of the data.
func newLatencyForest(spec *scheduler.PredictorSpec, seed uint64, work func(a, b float64) float64) *latencyForest {
	return &latencyForest{
		spec: forest.Spec{Trees: spec.Trees, MaxDepth: spec.MaxDepth, MinLeaf: spec.MinLeaf},
		seed: seed, data: newPoints(spec.Window), when: schedule{every: spec.RefitEvery}, work: work,
	}
}

// observe adds an observation, and asks for a refit if it lies beyond the data of the trees.
func (m *latencyForest) observe(a, b int, t float64) {
	m.when.observed(m.data.add(a, b, t))
	if m.forest != nil && (m.outside(0, float64(a)) || m.outside(1, float64(b))) {
		m.when.beyond = true
	}
}

func (m *latencyForest) outside(feature int, v float64) bool {
	low, high := m.forest.Range(feature)
	return outside(v, low, high)
}

// fit grows the forest, or replaces its oldest quarter. It replaces all trees where the
// data exceeds the range that every tree covers.
func (m *latencyForest) fit() error {
	m.when.fitted(len(m.data.y))
	if m.forest == nil {
		f, err := forest.Fit(m.spec, m.data.x, m.data.y, m.seed, 0)
		m.forest = f
		return err
	}
	replaced := (m.spec.Trees + 3) / 4
	for i, v := range m.data.x {
		if low, high := m.forest.Range(i % 2); v < low || v > high {
			replaced = m.spec.Trees
			break
		}
	}
	return m.forest.Refit(m.data.x, m.data.y, replaced)
}

// predict returns the time at a, b. Above the data's range the time at the edge is scaled by the
// work. Below the range it is the time at the edge. For a cost that is a constant plus a part
// proportional to the work, both are too high, never too low. A scheduler therefore approaches
// unknown sizes in steps, and learns at each.
func (m *latencyForest) predict(a, b int) float64 {
	_, highA := m.forest.Range(0)
	_, highB := m.forest.Range(1)
	x, y := float64(a), float64(b)
	m.at[0], m.at[1] = min(x, highA), min(y, highB)
	t := m.forest.Predict(m.at[:])
	if x > highA || y > highB {
		t = float64(t * (m.work(x, y) / max(1, m.work(m.at[0], m.at[1]))))
	}
	return t
}

// attentionWork is the number of query-key pairs of a chunk's causal attention.
func attentionWork(chunk, finished float64) float64 {
	return chunk * (finished + float64((chunk+1)/2))
}

// tokenWork is the number of rows of the batched operations.
func tokenWork(prefill, decoding float64) float64 { return prefill + decoding }
