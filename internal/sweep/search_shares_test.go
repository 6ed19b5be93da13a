package sweep

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results"
)

// checkHypervolume compares the share of a search of two goals with areas of strips, which are as high as
// the best second goal so far.
func checkHypervolume(t *testing.T, found *Found, one *results.SearchRun) {
	t.Helper()
	table, err := found.Plan.Table(found.Outcome)
	if err != nil {
		t.Fatal(err)
	}
	means, _, _, err := table.Means()
	if err != nil {
		t.Fatal(err)
	}
	front := found.Front.Front
	rateLow, rateHigh, setsLow, setsHigh := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, p := range front {
		rateLow, rateHigh = min(rateLow, p.Values[0]), max(rateHigh, p.Values[0])
		setsLow, setsHigh = min(setsLow, p.Values[1]), max(setsHigh, p.Values[1])
	}
	area := func(points [][2]float64) float64 { // in units of the front's width and height
		slices.SortFunc(points, func(a, b [2]float64) int { return cmp.Compare(a[1], b[1]) })
		sum, best := 0.0, rateLow-0.1*(rateHigh-rateLow)
		last := setsHigh + 0.1*(setsHigh-setsLow)
		for i, p := range points {
			next := last
			if i+1 < len(points) {
				next = min(last, points[i+1][1])
			}
			best = max(best, p[0])
			sum += max(0, next-min(last, p[1])) / (setsHigh - setsLow) * (best - rateLow + 0.1*(rateHigh-rateLow)) / (rateHigh - rateLow)
		}
		return sum
	}
	var whole, own [][2]float64
	for _, p := range front {
		whole = append(whole, [2]float64{p.Values[0], p.Values[1]})
	}
	rate, sets, limit := slices.Index(means.Columns, "output_tokens_per_s"), slices.Index(means.Columns, "node.ranksets"), slices.Index(means.Columns, "ttft_mean_ms")
	for _, i := range one.Points {
		x, _ := means.Number(i, rate)
		y, _ := means.Number(i, sets)
		if z, _ := means.Number(i, limit); z <= 24 {
			own = append(own, [2]float64{x, y})
		}
	}
	if want, got := area(own)/area(whole), one.Hypervolume[len(one.Hypervolume)-1]; math.Abs(got-want) > 1e-9 {
		t.Errorf("%s, seed %d: a share of %g, not %g", one.Method, one.Seed, got, want)
	}
}

// TestShares: searches with a small budget have the shares of the front that areas give, and
// influences are of the points that methods drew which do not choose.
func TestShares(t *testing.T) {
	found, err := parsed(t, strings.Replace(space, "evaluations = 30", "evaluations = 12", 1)).Run(t.Context(), RunOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	drawn, partial := map[int]bool{}, 0
	for _, one := range found.Search.Searches {
		checkHypervolume(t, found, &one)
		if last := one.Hypervolume[len(one.Hypervolume)-1]; last < 0.999 {
			partial++
		}
		for _, p := range one.Points {
			drawn[p] = drawn[p] || one.Method != "nsga2"
		}
	}
	n := 0
	for _, is := range drawn {
		if is {
			n++
		}
	}
	for _, in := range found.Search.Influences {
		if in.Points != n || n == len(drawn) {
			t.Errorf("%s has %d points; %d of %d were drawn", in.Column, in.Points, n, len(drawn))
		}
	}
	if partial < 3 || len(found.Search.Influences) == 0 {
		t.Errorf("%d searches found a part, %d influences", partial, len(found.Search.Influences))
	}
}
