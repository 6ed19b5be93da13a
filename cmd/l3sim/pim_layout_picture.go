package main

import (
	"fmt"
	"strconv"

	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/results/figure"
)

// layoutPicture draws the row of keys and the row of values that hold a token, by bank and column and darker for later
// tokens, and the token's bursts over the chips. It marks the cells of the token.
func layoutPicture(m *pim.Mapping, token int, kv pim.KV) *figure.Grids {
	g := &figure.Grids{Title: fmt.Sprintf("Token %d of a head of %d elements of %d bits", token, m.HeadDim, m.ElementBits)}
	if m.ValueDim != m.HeadDim {
		g.Title = fmt.Sprintf("Token %d of a head with keys of %d elements of %d bits and values of %d", token, m.HeadDim, m.ElementBits, m.ValueDim)
	}
	first := token - token%m.RowTokens
	var banks, chips []string
	for ordinal := range m.Banks {
		group, bank := m.Bank(ordinal)
		banks = append(banks, fmt.Sprintf("bank %d.%d", group, bank))
	}
	for chip := range m.Chips {
		chips = append(chips, fmt.Sprintf("chip %d", chip))
	}
	for _, row := range []pim.KV{pim.Key, pim.Value} {
		what, at := "keys", m.KeyRow(token)
		if row == pim.Value {
			what, at = "values", m.ValueRow(token)
		}
		g.Panels = append(g.Panels, figure.Grid{
			Title: fmt.Sprintf("Row %d: %s of tokens %d (pale) to %d (dark), the token's outlined", at, what, first, first+m.RowTokens-1),
			X:     fmt.Sprintf("column, a burst of %d bytes over all chips", m.BurstBytes), Columns: m.RowBursts, Rows: banks,
			Cell: func(column, ordinal int) (float64, string, bool) {
				of, _ := m.RowToken(row, ordinal, int32(column))
				if of >= m.RowTokens {
					return -1, "", false
				}
				return float64(of) / float64(m.RowTokens), "", first+of == token
			},
		})
	}
	n := m.ChipElements()
	held := map[[2]int]int{} // element by chip and position in the chip's part of the bursts
	for e := range m.Padded(kv) {
		p := m.Place(kv, token, e)
		held[[2]int{p.Chip, e/m.BurstElements()*n + p.Bit/m.ElementBits}] = e
	}
	g.Panels = append(g.Panels, figure.Grid{
		Title: fmt.Sprintf("Elements of the token's %s over the chips: %d bursts of %d", map[pim.KV]string{pim.Key: "key", pim.Value: "value"}[kv], m.Bursts(kv), m.BurstElements()),
		X:     fmt.Sprintf("place in a chip's shares of the bursts, %d a burst", n), Columns: n * m.Bursts(kv), Rows: chips,
		Cell: func(column, chip int) (float64, string, bool) {
			e := held[[2]int{chip, column}]
			if e >= m.Elements(kv) {
				return 0, "", false // padding
			}
			return 0.1 + 0.8*float64(e)/float64(m.Padded(kv)), strconv.Itoa(e), false
		},
	})
	return g
}
