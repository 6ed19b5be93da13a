package pim

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/l3sim/l3sim/dram"
)

// replay executes a program in the order and at the clocks at which a Machine
// issues it: the check that the timed program computes what Run does.
//
// Each datum is valid only from the clock at which the hardware has it: a result
// MACLatency after its MACA, what a burst carries after the burst, a weight
// SoftmaxLatency after the last partial sums that it depends on. What an
// instruction finds or makes before its operands are valid is NaN.
type replay struct {
	*ValueMachine
	hosts [2][][]uint16 // keys and values of a transfer, by token
	err   error

	write, read, mac, softmax int64 // clocks from command to validity

	rows     []int64 // clock from which it is valid: cells, by row
	query    []int64 // by query head and burst
	partials []int64 // by result slot
	scores   []int64 // maximum, sum and scores, by query head
	weights  []int64 // by weight slot and multiplier set
	sums     []int64 // accumulators, by query head
}

// replayed runs the program on the machine and executes its commands on m. Hosts are
// the keys and values that a transfer stores, or where it puts what it reads back.
func replayed(m *ValueMachine, machine *Machine, p *Program, data []HeadData, hosts [2][][]uint16) ([]HeadResult, error) {
	if err := m.begin(p, data); err != nil {
		return nil, err
	}
	spec, d := machine.spec, machine.device
	burst := int64(d.BurstClocks())
	r := &replay{
		ValueMachine: m, hosts: hosts,
		write: int64(d.CWL) + burst, read: int64(d.CL) + burst, mac: int64(spec.MACLatency), softmax: int64(spec.SoftmaxLatency),
		rows: make([]int64, m.rows), query: make([]int64, m.shape.Queries*p.Geometry.TokenBursts),
		partials: make([]int64, resultSlots), scores: make([]int64, m.shape.Queries),
		weights: make([]int64, weightSlots*m.macs), sums: make([]int64, m.shape.Queries),
	}
	machine.periodic.on = false // every command is needed
	machine.observe = r.Command
	machine.Run(p)
	machine.observe = nil
	return m.results, r.err
}

// Command executes a command.
func (r *replay) Command(clock int64, _ dram.Command, _ dram.Address, in *Instruction) {
	switch {
	case in == nil || r.err != nil: // a refresh changes no value
	case in.Head == hostHead && in.Op != OpActivate && in.Op != OpPrecharge:
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
func (r *replay) hostBurst(clock int64, in *Instruction) error {
	switch in.Op {
	case OpAppendKey, OpAppendValue:
		r.rows[in.Row] = clock + r.write
		return r.writeBurst(r.ordinal(in), in.Row, in.Column, r.hosts[in.Op-OpAppendKey][in.Token], int(in.Burst))
	case OpReadKey, OpReadValue:
	default:
		return fmt.Errorf("operation %d is not a host's", in.Op)
	}
	size := r.mapping.BurstBytes / r.mapping.Chips
	at := r.cell(in.Row, in.Column) + r.ordinal(in)*size
	var beats [burstBeats]uint64
	for c := range r.chips {
		gather(&beats, r.chips[c].cells[at:at+size], c, r.mapping.Exchange.DeviceWidth)
	}
	r.mapping.Exchange.Beats(beats[:])
	vector, n := r.hosts[in.Op-OpReadKey][in.Token], r.mapping.BurstElements()
	for i := range n {
		if e := int(in.Burst)*n + i; e < len(vector) {
			vector[e] = uint16(beats[i/4] >> (16 * (i % 4)))
		}
	}
	return nil
}

// operands makes what an instruction reads too early NaN.
func (r *replay) operands(clock int64, in *Instruction) {
	q := int(in.Query)
	switch {
	case in.Op == OpReadPartials && clock < r.partials[in.Slot]:
		r.eachChip(func(c *chipState) { fillNaN(part(c.partials, int(in.Slot)*r.macs+q%r.macs, r.mapping.Banks)) })
	case in.Op == OpReadContext && clock < r.sums[q]:
		r.eachChip(func(c *chipState) { fillNaN(part(c.accumulators, q, len(c.accumulators)/r.shape.Queries)) })
	}
}

// result makes what an instruction computed from early operands NaN, and says
// from when on its result is valid.
func (r *replay) result(clock int64, in *Instruction) {
	q, bursts := int(in.Query), r.mapping.TokenBursts
	switch in.Op {
	case OpAppendKey, OpAppendValue:
		r.rows[in.Row] = clock + r.write
	case OpLoadQuery:
		r.query[q*bursts+int(in.Burst)] = clock + r.write
	case OpScore:
		for set := range int(in.Queries) {
			if clock < r.query[(q+set)*bursts+int(in.Burst)] || clock < r.rows[in.Row] {
				r.eachChip(func(c *chipState) { fillNaN(part(c.partials, int(in.Slot)*r.macs+set, r.mapping.Banks)) })
			}
		}
		r.partials[in.Slot] = clock + r.mac
	case OpReadPartials:
		r.scores[q] = clock + r.read + r.softmax
	case OpLoadWeights:
		slot := int(in.Slot)*r.macs + q%r.macs
		if clock < r.scores[q] {
			r.ValueMachine.weights[slot*r.program.SetTokens] = float32(math.NaN())
		}
		r.weights[slot] = clock + r.write
	case OpContext:
		for set := range int(in.Queries) {
			if clock < r.weights[int(in.Slot)*r.macs+set] || clock < r.rows[in.Row] {
				r.eachChip(func(c *chipState) { fillNaN(part(c.accumulators, q+set, len(c.accumulators)/r.shape.Queries)) })
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

// part returns the i-th part of size numbers.
func part(x []float32, i, size int) []float32 { return x[i*size : (i+1)*size] }

// gather is the inverse of share: it adds the chip's share to the beats.
func gather(beats *[burstBeats]uint64, src []byte, chip, width int) {
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
