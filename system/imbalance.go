package system

import "github.com/l3sim/l3sim/units"

// imbalance measures how evenly decode attention lies on the ranksets. Within a
// layer a sub-batch goes on when its last group does, so what counts is its
// busiest rankset against the mean over all of them.
//
// Both sums are over layers and sub-batches. Their ratio is therefore weighted by
// time, and it is what an uneven load costs: with a barrier after every layer and
// nothing but attention taking time, a run takes exactly busiest, and mean if all
// were even.
type imbalance struct {
	busiest units.Total // attention of the busiest rankset, layer by layer of each iteration
	total   units.Total // attention of all ranksets, layer by layer of each iteration
}

// ratio returns the busiest rankset's time over the mean's: 1 where all are even,
// the number of ranksets where only one ever works, 0 where all are idle.
func (m *imbalance) ratio(ranksets int) float64 {
	if m.total == (units.Total{}) {
		return 0
	}
	return m.busiest.Picoseconds() * float64(ranksets) / m.total.Picoseconds()
}

// join adds what another replica has.
func (m *imbalance) join(o *imbalance) {
	m.busiest.AddTotal(o.busiest)
	m.total.AddTotal(o.total)
}

// add adds a layer of a sub-batch.
func (m *imbalance) add(busiest, all units.Duration) {
	m.busiest.Add(busiest)
	m.total.Add(all)
}
