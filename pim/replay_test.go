package pim

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// replay executes a program in the order and at the clocks at which a machine
// issues it: the check that the timed program computes what Run does.
//
// Each datum is valid only from the clock at which the hardware has it: a result
// MACLatency after its MACA, what a burst carries after the burst, a weight
// SoftmaxLatency after the last partial sums that it depends on. What an
// instruction finds or makes before its operands are valid is NaN.
type replay struct {
	*valueMachine
	hosts [2][][]uint16 // keys and values of a transfer, by token
	err   error

	write, read, mac, softmax int64 // clocks from command to validity

	rows     []int64 // clock from which it is valid: cells, by row
	query    []int64 // by query head and its bursts
	partials []int64 // by result slot
	scores   []int64 // maximum, sum and scores, by query head
	weights  []int64 // by weight slot and multiplier set
	sums     []int64 // accumulators, by query head
}

// replayed runs the program on the machine and executes its commands on m. Hosts are
// the keys and values that a transfer stores, or where it puts what it reads back.
func replayed(m *valueMachine, machine *machine, p *program, data []headData, hosts [2][][]uint16) ([]headResult, error) {
	if err := m.begin(p, data); err != nil {
		return nil, err
	}
	spec, d := machine.spec, machine.device
	burst := int64(d.BurstClocks())
	r := &replay{
		valueMachine: m, hosts: hosts,
		write: int64(d.CWL) + burst, read: int64(d.CL) + burst, mac: int64(spec.MACLatency), softmax: int64(spec.SoftmaxLatency),
		rows: make([]int64, m.rows), query: make([]int64, m.shape.Queries*p.geometry.QueryBursts),
		partials: make([]int64, resultSlots), scores: make([]int64, m.shape.Queries),
		weights: make([]int64, weightSlots*m.macs), sums: make([]int64, m.shape.Queries),
	}
	machine.repeats.on = false // every command is needed
	machine.observe = r.Command
	machine.run(p)
	machine.observe = nil
	return m.results, r.err
}

// Command executes a command.
func (r *replay) Command(clock int64, _ dram.Command, _ dram.Address, in *instruction) {
	switch {
	case in == nil || r.err != nil: // a refresh changes no value
	case in.head == hostHead && in.op != opActivate && in.op != opPrecharge:
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
func (r *replay) hostBurst(clock int64, in *instruction) error {
	switch in.op {
	case opAppendKey, opAppendValue:
		r.rows[in.row] = clock + r.write
		return r.writeBurst(r.ordinal(in), in.row, in.column, r.hosts[in.op-opAppendKey][in.token], int(in.burst))
	case opReadKey, opReadValue:
	default:
		return fmt.Errorf("operation %d is not a host's", in.op)
	}
	size := r.mapping.burstBytes / r.mapping.Chips
	at := r.cell(in.row, in.column) + r.ordinal(in)*size
	lanes := r.mapping.Exchange.lanes
	beats := make([]uint64, burstBits/lanes)
	for c := range r.chips {
		gather(beats, r.chips[c].cells[at:at+size], c, r.mapping.Exchange.deviceWidth)
	}
	r.mapping.Exchange.beats(beats)
	vector, n := r.hosts[in.op-opReadKey][in.token], r.mapping.burstElements()
	for i := range n {
		if e := int(in.burst)*n + i; e < len(vector) {
			vector[e] = uint16(beats[i*16/lanes] >> (i * 16 % lanes))
		}
	}
	return nil
}

// operands makes what an instruction reads too early NaN.
func (r *replay) operands(clock int64, in *instruction) {
	q := int(in.query)
	switch {
	case in.op == opReadPartials && clock < r.partials[in.slot]:
		r.eachChip(func(c *chipState) { fillNaN(part(c.partials, int(in.slot)*r.macs+q%r.macs, r.mapping.Banks)) })
	case in.op == opReadContext && clock < r.sums[q]:
		fillNaN(part(r.accumulators, q, len(r.wide)))
	}
}

// result makes what an instruction computed from early operands NaN, and says
// from when on its result is valid.
func (r *replay) result(clock int64, in *instruction) {
	q, bursts := int(in.query), r.mapping.QueryBursts
	each := bursts / r.mapping.TokenBursts // of q that a burst of a key meets
	switch in.op {
	case opAppendKey, opAppendValue:
		r.rows[in.row] = clock + r.write
	case opLoadQuery:
		r.query[q*bursts+int(in.burst)] = clock + r.write
	case opScore:
		for set := range int(in.queries) {
			if clock < slices.Max(r.query[(q+set)*bursts+int(in.burst)*each:][:each]) || clock < r.rows[in.row] {
				r.eachChip(func(c *chipState) { fillNaN(part(c.partials, int(in.slot)*r.macs+set, r.mapping.Banks)) })
			}
		}
		r.partials[in.slot] = clock + r.mac
	case opReadKey, opReadValue: // of a rank-level unit
		for query := q; query < q+int(in.queries); query++ {
			if x := r.rankLevel.partials; in.op == opReadKey {
				r.scores[query] = clock + r.read + r.softmax
				if clock < r.rows[in.row] {
					fillNaN(part(x, query, r.mapping.RowTokens))
				}
			} else if x = r.accumulators; clock+r.read < r.scores[query] || clock < r.rows[in.row] {
				fillNaN(part(x, query, len(x)/r.shape.Queries))
			}
		}
	case opReadPartials:
		r.scores[q] = clock + r.read + r.softmax
	case opLoadWeights:
		slot := int(in.slot)*r.macs + q%r.macs
		if clock < r.scores[q] {
			r.valueMachine.weights[slot*r.program.setTokens] = float32(math.NaN())
		}
		r.weights[slot] = clock + r.write
	case opContext:
		for set := range int(in.queries) {
			if clock < r.weights[int(in.slot)*r.macs+set] || clock < r.rows[in.row] {
				fillNaN(part(r.accumulators, q+set, len(r.wide)))
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
