package pim

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// tableBuilder runs heads of one shape.
type tableBuilder struct {
	program *program
	machine *machine
	heads   []headRun
	issued  int64 // commands of all runs
}

// newTableBuilder checks the specifications and returns a program and a machine that run heads of any length for a table.
func newTableBuilder(spec *Spec, d *dram.Spec, shape HeadShape) (*tableBuilder, error) {
	if err := input.Validate(spec); err != nil {
		return nil, err
	}
	if err := input.Validate(d); err != nil {
		return nil, err
	}
	p, err := newProgram(spec, d, shape, nil)
	if err != nil {
		return nil, err
	}
	m, err := newMachine(spec, d)
	if err != nil {
		return nil, err
	}
	if int64(d.TREFI) <= int64(d.TRFC) {
		return nil, &input.Error{Key: "tREFI", Expected: "more than tRFC"}
	}
	m.repeats.on = spec.Periodic
	return &tableBuilder{program: p, machine: m}, nil
}

// ends returns the clocks at which each of a sequence of heads is done.
func (b *tableBuilder) ends(heads ...headRun) []int64 {
	b.heads = append(b.heads[:0], heads...)
	b.program.restart(b.heads)
	b.machine.run(b.program)
	for _, n := range b.machine.issued {
		b.issued += int64(n)
	}
	return b.machine.ends
}

// run returns the clocks of one head.
func (b *tableBuilder) run(h headRun) int64 {
	if ends := b.ends(h); len(ends) > 0 {
		return ends[0]
	}
	return 0 // interrupted
}

// measure returns what one head has the rank do.
func (b *tableBuilder) measure(h headRun) Activity {
	took := b.run(h)
	return b.machine.counters.activity(took, b.program.geometry.Banks)
}

// attention returns the clocks of one head without append.
func (b *tableBuilder) attention(context int) int64 { return b.run(headRun{context: context}) }
