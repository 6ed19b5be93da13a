package values

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// TestValuesSeeScaleMistakes: 8-bit and 4-bit keys and values take their scales from the bytes that the program reads and stores, with bank units and
// with a rank unit. A read or an append at a wrong place changes the outputs or is refused.
func TestValuesSeeScaleMistakes(t *testing.T) {
	deep.Heavy(t)
	for i, c := range []struct {
		unit, part       string
		dim, bits, group int
	}{
		{pim.BankUnits, "ddr4-3200-8gb-x8", 128, 8, 0}, {pim.BankUnits, "ddr4-3200-8gb-x8", 96, 4, 128}, {pim.BankUnits, "ddr5-4800-16gb-x8", 64, 4, 0},
		{pim.RankLevelUnit, "ddr4-3200-8gb-x8", 128, 8, 0}, {pim.RankLevelUnit, "ddr4-2400-16gb-x16", 128, 8, 128}, {pim.RankLevelUnit, "ddr4-3200-8gb-x4", 80, 4, 0}, {pim.RankLevelUnit, "ddr4-3200-8gb-x8", 512, 8, 0},
	} {
		if i%3 != 1 && !deep.On() {
			continue
		}
		p := &valueProblem{spec: pim.Default(), device: parts.Of(t, c.part), shape: pim.HeadShape{HeadDim: c.dim, Queries: 2, ElementBits: 16, KVBits: c.bits, KeyGroup: c.group, ScaleBytes: 4}}
		p.spec.ProcessingUnit = c.unit
		g, err := pim.NewGeometry(p.device, p.shape)
		parts.Must(t, err)
		context := 2*g.ScaleChunks*g.ChunkTokens + 21 // of three bursts of scales a bank, or two rows
		h := machine.Head{Context: context, Appends: true}
		v := (&dataKinds[1]).vectors(rand.New(rand.NewPCG(8, uint64(c.dim))), StoreFP16, p.shape, context)
		v.quantise(p, &g, &h)
		p.heads, p.vectors, p.rows = []machine.Head{h}, []headVectors{v}, g.Rows(context)
		p.compare(t)
		run := func(spoil func(*machine.Instruction) bool) ([]headResult, error) {
			m, program, data := p.machine(t)
			parts.Must(t, m.begin(program, data))
			for {
				list := program.Next(nil)
				if len(list) == 0 {
					return m.results, nil
				}
				for i := range list {
					if spoil(&list[i]) {
						continue // dropped
					}
					if err := m.execute(&list[i]); err != nil {
						return nil, err
					}
				}
			}
		}
		want, err := run(func(*machine.Instruction) bool { return false })
		parts.Must(t, err)
		first := int32(g.RowBursts - g.ScaleColumns(0, g.RowTokens))
		bank := func(ordinal int) func(in *machine.Instruction) bool {
			group, b := g.Bank(ordinal)
			return func(in *machine.Instruction) bool { return in.BankGroup == int8(group) && in.Bank == int8(b) }
		}
		third := bank(3)
		newest := bank(g.ValueScaleBank(context - 1))
		for _, mistake := range []struct {
			name  string
			spoil func(in *machine.Instruction) bool // true: the instruction is dropped
		}{
			{"scales read from column 0 on", func(in *machine.Instruction) bool {
				if in.Op == machine.OpReadScale {
					in.Column -= first
				}
				return false
			}},
			{"scales read a column early", func(in *machine.Instruction) bool {
				if in.Op == machine.OpReadScale {
					in.Column--
				}
				return false
			}},
			{"the first columns read twice", func(in *machine.Instruction) bool {
				if in.Op == machine.OpReadScale && in.Column == first+1 {
					in.Column--
				}
				return false
			}},
			{"a bank's scales not read", func(in *machine.Instruction) bool { return in.Op == machine.OpReadScale && third(in) }},
			{"another bank's scales read", func(in *machine.Instruction) bool {
				if in.Op == machine.OpReadScale && in.Row&1 == 1 {
					in.BankGroup ^= 1
					in.Bank = int8(g.Banks/g.BankGroups) - 1
				}
				return false
			}},
			{"values' scales not read", func(in *machine.Instruction) bool { return in.Op == machine.OpReadScale && in.Row&1 == 1 }},
			{"no scale appended", func(in *machine.Instruction) bool { return in.Op == machine.OpAppendScale }},
			{"the value's scale not appended", func(in *machine.Instruction) bool {
				return in.Op == machine.OpAppendScale && in.Row&1 == 1 && newest(in)
			}},
			{"scales appended a column late", func(in *machine.Instruction) bool {
				if in.Op == machine.OpAppendScale {
					in.Column ^= 1
				}
				return false
			}},
			{"scales appended for the chunk before", func(in *machine.Instruction) bool {
				if in.Op == machine.OpAppendScale {
					in.Token -= int32(g.ChunkTokens)
				}
				return false
			}},
			{"scales appended to another bank", func(in *machine.Instruction) bool {
				if in.Op == machine.OpAppendScale {
					in.Bank = (in.Bank + 1) % int8(g.Banks/g.BankGroups)
				}
				return false
			}},
			{"scales appended over keys and values", func(in *machine.Instruction) bool {
				if in.Op == machine.OpAppendScale {
					in.Column = 0
				}
				return false
			}},
		} {
			if mistake.name == "the first columns read twice" && g.ScaleColumns(0, g.RowTokens) == 1 {
				continue
			}
			got, err := run(mistake.spoil)
			same := err == nil
			for q := range want[0].out {
				same = same && slices.EqualFunc(got[0].out[q], want[0].out[q], sameBits)
			}
			if same {
				t.Errorf("%s is not seen: %+v", mistake.name, c)
			}
		}
	}
}

// TestScalesAreWhereTheyAreStored: scale and zero come back from the bytes of every token's place, on every chip width, and are nowhere else.
func TestScalesAreWhereTheyAreStored(t *testing.T) {
	for _, part := range []string{"ddr4-3200-8gb-x8", "ddr4-3200-8gb-x4", "ddr4-2400-16gb-x16", "ddr5-4800-16gb-x8", "ddr5-4800an-32gb-x4", "ddr5-5600-16gb-x16"} {
		d, err := dram.LookupSpec(part)
		parts.Must(t, err)
		shape := pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8, ScaleBytes: 4}
		m, err := newValueMachine(pim.Default(), d, shape, StoreFP16, 4)
		parts.Must(t, err)
		r := rand.New(rand.NewPCG(1, 2))
		tokens := m.mapping.RowTokens + 40
		var want [][2]pim.Scales
		key := make([]uint16, 128)
		for token := range tokens {
			s := [2]pim.Scales{pim.ScalesOf(r.Uint32() & 0x7bff7bff), pim.ScalesOf(r.Uint32() & 0x3bffbbff)}
			want = append(want, s)
			parts.Must(t, m.store(0, token, key, key))
			parts.Must(t, m.storeScales(0, token, s))
		}
		for token := range tokens {
			for kv, s := range want[token] {
				ordinal, row, column, word := m.mapping.ScalePlace(pim.KV(kv), token)
				beats := m.rawBurst(ordinal, row, column)
				lanes := m.mapping.Exchange.Lanes
				if got := pim.ScalesOf(uint32(beats[32*word/lanes] >> (32 * word % lanes))); got != s {
					t.Fatalf("%s: %v of token %d is %v, want %v", part, pim.KV(kv), token, got, s)
				}
			}
		}
	}
}

// TestGroupOfSeveralColumns: the scales of a group's elements take more columns than those of the head's own tokens, at the head's end
// and where a page begins inside a group.
func TestGroupOfSeveralColumns(t *testing.T) {
	for _, c := range []struct {
		part            string
		dim, bits, size int
	}{{"ddr4-2400-16gb-x16", 200, 4, 256}} {
		shape := pim.HeadShape{HeadDim: c.dim, Queries: 2, ElementBits: 16, KVBits: c.bits, KeyGroup: c.size, ScaleBytes: 4}
		d := parts.Of(t, c.part)
		g, err := pim.NewGeometry(d, shape)
		parts.Must(t, err)
		block := g.ScaleChunks * g.ChunkTokens // tokens whose scales share a column
		if c.size <= block || g.RowTokens < c.size {
			t.Fatalf("%s: a group of %d tokens, a column of scales has %d tokens and a row %d", c.part, c.size, block, g.RowTokens)
		}
		late := pim.TokenList{{Start: 0, Unit: 0, Chunk: block / g.ChunkTokens}} // the only page begins in the group's second column
		for _, list := range []pim.TokenList{nil, late} {
			for _, context := range []int{1, g.ChunkTokens + 1, c.size - block} {
				for _, appends := range []bool{false, true} {
					p := &valueProblem{spec: pim.Default(), device: d, shape: shape}
					h := machine.Head{Context: context, Appends: appends, List: list}
					v := (&dataKinds[1]).vectors(rand.New(rand.NewPCG(9, uint64(context))), StoreFP16, p.shape, context)
					v.quantise(p, &g, &h)
					p.heads, p.vectors, p.rows = []machine.Head{h}, []headVectors{v}, g.Rows(g.RowTokens)
					p.compare(t)
				}
			}
		}
	}
}
