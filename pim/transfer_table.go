package pim

import (
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// TransferTable holds the clocks of what the host sends to a rank and takes from
// it, filled by command-level runs on package dram's state, without refresh. It is
// exact for every part of a head: within a row, clocks depend on the first token's
// place in its chunk (its column, for values) and on the number of tokens, and
// grow by the same with every further chunk. Rows do not depend on each other: all
// banks close in between.
type TransferTable struct {
	geometry    Geometry
	rows        [2]rowClocks // of keys, of values
	whole       int64        // keys and values of a whole row of tokens
	burst       int64        // BL/2
	stage, take int64        // between bursts into the rank PU's staging, and out of it
}

// rowClocks holds the clocks of some tokens of one row, from the first command to
// banks precharged.
type rowClocks struct {
	period    int     // tokens of a chunk, or of a column
	lead      int     // tokens up to which entries are runs
	entries   []int64 // by place of the first token within the period, then by tokens
	perPeriod int64   // of each further period
}

// NewTransferTable runs the transfers that the table needs: some thousand, of a
// few tokens each. A shape that does not fit the rank is an input.Error.
func NewTransferTable(d *dram.Spec, shape HeadShape) (*TransferTable, error) {
	g, err := NewGeometry(d, shape)
	if err != nil {
		return nil, err
	}
	if err := input.Validate(d); err != nil {
		return nil, err
	}
	t := &TransferTable{geometry: g, burst: int64(d.BurstClocks())}
	h := hostStream{state: dram.NewState(d, 1), refresh: &refreshManager{}}
	for kv, period := range []int{Key: g.ChunkTokens, Value: g.ColumnTokens} {
		if t.rows[kv], err = h.fillRow(&g, KV(kv), period); err != nil {
			return nil, err
		}
		t.whole += t.rows[kv].clocks(0, g.RowTokens)
	}
	t.stage, t.take = h.every(dram.WRBUF), h.every(dram.RDRES)
	return t, nil
}

// fillRow runs all parts of a row up to the length from which on each further
// period adds the same, whatever the first token's place.
func (h *hostStream) fillRow(g *Geometry, kv KV, period int) (rowClocks, error) {
	r := rowClocks{period: period}
	for periods := 3; ; periods++ {
		r.lead = min(periods*period, g.RowTokens)
		r.entries = r.entries[:0]
		for place := range period {
			for n := range r.lead {
				r.entries = append(r.entries, h.rowClocks(g, kv, place, min(n+1, g.RowTokens-place)))
			}
		}
		if r.lead == g.RowTokens {
			return r, nil
		}
		r.perPeriod = r.entries[r.lead-1] - r.entries[r.lead-1-period]
		if r.even() && r.clocks(0, g.RowTokens) == h.rowClocks(g, kv, 0, g.RowTokens) {
			return r, nil
		}
		if periods == 16 {
			return r, &input.Error{Key: "tCCD_L", Value: fmt.Sprint(h.state.Spec().TCCDL),
				Expected: "timings with which a row's bursts follow each other evenly after 16 chunks"}
		}
	}
}

// even reports whether the last period adds the same for every place and number of
// tokens.
func (r *rowClocks) even() bool {
	for place := range r.period {
		row := r.entries[place*r.lead : (place+1)*r.lead]
		for n := r.lead - r.period; n < r.lead; n++ {
			if row[n]-row[n-r.period] != r.perPeriod {
				return false
			}
		}
	}
	return true
}

// clocks returns the clocks of n tokens from token from of a row on.
func (r *rowClocks) clocks(from, n int) int64 {
	more := 0
	if n > r.lead {
		more = (n - r.lead + r.period - 1) / r.period
	}
	return r.entries[from%r.period*r.lead+n-more*r.period-1] + int64(more)*r.perPeriod
}

// rowClocks runs n tokens of a row from token from on.
func (h *hostStream) rowClocks(g *Geometry, kv KV, from, n int) int64 {
	h.state.Reset()
	h.now = -1
	h.row(&Transfer{Geometry: *g}, kv, 0, from, from+n)
	return h.state.Earliest(dram.REF, allBankAddress)
}

// every returns the clocks between two bursts of a command for the whole rank.
func (h *hostStream) every(cmd dram.Command) int64 {
	h.state.Reset()
	h.now = -1
	h.command(allBanks(cmd, OpLoadQuery, -1, -1))
	first := h.now
	h.command(allBanks(cmd, OpLoadQuery, -1, -1))
	return h.now - first
}

// TokenBursts returns the bursts of one key or value, padding included.
func (t *TransferTable) TokenBursts() int { return t.geometry.TokenBursts }

// Write returns the clocks in which the host stores the keys and values of tokens
// tokens of one head from token first on, with rows opened and closed, from its
// first command until all banks are precharged.
func (t *TransferTable) Write(first, tokens int) int64 {
	g := &t.geometry
	clocks := int64(0)
	if from := first % g.RowTokens; from > 0 && tokens > 0 {
		n := min(tokens, g.RowTokens-from)
		clocks = t.rows[Key].clocks(from, n) + t.rows[Value].clocks(from, n)
		tokens -= n
	}
	clocks += int64(tokens/g.RowTokens) * t.whole
	if n := tokens % g.RowTokens; n > 0 {
		clocks += t.rows[Key].clocks(0, n) + t.rows[Value].clocks(0, n)
	}
	return clocks
}

// Stage returns the clocks in which bursts bursts reach the rank PU's staging,
// from the first beat to the last.
func (t *TransferTable) Stage(bursts int64) int64 { return span(bursts, t.stage, t.burst) }

// Take returns the clocks in which bursts bursts leave the rank PU, from the first
// beat to the last.
func (t *TransferTable) Take(bursts int64) int64 { return span(bursts, t.take, t.burst) }

func span(bursts, every, burst int64) int64 {
	if bursts == 0 {
		return 0
	}
	return (bursts-1)*every + burst
}
