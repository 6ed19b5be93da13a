package flow

import "github.com/l3sim/l3sim/units"

// Imbalance measures how evenly decode attention lies on the ranksets. Within a
// layer a sub-batch goes on when its last group does, so what counts is its
// busiest rankset against the mean over all of them.
//
// Both sums are over layers and sub-batches. Their ratio is therefore weighted by
// time, and it is what an uneven load costs: with a barrier after every layer and
// nothing but attention taking time, a run takes exactly busiest, and mean if all
// were even.
type Imbalance struct {
	busiest units.Total // attention of the busiest rankset, layer by layer of each iteration
	total   units.Total // attention of all ranksets, layer by layer of each iteration
}

// Ratio returns the busiest rankset's time over the mean's: 1 where all are even,
// the number of ranksets where only one ever works, 0 where all are idle.
func (m *Imbalance) Ratio(ranksets int) float64 {
	if m.total == (units.Total{}) {
		return 0
	}
	return m.busiest.Picoseconds() * float64(ranksets) / m.total.Picoseconds()
}

// Join adds what another replica has.
func (m *Imbalance) Join(o *Imbalance) {
	m.busiest.AddTotal(o.busiest)
	m.total.AddTotal(o.total)
}

// Add adds a layer of a sub-batch.
func (m *Imbalance) Add(busiest, all units.Duration) {
	m.busiest.Add(busiest)
	m.total.Add(all)
}
