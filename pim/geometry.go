package pim

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// MaxQueries is the largest number of queries that attend to a KV head in a step.
const MaxQueries = 128

// MaxHeadDim is the largest number of elements of a key or a value. The banks of a rank may allow fewer, see NewGeometry.
const MaxHeadDim = 1024

// HeadShape is the shape of one KV head and of the query heads that attend to it.
type HeadShape struct {
	HeadDim     int // d, elements of one head's q, k or v: 8 to 1,024, if a rank has room
	ValueDim    int // elements of v if its width differs from k's: 8 to 1,024; 0 as HeadDim
	Queries     int // g, query heads of the KV head: 1 without grouped-query attention
	ElementBits int // of q, and of k and v unless KVBits differs: 8 or 16
	KVBits      int // of k and v as stored: 4, 8 or 16; 0 as q
	// KVFloat makes 8-bit k and v FP8 (E4M3) with one scale for each tensor. Transfers and times are those of INT8 with one scale. Every
	// E4M3 number is an FP16 number, so FP16 multipliers accept it with a larger exponent and zeros after the fraction.
	KVFloat bool
	// KeyGroup is the number of tokens that share a scale for each element of narrow keys. The query is multiplied by these scales, so it
	// is loaded again for each group. 0: each token has its own scale.
	KeyGroup   int
	ScaleBytes int // bytes of a key's scale and zero in the head's rows, as many as a value's: 0 or 4
	// ValueInKey means that a value is the first ValueDim elements of its token's key, as with latents, and is not stored separately.
	ValueInKey bool
}

// Check has the rules for heads that a rank can compute.
func (h HeadShape) Check(c *input.Check) {
	input.Within(c, "head_dim", h.HeadDim, 8, MaxHeadDim)
	c.That(h.ValueDim == 0 || h.ValueDim >= 8 && h.ValueDim <= MaxHeadDim, "value_dim", h.ValueDim, "8 to %d, or 0 for %s", MaxHeadDim, input.Key("head_dim"))
	c.That(!h.ValueInKey || h.ValueDim > 0 && h.ValueDim <= h.HeadDim, "value_dim", h.ValueDim, "8 to %s = %d, of which values are parts", input.Key("head_dim"), h.HeadDim)
	c.That(!h.ValueInKey || h.StoredBits() == 16 && h.ScaleBytes == 0, "value_in_key", h.ValueInKey, "false with keys and values of fewer than 16 bits")
	c.That(h.Queries >= 1 && h.Queries <= MaxQueries, "queries", h.Queries, "1 to %d query heads on a KV head", MaxQueries)
	c.That(h.ElementBits == 8 || h.ElementBits == 16, "element_bits", h.ElementBits, "8 or 16")
	c.That(h.KVBits == 0 || h.KVBits == 4 || h.KVBits == 8 || h.KVBits == 16, "kv_bits", h.KVBits, "4, 8 or 16, or 0 for %s", input.Key("element_bits"))
	c.That(!h.KVFloat || h.KVBits == 8 && h.ScaleBytes == 0 && h.KeyGroup == 0, "kv_float", h.KVFloat, "false, or 8 bits with one scale a tensor")
	c.That(h.KeyGroup == 0 || h.KeyGroup > 0 && h.StoredBits() < 16, "key_group", h.KeyGroup, "0 with keys of 16 bits")
	c.That(h.ScaleBytes == 0 || h.ScaleBytes == 4, "scale_bytes", h.ScaleBytes, "0 or 4")
	c.That(h.ScaleBytes == 0 || h.KeyGroup == 0 || h.KeyGroup >= h.HeadDim, "key_group", h.KeyGroup,
		"at least %s = %d with scales in the rows, which have as many places for scales of elements as for tokens", input.Key("head_dim"), h.HeadDim)
}

// ValueWidth returns the number of elements of a value.
func (h HeadShape) ValueWidth() int { return cmp.Or(h.ValueDim, h.HeadDim) }

// StoredBits returns the bits of an element of k and v.
func (h HeadShape) StoredBits() int { return cmp.Or(h.KVBits, h.ElementBits) }

// Geometry is the layout of the tokens of one KV head on a rank (L3, section 4.2), in bursts: one burst is one column of one bank over all
// chips. The re-layout determines the chip and byte of an element within its burst.
//
// Bank ordinals number the banks with the bank group varying fastest (see Bank), so that successive ordinals follow each other at tRRD_S
// and tCCD_S.
//
//   - Key of token t: bank ordinal t mod Banks, KeyBursts successive columns there. The Banks tokens of one chunk share row and columns.
//   - Value of token t: one column of ValueBursts successive bank ordinals, which are one bank address in all bank groups (a quad) at d =
//     128. ColumnTokens tokens share a column.
//
// In both layouts a row holds RowTokens tokens over all banks. Token t has row 2·(t/RowTokens) for its key and the next row for its value,
// counted from the head's first row: the two rows are one allocation unit.
//
// A latent's value is the first part of its key, but by default it has its own row. The reason is that a bank has accumulators for one
// burst of a value, while a bank that holds a key has all bursts of the token. Latents of 1,152 B thus take 2,341 B of DDR4. Reading values
// from key rows would need one of two alternatives. Banks could have accumulators for all bursts: 16 KiB in each chip instead of 1 KiB, for
// 128 query heads and 512 elements of FP16. Or the sums of each burst and row are read out, which takes 1,024 clocks of the rank's bus for
// each row and query head while the banks compute for 896, and needs 256 KiB of FP32 accumulators in the buffer unit.
//
// HeadShape.ValueInKey models banks with these accumulators. A value is then the first ValueBursts columns of its key, and an allocation
// unit is one row.
//
// Scales of keys are in the last columns of the key row, those of values in the same columns of the value row. Each scale is in a bank of
// its own vector, so that an append opens no other bank: the tokens of a chunk use different banks, and the scales of several successive
// chunks share a burst.
type Geometry struct {
	BankGroups, Banks int // of the rank
	Chips             int // of the rank
	RowBursts         int // columns of a row
	BurstBytes        int // over all chips

	HeadDim, PaddedDim       int // elements of a key and of a query, before and after zero padding
	ValueDim, PaddedValueDim int // of a value
	ElementBits              int // of keys and values

	KeyBursts    int // bursts of one token's key
	ValueBursts  int // bursts of its value: a power of two, unless it is part of the key
	QueryBursts  int // bursts of one query
	ChunkTokens  int // tokens scored at once: Banks
	ColumnTokens int // tokens whose values share a column: Banks / ValueBursts, or Banks with values in keys
	InKey        bool
	RowTokens    int // tokens in one row over all banks
	ScaleChunks  int // chunks whose scales share a burst; 0 without scales in rows
}

// Quads is the number of sets of banks that can have different rows open in the layout of pages in quads; a set is the banks of one bank
// address. A staggered activation opens each bank separately, so opening different rows takes as long as opening one row of all banks.
const Quads = 4

// pageChunks is the number of chunks in a page of 64 tokens on DDR4, the smallest page that policies select. Rows with scales hold whole
// pages of that size.
const pageChunks = 4

// NewGeometry returns the layout of heads of a shape on ranks of d. It returns an input.Error if a value does not fit one column of all
// banks, or a key a row of one bank.
func NewGeometry(d *dram.Spec, shape HeadShape) (Geometry, error) {
	if err := input.Validate(shape); err != nil {
		return Geometry{}, err
	}
	if err := CheckCommands(d); err != nil {
		return Geometry{}, err
	}
	if _, err := Rearranges(shape.StoredBits(), d); err != nil {
		return Geometry{}, err
	}
	g := Geometry{
		BankGroups: d.BankGroups, Banks: d.Banks(), Chips: d.Chips(),
		RowBursts: d.RowBursts(), BurstBytes: d.BurstBytes(),
		HeadDim: shape.HeadDim, ValueDim: shape.ValueWidth(), ElementBits: shape.StoredBits(), InKey: shape.ValueInKey,
	}
	if err := g.setBursts(shape); err != nil {
		return Geometry{}, err
	}
	g.ChunkTokens = g.Banks
	if g.ColumnTokens = g.Banks; !g.InKey {
		g.ColumnTokens /= g.ValueBursts
	}
	if g.RowTokens = g.rowChunks(shape) * g.ChunkTokens; g.RowTokens == 0 {
		return Geometry{}, &input.Error{Key: "scale_bytes", Value: fmt.Sprint(shape.ScaleBytes), Expected: "0: a row has no room for a key and its scale"}
	}
	if n := shape.KeyGroup; n > 0 && (n%g.ChunkTokens != 0 || g.RowTokens%n != 0) {
		return Geometry{}, &input.Error{Key: "key_group", Value: fmt.Sprint(n), Expected: fmt.Sprintf("a multiple of %d, the tokens scored at once, that divides %d, those of a row", g.ChunkTokens, g.RowTokens)}
	}
	return g, nil
}

// setBursts sets the numbers of bursts of a token and of a query. A value takes a power of two, so that it divides the banks evenly. So
// does a key of the same width, as in L3; a key of another width takes as many as it fills.
func (g *Geometry) setBursts(shape HeadShape) error {
	each := g.BurstBytes * 8 / g.ElementBits // elements of a burst
	g.ValueBursts = 1
	for g.ValueBursts*each < g.ValueDim {
		g.ValueBursts *= 2
	}
	if g.InKey {
		g.ValueBursts = (g.ValueDim + each - 1) / each
	}
	if g.KeyBursts = g.ValueBursts; g.ValueDim != g.HeadDim {
		g.KeyBursts = (g.HeadDim + each - 1) / each
	}
	g.PaddedDim, g.PaddedValueDim = g.KeyBursts*each, g.ValueBursts*each
	g.QueryBursts = (g.KeyBursts*shape.ElementBits + g.ElementBits - 1) / g.ElementBits
	key := "head_dim"
	if g.ValueDim != g.HeadDim || g.InKey {
		if g.KeyBursts > g.RowBursts {
			return &input.Error{Key: key, Value: fmt.Sprint(g.HeadDim), Expected: fmt.Sprintf(
				"at most %d: a key in the %d bursts of a row of one bank", each*g.RowBursts, g.RowBursts)}
		}
		key = "value_dim"
	}
	if !g.InKey && (g.ValueBursts > g.Banks || g.ValueBursts > g.RowBursts) {
		return &input.Error{Key: key, Value: fmt.Sprint(g.ValueDim), Expected: fmt.Sprintf(
			"at most %d: one burst of a value in each of the %d banks", each*min(g.Banks, g.RowBursts), g.Banks)}
	}
	return nil
}

// rowChunks sets the number of chunks that share a burst of scales, and returns the number of chunks for which rows of keys and of values
// both have room. Groups of keys do not cross row ends, and neither do pages if rows have scales. If keys and values differ in width, rows
// hold whole pages, provided that at most an eighth of a row stays empty.
func (g *Geometry) rowChunks(shape HeadShape) int {
	columns := max(g.KeyBursts, g.ValueBursts) // of a chunk, in the fuller of the two rows
	chunks, group := g.RowBursts/columns, max(1, shape.KeyGroup/g.ChunkTokens)
	if shape.ScaleBytes > 0 {
		g.ScaleChunks = g.BurstBytes / shape.ScaleBytes
		for chunks*columns+g.ScaleColumns(0, chunks*g.ChunkTokens) > g.RowBursts {
			chunks--
		}
		group = max(pageChunks, group)
	} else if rest := chunks % pageChunks; !g.InKey && g.KeyBursts != g.ValueBursts && 8*rest <= chunks {
		group = max(pageChunks, group)
	}
	if chunks > group {
		chunks -= chunks % group
	}
	return chunks
}

// Bursts returns the number of bursts of a token's key or value.
func (g *Geometry) Bursts(kv KV) int {
	if kv == Key {
		return g.KeyBursts
	}
	return g.ValueBursts
}

// Padded returns the number of elements of a key or a value with padding, and Elements without.
func (g *Geometry) Padded(kv KV) int {
	if kv == Key {
		return g.PaddedDim
	}
	return g.PaddedValueDim
}

// Elements returns the number of elements of a key or a value.
func (g *Geometry) Elements(kv KV) int {
	if kv == Key {
		return g.HeadDim
	}
	return g.ValueDim
}

// ScaleColumns returns the number of columns with the scales of the tokens [from, to) of a row.
func (g *Geometry) ScaleColumns(from, to int) int {
	block := g.ScaleChunks * g.ChunkTokens
	if block == 0 || to <= from {
		return 0
	}
	return (to-1)/block - from/block + 1
}

// ScaleColumn returns the column of the scales of a token's key and value.
func (g *Geometry) ScaleColumn(token int) int32 {
	within := token % g.RowTokens
	columns := g.ScaleColumns(0, g.RowTokens)
	return int32(g.RowBursts - columns + within/(g.ScaleChunks*g.ChunkTokens))
}

// ValueScaleBank returns the ordinal of the bank with the scale of a token's value, one of the value's own banks.
func (g *Geometry) ValueScaleBank(token int) int {
	return g.ValueBank(token) + token/g.ColumnTokens%g.ValueBursts
}

// Bank returns the bank group, and the bank within it, of a bank ordinal from 0 to Banks-1.
func (g *Geometry) Bank(ordinal int) (bankGroup, bank int32) {
	return int32(ordinal % g.BankGroups), int32(ordinal / g.BankGroups)
}

// UnitRows returns the rows of an allocation unit: a key row and a value row, or one that is both.
func (g *Geometry) UnitRows() int {
	if g.InKey {
		return 1
	}
	return 2
}

// Rows returns the number of rows, over all banks, of a head with context tokens: one unit for each RowTokens begun.
func (g *Geometry) Rows(context int) int {
	return g.UnitRows() * ((context + g.RowTokens - 1) / g.RowTokens)
}

// KeyRow returns the row of token's key, counted from the head's first row.
func (g *Geometry) KeyRow(token int) int32 { return int32(g.UnitRows() * (token / g.RowTokens)) }

// ValueRow returns the row of token's value, counted from the head's first row.
func (g *Geometry) ValueRow(token int) int32 { return g.KeyRow(token) + int32(g.UnitRows()-1) }

// KeyBank returns the ordinal of the bank that holds token's key.
func (g *Geometry) KeyBank(token int) int { return token % g.Banks }

// KeyColumn returns the first of the KeyBursts columns of a token's key.
func (g *Geometry) KeyColumn(token int) int32 {
	return int32(token % g.RowTokens / g.ChunkTokens * g.KeyBursts)
}

// ValueBank returns the first of the ValueBursts bank ordinals of a token's value: burst i of the value is in the i-th of them.
func (g *Geometry) ValueBank(token int) int {
	if g.InKey {
		return g.KeyBank(token)
	}
	return token % g.ColumnTokens * g.ValueBursts
}

// ValueColumn returns the column of a token's value, the same in all its banks.
func (g *Geometry) ValueColumn(token int) int32 {
	if g.InKey {
		return g.KeyColumn(token)
	}
	return int32(token % g.RowTokens / g.ColumnTokens)
}

// RowToken returns the token of a row, and the burst of its key or value, that a bank ordinal holds at a column. It is the inverse of
// KeyBank and KeyColumn, or of ValueBank and ValueColumn.
func (g *Geometry) RowToken(kv KV, ordinal int, column int32) (token, burst int) {
	if kv == Key || g.InKey {
		return int(column)/g.KeyBursts*g.ChunkTokens + ordinal, int(column) % g.KeyBursts
	}
	return int(column)*g.ColumnTokens + ordinal/g.ValueBursts, ordinal % g.ValueBursts
}

// KV selects a token's key or value.
type KV uint8

// A token's two vectors.
const (
	Key KV = iota
	Value
)

// String returns "k" or "v".
func (kv KV) String() string { return [...]string{"k", "v"}[kv] }

// Mapping is the layout of every element of one head's keys and values on a rank: Geometry gives bank, row and column of each burst,
// Exchange the chip and the bit within the chip's share of it.
type Mapping struct {
	Geometry
	Exchange Exchange
}

// Place is the position of one element.
type Place struct {
	Chip            int   // 0 to Chips-1
	BankGroup, Bank int32 // of the rank
	Row             int32 // from the head's first row
	Column          int32 // burst column of the row
	Bit             int   // first bit within the chip's share of the burst
}

// NewMapping returns the mapping of heads of a shape on ranks of d. It returns an input.Error for a shape or device that cannot hold them.
func NewMapping(d *dram.Spec, shape HeadShape) (Mapping, error) {
	g, err := NewGeometry(d, shape)
	if err != nil {
		return Mapping{}, err
	}
	x, err := NewExchange(shape.StoredBits(), d)
	if err != nil {
		return Mapping{}, err
	}
	return Mapping{Geometry: g, Exchange: x}, nil
}

// BurstElements returns the number of elements of one burst.
func (m *Mapping) BurstElements() int { return m.BurstBytes * 8 / m.ElementBits }

// ChipElements returns the number of elements of one burst on one chip.
func (m *Mapping) ChipElements() int { return m.BurstElements() / m.Chips }

// BurstPlace returns bank ordinal, row and column of one burst of a token's key or
// value; the row counts from the head's first.
func (m *Mapping) BurstPlace(kv KV, token, burst int) (ordinal int, row, column int32) {
	if kv == Key || m.InKey {
		return m.KeyBank(token), m.KeyRow(token), m.KeyColumn(token) + int32(burst)
	}
	return m.ValueBank(token) + burst, m.ValueRow(token), m.ValueColumn(token)
}

// Place returns the position of an element (0 to Padded-1) of a token's key or value.
func (m *Mapping) Place(kv KV, token, element int) Place {
	n := m.BurstElements()
	ordinal, row, column := m.BurstPlace(kv, token, element/n)
	group, bank := m.Bank(ordinal)
	chip, bit := m.Exchange.Chip(element % n)
	return Place{Chip: chip, BankGroup: group, Bank: bank, Row: row, Column: column, Bit: bit}
}

// CheckCommands refuses a DRAM part whose standard cannot time PIM programs. The standard must have a rule for each of their commands.
// Programs also assume one step a clock, no second halves of commands, and no data clock.
func CheckCommands(d *dram.Spec) error {
	if err := d.Given(); err != nil {
		return err
	}
	rules := d.Rules()
	bad := func(expected string, of ...any) error {
		return &input.Error{Key: "dram.standard", Value: strconv.Quote(rules.Name), Expected: fmt.Sprintf(expected, of...)}
	}
	for _, c := range []dram.Command{dram.ACTA, dram.MACA, dram.RDRES, dram.WRBUF, dram.ACT, dram.PREA, dram.RD, dram.WR, dram.REF} {
		if !rules.Action(c).Known {
			return bad("a standard with the commands of the PIM, such as %s; it has no %v", dram.DefaultStandard, c)
		}
	}
	const untimed = "; base the table on another standard, such as " + dram.DefaultStandard
	if rules.StepsPerClock > 1 {
		return bad("a standard whose commands begin once a clock: its clock has %d steps, and PIM programs are timed in whole clocks"+untimed, rules.StepsPerClock)
	}
	if c, known := rules.DataClockCommand(); known {
		return bad("a standard whose data move with CK: its data clock runs after %v, which PIM programs do not send"+untimed, c)
	}
	for _, c := range rules.Commands() {
		if rules.Action(c).Second > 0 {
			return bad("a standard whose commands are whole: %v comes in two halves, and PIM programs leave no room on the bus for the second"+untimed, c)
		}
	}
	if from, next, least := meetingBursts(d); least > 0 {
		return bad("rules that keep bursts apart on the data bus: %[1]v may follow %[2]v within %[3]d clocks; add \"burst | rank | %[2]v | %[1]v | %[3]d\"", next, from, least)
	}
	return nil
}

// meetingBursts returns two commands, at least one of them of the buffers, whose bursts may overlap on the data bus under the rules of d,
// and the smallest distance in clocks that avoids this. It returns 0 if the rules exclude overlaps: programs obey only the rules.
func meetingBursts(d *dram.Spec) (from, next dram.Command, least int) {
	apart := map[[2]dram.Command]int{}
	for _, row := range d.Constraints() {
		if row.Window <= 1 && (row.Scope == dram.SameRank || row.Scope >= dram.SamePseudoChannel) {
			pair := [2]dram.Command{row.Command, row.Next}
			apart[pair] = max(apart[pair], row.Clocks)
		}
	}
	bursts := []dram.Command{dram.RDRES, dram.WRBUF, dram.RD, dram.WR}
	for i, from := range bursts {
		for j, next := range bursts {
			least := int(d.DataEnd(from)-d.DataEnd(next)) + d.BurstClocks()
			if min(i, j) < 2 && apart[[2]dram.Command{from, next}] < least {
				return from, next, least
			}
		}
	}
	return 0, 0, 0
}

// ScalePlace returns the position of the scale of a key or a value of token: bank, row counted from the head's first, column, and word in
// the burst.
func (g *Geometry) ScalePlace(kv KV, token int) (ordinal int, row, column int32, word int) {
	ordinal, row = g.KeyBank(token), g.KeyRow(token)
	if kv == Value {
		ordinal, row = g.ValueScaleBank(token), g.ValueRow(token)
	}
	return ordinal, row, g.ScaleColumn(token), token % g.RowTokens / g.ChunkTokens % g.ScaleChunks
}
