package values

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
	pimmachine "github.com/l3sim/l3sim/pim/machine"
)

// replay executes a program in the order and at the clocks of a machine, and checks that the timed
// program computes what Run does. Each datum is valid only once the hardware has it: a result
// MACLatency after its MACA, a burst's data after the burst, a weight SoftmaxLatency after the last
// partial sums that it depends on. An instruction reads or produces NaN where its operands are not
// yet valid.
type replay struct {
	*valueMachine
	hosts [2][][]uint16 // keys and values of a transfer, by token
	err   error

	write, read, mac, softmax int64 // clocks from command to validity

	rows     []int64 // clocks from which cells are valid, by row
	query    []int64 // by query head and its bursts
	partials []int64 // by result slot
	scores   []int64 // maximum, sum and scores, by query head
	weights  []int64 // by weight slot and multiplier set
	sums     []int64 // accumulators, by query head
}

// replayed runs the program on the machine and executes its commands on m. hosts are the keys and
// values that a transfer stores, or the destination of what it reads back.
func replayed(m *valueMachine, machine *pimmachine.Machine, p *pimmachine.Program, data []headData, hosts [2][][]uint16) ([]headResult, error) {
	if err := m.begin(p, data); err != nil {
		return nil, err
	}
	spec, d := machine.Spec, machine.Device
	burst := int64(d.BurstClocks())
	r := &replay{
		valueMachine: m, hosts: hosts,
		write: int64(d.CWL) + burst, read: int64(d.CL) + burst, mac: int64(spec.MACLatency), softmax: int64(spec.SoftmaxLatency),
		rows: make([]int64, m.rows), query: make([]int64, m.shape.Queries*p.Geometry.QueryBursts),
		partials: make([]int64, pimmachine.ResultSlots), scores: make([]int64, m.shape.Queries),
		weights: make([]int64, pimmachine.WeightSlots*m.macs), sums: make([]int64, m.shape.Queries),
	}
	machine.Repeats.On = false // every command is needed
	machine.Observe = r.Command
	machine.Run(p)
	machine.Observe = nil
	return m.results, r.err
}

// Command executes a command.
func (r *replay) Command(clock int64, _ dram.Command, _ dram.Address, in *pimmachine.Instruction) {
	switch {
	case in == nil || r.err != nil: // a refresh changes no value
	case in.Head == pimmachine.HostHead && in.Op != pimmachine.OpActivate && in.Op != pimmachine.OpPrecharge:
		if r.err = r.checkRow(in); r.err == nil {
			r.err = r.hostBurst(clock, in)
		}
	default:
		r.operands(clock, in)
		if r.err = r.execute(in); r.err == nil {
			r.result(clock, in)
		}
	}
}

// hostBurst moves a burst between the host and the cells, through the re-layout.
func (r *replay) hostBurst(clock int64, in *pimmachine.Instruction) error {
	switch in.Op {
	case pimmachine.OpAppendKey, pimmachine.OpAppendValue:
		r.rows[in.Row] = clock + r.write
		return r.writeBurst(r.ordinal(in), in.Row, in.Column, r.hosts[in.Op-pimmachine.OpAppendKey][in.Token], int(in.Burst))
	case pimmachine.OpReadKey, pimmachine.OpReadValue:
	default:
		return fmt.Errorf("operation %d is not a host's", in.Op)
	}
	size := r.mapping.BurstBytes / r.mapping.Chips
	at := r.cell(in.Row, in.Column) + r.ordinal(in)*size
	lanes := r.mapping.Exchange.Lanes
	beats := make([]uint64, pim.BurstBits/lanes)
	for c := range r.chips {
		gather(beats, r.chips[c].cells[at:at+size], c, r.mapping.Exchange.DeviceWidth)
	}
	r.mapping.Exchange.Beats(beats)
	vector, n := r.hosts[in.Op-pimmachine.OpReadKey][in.Token], r.mapping.BurstElements()
	for i := range n {
		if e := int(in.Burst)*n + i; e < len(vector) {
			vector[e] = uint16(beats[i*16/lanes] >> (i * 16 % lanes))
		}
	}
	return nil
}

// operands makes what an instruction reads too early NaN.
func (r *replay) operands(clock int64, in *pimmachine.Instruction) {
	q := int(in.Query)
	switch {
	case in.Op == pimmachine.OpReadPartials && clock < r.partials[in.Slot]:
		r.eachChip(func(c *chipState) { fillNaN(part(c.partials, int(in.Slot)*r.macs+q%r.macs, r.mapping.Banks)) })
	case in.Op == pimmachine.OpReadContext && clock < r.sums[q]:
		fillNaN(part(r.accumulators, q, r.valueBursts*len(r.wide)))
	}
}

// result makes what an instruction computes from premature operands NaN, and sets the clock from
// which its result is valid.
func (r *replay) result(clock int64, in *pimmachine.Instruction) {
	q, bursts := int(in.Query), r.mapping.QueryBursts
	each := bursts / r.mapping.KeyBursts // of q for a burst of a key
	switch in.Op {
	case pimmachine.OpAppendKey, pimmachine.OpAppendValue:
		r.rows[in.Row] = clock + r.write
	case pimmachine.OpLoadQuery:
		r.query[q*bursts+int(in.Burst)] = clock + r.write
	case pimmachine.OpScore:
		for set := range int(in.Queries) {
			if clock < slices.Max(r.query[(q+set)*bursts+int(in.Burst)*each:][:each]) || clock < r.rows[in.Row] {
				r.eachChip(func(c *chipState) { fillNaN(part(c.partials, int(in.Slot)*r.macs+set, r.mapping.Banks)) })
			}
		}
		r.partials[in.Slot] = clock + r.mac
	case pimmachine.OpReadKey, pimmachine.OpReadValue: // of a rank-level unit
		for query := q; query < q+int(in.Queries); query++ {
			if x := r.rankLevel.partials; in.Op == pimmachine.OpReadKey {
				r.scores[query] = clock + r.read + r.softmax
				if clock < r.rows[in.Row] {
					fillNaN(part(x, query, r.mapping.RowTokens))
				}
			} else if x = r.accumulators; clock+r.read < r.scores[query] || clock < r.rows[in.Row] {
				fillNaN(part(x, query, len(x)/r.shape.Queries))
			}
		}
	case pimmachine.OpReadPartials:
		r.scores[q] = clock + r.read + r.softmax
	case pimmachine.OpLoadWeights:
		slot := int(in.Slot)*r.macs + q%r.macs
		if clock < r.scores[q] {
			r.valueMachine.weights[slot*r.program.SetTokens] = float32(math.NaN())
		}
		r.weights[slot] = clock + r.write
	case pimmachine.OpContext:
		for set := range int(in.Queries) {
			if clock < r.weights[int(in.Slot)*r.macs+set] || clock < r.rows[in.Row] {
				fillNaN(part(r.accumulators, q+set, r.valueBursts*len(r.wide)))
			}
			r.sums[q+set] = clock + r.mac
		}
	}
}

func (r *replay) eachChip(do func(*chipState)) {
	for c := range r.chips {
		do(&r.chips[c])
	}
}

// gather is the inverse of share: it adds the chip's share to the beats.
func gather(beats []uint64, src []byte, chip, width int) {
	for b := range beats {
		var lanes uint64
		switch width {
		case 8:
			lanes = uint64(src[b])
		case 16:
			lanes = uint64(binary.LittleEndian.Uint16(src[2*b:]))
		default: // 4
			lanes = uint64(src[b/2] >> (b % 2 * 4) & 0xf)
		}
		beats[b] |= lanes << (width * chip)
	}
}
