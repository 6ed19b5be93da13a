package tables

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/series"
)

// TransferTable holds the clocks of transfers between the host and a rank, measured by command-level runs on package dram's state, without
// refresh. It is exact for every part of a head. Within a row, clocks depend on the number of tokens and on the first token's position in
// its chunk (its column, for values), and each further chunk adds the same. Rows are independent: all banks close in between.
type TransferTable struct {
	geometry    pim.Geometry
	rows        [2][]series.Series[clocks] // of keys, of values: by position of the first token, by number of tokens
	whole       int64                      // keys and values of a whole row of tokens, written
	wholeBack   int64                      // the same, read back to the host
	burst       int64                      // BL/2
	stage, take int64                      // clocks between bursts into the buffer unit's staging, and out of it
}

type clocks int64 // as amounts of a series

func (a clocks) Plus(b clocks, n float64) clocks { return a + clocks(n)*b }

// NewTransferTable runs the transfers that the table needs: some thousand, of a few tokens each. It returns an input.Error for a shape that
// does not fit the rank.
func NewTransferTable(d *dram.Spec, shape pim.HeadShape) (*TransferTable, error) {
	g, err := pim.NewGeometry(d, shape)
	if err != nil {
		return nil, err
	}
	if err := noParts(shape); err != nil {
		return nil, err
	}
	if err := input.Validate(d); err != nil {
		return nil, err
	}
	t := &TransferTable{geometry: g, burst: int64(d.BurstClocks())}
	h := machine.NewHostStream(d)
	for kv, period := range []int{pim.Key: g.ChunkTokens, pim.Value: g.ColumnTokens} {
		for place := range period {
			t.rows[kv] = append(t.rows[kv], series.New(g.RowTokens-place, func(i int) clocks {
				return clocks(h.RowClocks(&g, pim.KV(kv), place, i+1))
			}, period))
		}
	}
	t.whole = t.row(0, g.RowTokens)
	for _, kv := range []pim.KV{pim.Key, pim.Value} {
		t.wholeBack += h.RowBackClocks(&g, kv)
	}
	t.stage, t.take = h.Every(dram.WRBUF), h.Every(dram.RDRES)
	return t, nil
}

// row returns the clocks to write keys and values of n tokens of a row, from token from on.
func (t *TransferTable) row(from, n int) int64 {
	sum := int64(0)
	for _, places := range t.rows {
		sum += int64(places[from%len(places)].At(n - 1))
	}
	return sum
}

// QueryBursts returns the number of bursts of one query, including padding.
func (t *TransferTable) QueryBursts() int { return t.geometry.QueryBursts }

// KVBursts returns the number of bursts of one key and its value together, including padding.
func (t *TransferTable) KVBursts() int { return t.geometry.KeyBursts + t.geometry.ValueBursts }

// ScaleBursts returns the number of bursts of scales for tokens tokens of one head, from token first on. They follow the keys and values in
// the open rows: one for each bank and each group of chunks that share a burst, masked if the burst also has other tokens' scales.
func (t *TransferTable) ScaleBursts(first, tokens int) (bursts int64) {
	g := &t.geometry
	for block := g.ScaleChunks * g.ChunkTokens; block > 0 && tokens > 0; {
		from := first % g.RowTokens
		n := min(tokens, g.RowTokens-from, block-from%block)
		bursts += 2 * int64(min(n, g.Banks))
		first, tokens = first+n, tokens-n
	}
	return bursts
}

// Scales returns the clocks of back-to-back bursts of scales.
func (t *TransferTable) Scales(bursts int64) int64 { return bursts * t.burst }

// Write returns the clocks in which the host stores the keys and values of tokens tokens of one head, from token first on, including
// opening and closing of rows: from its first command until all banks are precharged.
func (t *TransferTable) Write(first, tokens int) int64 {
	g := &t.geometry
	clocks := int64(0)
	if from := first % g.RowTokens; from > 0 && tokens > 0 {
		n := min(tokens, g.RowTokens-from)
		clocks = t.row(from, n)
		tokens -= n
	}
	clocks += int64(tokens/g.RowTokens) * t.whole
	if n := tokens % g.RowTokens; n > 0 {
		clocks += t.row(0, n)
	}
	return clocks
}

// ReadBack returns the clocks in which the host reads back the keys and values of tokens of one head, through the inverse re-layout,
// including opening and closing of rows. Tokens are rounded up to whole rows.
func (t *TransferTable) ReadBack(tokens int) int64 {
	return int64((tokens+t.geometry.RowTokens-1)/t.geometry.RowTokens) * t.wholeBack
}

// Stage returns the clocks in which a number of bursts reach the buffer unit's staging, from the first beat to the last.
func (t *TransferTable) Stage(bursts int64) int64 { return span(bursts, t.stage, t.burst) }

// Take returns the clocks in which a number of bursts leave the buffer unit, from the first beat to the last.
func (t *TransferTable) Take(bursts int64) int64 { return span(bursts, t.take, t.burst) }

// span returns the clocks of bursts at intervals of every clocks; the last takes burst clocks.
func span(bursts, every, burst int64) int64 {
	if bursts == 0 {
		return 0
	}
	return (bursts-1)*every + burst
}
