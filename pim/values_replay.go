package pim

import (
	"github.com/l3sim/l3sim/dram"
)

// Replay executes the program in the order and at the clocks at which machine
// issues it: the check that the timed program computes what Run does. Each
// datum is valid only from the clock at which the hardware has it: a result
// MACLatency after its MACA, what a burst carries after the burst, a weight
// SoftmaxLatency after the last partial sums that it depends on. An instruction
// that comes earlier finds NaN.
func (m *ValueMachine) Replay(machine *Machine, p *Program, data []HeadData) ([]HeadResult, error) {
	if err := m.begin(p, data); err != nil {
		return nil, err
	}
	m.validity = newValidity(machine.spec, machine.device, m, p)
	r := replay{machine: m}
	machine.SkipRepetitions(false) // every command is needed
	machine.Observe(&r)
	machine.Run(p)
	machine.Observe(nil)
	m.validity = nil
	return m.results, r.err
}

// replay executes each command of a timed run.
type replay struct {
	machine *ValueMachine
	err     error
}

// Command implements Observer.
func (r *replay) Command(clock int64, _ dram.Command, _ dram.Address, in *Instruction) {
	if in == nil || r.err != nil { // a refresh changes no value
		return
	}
	r.machine.validity.now = clock
	r.err = r.machine.execute(in)
}

// validity holds the clock from which each datum is valid. Its methods are
// no-ops on nil: program order needs no clocks.
type validity struct {
	now                       int64
	write, read, mac, softmax int64 // clocks from command to validity

	rows     []int64 // cells, by row
	query    []int64 // by query head and burst
	partials []int64 // by result slot
	scores   []int64 // maximum, sum and scores, by query head
	weights  []int64 // by weight slot and multiplier set
	sums     []int64 // accumulators, by query head
	macs     int
}

func newValidity(spec *Spec, d *dram.Spec, m *ValueMachine, p *Program) *validity {
	burst := int64(d.BurstClocks())
	return &validity{
		write: int64(d.CWL) + burst, read: int64(d.CL) + burst, mac: int64(spec.MACLatency), softmax: int64(spec.SoftmaxLatency),
		rows: make([]int64, m.rows), query: make([]int64, m.shape.Queries*p.Geometry.TokenBursts),
		partials: make([]int64, resultSlots), scores: make([]int64, m.shape.Queries),
		weights: make([]int64, weightSlots*m.macs), sums: make([]int64, m.shape.Queries), macs: m.macs,
	}
}

func (v *validity) written(row int32) {
	if v != nil {
		v.rows[row] = v.now + v.write
	}
}

func (v *validity) queryLoaded(in *Instruction, bursts int) {
	if v != nil {
		v.query[int(in.Query)*bursts+int(in.Burst)] = v.now + v.write
	}
}

func (v *validity) earlyScore(in *Instruction, query, bursts int) bool {
	return v != nil && (v.now < v.query[query*bursts+int(in.Burst)] || v.now < v.rows[in.Row])
}

func (v *validity) scored(in *Instruction) {
	if v != nil {
		v.partials[in.Slot] = v.now + v.mac
	}
}

func (v *validity) earlyPartials(in *Instruction) bool {
	return v != nil && v.now < v.partials[in.Slot]
}

func (v *validity) counted(in *Instruction) {
	if v != nil {
		v.scores[in.Query] = v.now + v.read + v.softmax
	}
}

func (v *validity) earlyWeights(in *Instruction) bool { return v != nil && v.now < v.scores[in.Query] }

func (v *validity) weightsLoaded(in *Instruction) {
	if v != nil {
		v.weights[int(in.Slot)*v.macs+int(in.Query)%v.macs] = v.now + v.write
	}
}

func (v *validity) earlyContext(in *Instruction, set int) bool {
	return v != nil && (v.now < v.weights[int(in.Slot)*v.macs+set] || v.now < v.rows[in.Row])
}

func (v *validity) accumulated(in *Instruction) {
	if v == nil {
		return
	}
	for q := range in.Queries {
		v.sums[in.Query+q] = v.now + v.mac
	}
}

func (v *validity) earlyRead(in *Instruction) bool { return v != nil && v.now < v.sums[in.Query] }
