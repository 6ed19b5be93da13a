package tables

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Goal is a column and the direction in which it improves.
type Goal struct {
	Column   string `json:"column"` // full name
	Maximize bool   `json:"maximize"`
	index    int    // of the column
}

// String returns the goal as ParseGoals reads it.
func (g Goal) String() string {
	if g.Maximize {
		return "max " + g.Column
	}
	return "min " + g.Column
}

// The number of goals of a front. With four or more, nearly every point is on it.
const (
	minGoals = 2
	maxGoals = 3
)

// ParseGoals reads two or three goals, "max COLUMN" or "min COLUMN", joined by commas; columns are
// named as Column takes them. Errors are of type *input.Error and name flag.
func (t *Table) ParseGoals(flag, text string) ([]Goal, error) {
	parts := strings.Split(text, ",")
	if strings.TrimSpace(text) == "" || len(parts) < minGoals || len(parts) > maxGoals {
		return nil, &input.Error{Key: flag, Value: fmt.Sprintf("%q", text),
			Expected: `two or three goals, such as "max output_tokens_per_s, min tbt_p99_ms"`}
	}
	var goals []Goal
	for _, part := range parts {
		goal, err := t.parseGoal(flag, part)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(goals, func(g Goal) bool { return g.index == goal.index }) {
			return nil, &input.Error{Key: flag, Value: fmt.Sprintf("%q", text), Expected: "each column once; " + goal.Column + " is there twice"}
		}
		goals = append(goals, goal)
	}
	return goals, nil
}

func (t *Table) parseGoal(flag, text string) (Goal, error) {
	words := strings.Fields(text)
	if len(words) != 2 || words[0] != "max" && words[0] != "min" {
		return Goal{}, &input.Error{Key: flag, Value: fmt.Sprintf("%q", strings.TrimSpace(text)), Expected: `"max COLUMN" or "min COLUMN"`}
	}
	column, err := t.Column(flag, words[1])
	if err != nil {
		return Goal{}, err
	}
	return Goal{t.Columns[column], words[0] == "max", column}, nil
}

// NonDominated says for each point whether it is on the Pareto front: no other
// is at least as good in every goal and better in one. Equal points do not
// dominate each other. Values holds the goals of one point after the other, all
// of them finite and to be minimised; goals is their number, 1 to 3.
//
// It takes O(n log n): in the order of the first goal, then the second, then the third, a point
// comes after all that dominate it. A prefix-minimum tree over the ranks of the second goal (P. M.
// Fenwick, "A New Data Structure for Cumulative Frequency Tables", 1994, with minima in place of
// sums) finds the best third goal among earlier points that are no worse in the second. (H. T.
// Kung, F. Luccio and F. P. Preparata, "On Finding the Maxima of a Set of Vectors", J. ACM 22,
// 1975, give the bound.)
func NonDominated(values []float64, goals int) []bool {
	n := len(values) / goals
	points := make([]valuePoint, n)
	for i := range points {
		v := [maxGoals]float64{}
		copy(v[:], values[i*goals:(i+1)*goals])
		points[i] = valuePoint{v, i}
	}
	slices.SortFunc(points, func(a, b valuePoint) int { return slices.Compare(a.v[:], b.v[:]) })
	second := make([]float64, n)
	for i := range points {
		second[i] = points[i].v[1]
	}
	slices.Sort(second)
	second = slices.Compact(second)
	best := make([]float64, len(second)+1) // [r]: smallest third goal of the ranks that node r covers
	for i := range best {
		best[i] = math.Inf(1)
	}
	on := make([]bool, n)
	for i := 0; i < n; {
		p := points[i].v
		rank := sort.SearchFloat64s(second, p[1]) + 1
		least := math.Inf(1)
		for r := rank; r > 0; r &= r - 1 {
			least = min(least, best[r])
		}
		for ; i < n && points[i].v == p; i++ {
			on[points[i].at] = least > p[2]
		}
		for r := rank; r < len(best); r += r & -r {
			best[r] = min(best[r], p[2])
		}
	}
	return on
}

// valuePoint is a point of a front in computation.
type valuePoint struct {
	v  [maxGoals]float64
	at int
}

// Cost returns a value of the goal as a cost to be minimised.
func (g Goal) Cost(v float64) float64 {
	if g.Maximize {
		return -v
	}
	return v
}
