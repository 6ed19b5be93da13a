package sweep

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/search"
	"github.com/l3sim/l3sim/results"
)

// beyond is how far the reference of the hypervolume is beyond the worst values on the front
// of all searches, as a share of the front's width, so that its ends count. Our choice, the
// one of most benchmarks; it moves shares, and hardly their order.
const beyond = 0.1

// judge fills in what all searches together found: the front, how much of it each search
// reached, and which axes matter.
func (s *searcher) judge(found *Found, searches []results.SearchRun) error {
	var front [][]float64
	for _, d := range s.designs {
		if d.Violation == 0 {
			front = append(front, d.Costs)
		}
	}
	if len(front) == 0 {
		return s.infeasible()
	}
	record := &results.Search{
		Goals: s.Goals, Limits: s.Limits, Population: s.Population, Evaluations: s.Evaluations, Searches: searches,
		Designs: len(s.designs), Repeats: s.file.Repeats, Feasible: len(front),
	}
	table, err := s.plan.Table(found.Outcome)
	if err != nil {
		return err
	}
	feasible, sampled := *table, *table
	feasible.Rows, sampled.Rows = nil, nil
	drawn := s.drawn(searches)
	for i, d := range s.designs {
		rows := table.Rows[d.first : d.first+s.file.Repeats]
		if d.Violation == 0 {
			feasible.Rows = append(feasible.Rows, rows...)
		}
		if drawn[i] {
			sampled.Rows = append(sampled.Rows, rows...)
		}
	}
	if found.Front, err = results.Explore(&feasible, s.Goals); err != nil {
		return err
	}
	for i := range record.Searches {
		s.measure(&record.Searches[i], front)
	}
	for _, metric := range s.metrics(table) {
		influences, err := results.Influences(&sampled, metric)
		if err != nil {
			return err
		}
		record.Influences = append(record.Influences, influences...)
	}
	found.Search = record
	return nil
}

// metrics returns the columns of goals and constraints that are results, each once.
func (s *searcher) metrics(t *results.Table) []string {
	isKey := t.IsConfig()
	all := slices.DeleteFunc(s.columns(), func(c string) bool { return isKey[slices.Index(t.Columns, c)] })
	slices.Sort(all)
	return slices.Compact(all)
}

// drawn says of each design whether a search that draws, and does not choose, evaluated it.
// Only these are a fair sample of the design space.
func (s *searcher) drawn(searches []results.SearchRun) []bool {
	drawn := make([]bool, len(s.designs))
	for _, one := range searches {
		for _, i := range one.Points {
			drawn[i] = drawn[i] || one.Method != search.NSGA2
		}
	}
	return drawn
}

// measure fills in the hypervolume of a search after each batch, as a share of that of all
// searches together. Costs are scaled to the width of the front.
func (s *searcher) measure(one *results.SearchRun, all [][]float64) {
	goals := len(s.Goals)
	everything := list.Map(all, func(costs []float64) search.Individual { return search.Individual{Score: search.Score{Costs: costs}} })
	front := search.Front(everything, goals)
	least, width, reference := make([]float64, goals), make([]float64, goals), make([]float64, goals)
	for g := range goals {
		by := func(a, b []float64) int { return cmp.Compare(a[g], b[g]) }
		least[g] = slices.MinFunc(front, by)[g]
		if width[g] = slices.MaxFunc(front, by)[g] - least[g]; width[g] == 0 {
			width[g] = 1 // all of the front have one value: any scale will do
		}
		reference[g] = 1 + beyond
	}
	scaled := func(points [][]float64) [][]float64 {
		out := make([][]float64, len(points))
		for i, p := range points {
			for g := range goals {
				out[i] = append(out[i], (p[g]-least[g])/width[g])
			}
		}
		return out
	}
	whole := search.Hypervolume(scaled(front), reference)
	var history []search.Individual
	for i, at := range one.Points {
		history = append(history, search.Individual{Score: s.designs[at].Score})
		if (i+1)%s.Population == 0 || i == len(one.Points)-1 {
			share := search.Hypervolume(scaled(search.Front(history, goals)), reference) / whole
			one.Hypervolume = append(one.Hypervolume, share)
		}
	}
}
