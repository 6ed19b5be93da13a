package flow

import "github.com/l3sim/l3sim/units"

// Imbalance measures how evenly decode attention lies on the ranksets. Within a layer a sub-batch
// waits for its last group, so the measure is its busiest rankset against the mean over all of
// them.
//
// Both are summed over layers and sub-batches, so their ratio is weighted by time. It is the cost
// of an uneven load: if only attention took time, with a barrier after every layer, a run would
// take busiest, and mean under an even load.
type Imbalance struct {
	busiest units.Total // attention time of the busiest rankset, summed over layers and iterations
	total   units.Total // attention time of all ranksets, summed over layers and iterations
}

// Ratio returns the busiest rankset's time over the mean: 1 if all are even, the number of ranksets
// if only one ever works, 0 if all are idle.
func (m *Imbalance) Ratio(ranksets int) float64 {
	if m.total == (units.Total{}) {
		return 0
	}
	return m.busiest.Picoseconds() * float64(ranksets) / m.total.Picoseconds()
}

// Join adds the sums of another replica.
func (m *Imbalance) Join(o *Imbalance) {
	m.busiest.AddTotal(o.busiest)
	m.total.AddTotal(o.total)
}

// Add adds a layer of a sub-batch: the attention time of its busiest rankset, and of all.
func (m *Imbalance) Add(busiest, all units.Duration) {
	m.busiest.Add(busiest)
	m.total.Add(all)
}
