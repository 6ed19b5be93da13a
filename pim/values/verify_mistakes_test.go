package values

import (
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// spoil is a runner that changes the stored bytes once, and each instruction.
func spoil(memory func(*valueMachine), instruction func(*machine.Program, *machine.Instruction)) runner {
	return func(m *valueMachine, p *machine.Program, data []headData) ([]headResult, error) {
		if memory != nil {
			memory(m)
		}
		if err := m.begin(p, data); err != nil {
			return nil, err
		}
		for {
			list := p.Next(nil)
			if len(list) == 0 {
				return m.results, nil
			}
			for i := range list {
				if instruction != nil {
					instruction(p, &list[i])
				}
				if err := m.execute(&list[i]); err != nil {
					return nil, err
				}
			}
		}
	}
}

// bank returns a chip's share of one bank's row, and makes the machine decode it at each read.
func bank(m *valueMachine, chip, row, ordinal int) [][]byte {
	m.decoded = nil
	var columns [][]byte
	for column := range m.mapping.RowBursts {
		at := m.cell(int32(row), int32(column)) + 8*ordinal
		columns = append(columns, m.chips[chip].cells[at:at+8])
	}
	return columns
}

// Verify detects every mistake in storing, mapping or issuing: outputs are compared bit for bit.
func TestVerifySeesMistakes(t *testing.T) {
	deep.Heavy(t)
	x := oneCase(t, synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 300, dim: 128, size: 1})
	clearBanks := func(row, first, n int) func(*valueMachine) {
		return func(m *valueMachine) {
			for chip := range m.chips {
				for ordinal := first; ordinal < first+n; ordinal++ {
					for _, column := range bank(m, chip, row, ordinal) {
						clear(column)
					}
				}
			}
		}
	}
	for i, c := range []struct {
		name        string
		memory      func(*valueMachine)
		instruction func(*machine.Program, *machine.Instruction)
		pass        bool
		broadcast   bool // of weights to the banks: a rank-level unit has none
	}{
		{"no mistake", nil, nil, true, false},
		{"re-layout off", func(m *valueMachine) {
			m.mapping.Exchange.Group = 1 // beats pass unchanged; the program is the same
			for token := range x.Keys - 1 {
				at := token * x.HeadDim
				if err := m.store(0, token, x.storedK[at:at+x.HeadDim], x.storedV[at:at+x.HeadDim]); err != nil {
					t.Fatal(err)
				}
			}
			m.mapping.Exchange.Group = 2
		}, nil, false, false},
		{"one of the four byte swaps missing", func(m *valueMachine) {
			for row := range m.rows {
				for ordinal := range m.mapping.Banks {
					a, b := bank(m, 2, row, ordinal), bank(m, 3, row, ordinal)
					for i := range a {
						for p := 0; p < 8; p += 2 {
							a[i][p+1], b[i][p] = b[i][p], a[i][p+1]
						}
					}
				}
			}
		}, nil, false, false},
		{"two byte lanes of the values swapped", func(m *valueMachine) {
			for ordinal := range m.mapping.Banks {
				a, b := bank(m, 2, 1, ordinal), bank(m, 3, 1, ordinal)
				for i := range a {
					for p := range a[i] {
						a[i][p], b[i][p] = b[i][p], a[i][p]
					}
				}
			}
		}, nil, false, false},
		{"a bank of keys dropped", clearBanks(0, 5, 1), nil, false, false},
		{"a bank of values dropped", clearBanks(1, 5, 1), nil, false, false},
		{"a quad of values dropped", clearBanks(1, 4, 4), nil, false, false},
		{"a weight broadcast one chunk early", nil, func(p *machine.Program, in *machine.Instruction) {
			if in.Op == machine.OpLoadWeights {
				in.Token += int32(p.Geometry.ChunkTokens)
			}
		}, false, true},
		{"one set of weights of all repeated", nil, func(p *machine.Program, in *machine.Instruction) {
			if in.Op == machine.OpLoadWeights && in.Token == int32(p.SetTokens) {
				in.Token = 0
			}
		}, false, true},
		{"the newest token not appended", nil, func(_ *machine.Program, in *machine.Instruction) {
			if in.Op == machine.OpAppendKey {
				in.Column ^= 1
			}
		}, false, false},
		{"values read a column late", nil, func(_ *machine.Program, in *machine.Instruction) {
			if in.Op == machine.OpReadValue || in.Op == machine.OpContext {
				in.Column ^= 1
			}
		}, false, false},
		{"keys read by a rank-level unit taken for the next token's", nil, func(_ *machine.Program, in *machine.Instruction) {
			if in.Op == machine.OpReadKey && in.Bank == 0 || in.Op == machine.OpScore && in.Burst == 0 {
				in.Column ^= 1
			}
		}, false, false},
		{"accumulators started twice", nil, func(_ *machine.Program, in *machine.Instruction) {
			if in.Op == machine.OpReadValue || in.Op == machine.OpContext {
				in.First = in.First || in.Token == 64
			}
		}, false, false},
	} {
		for j, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
			for k, preset := range []string{"fp32", "paper"} {
				if !deep.Case(i+j+k, 2) {
					continue
				}
				spec := precision(preset)
				spec.ProcessingUnit = unit
				r, err := verify(t.Context(), spec, parts.DDR4(t), x, spoil(c.memory, c.instruction))
				if err != nil {
					t.Fatal(err)
				}
				if pass := c.pass || unit == pim.RankLevelUnit && c.broadcast; r.Pass != pass {
					t.Errorf("%s, %s, %s: %+v", c.name, unit, preset, r)
				}
			}
		}
	}
}
