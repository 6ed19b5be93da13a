package machine

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
)

// Runner runs heads of one shape.
type Runner struct {
	Program *Program
	Machine *Machine
	heads   []Head
	Issued  int64 // commands of all runs
}

// NewRunner checks the specifications and returns a Runner for heads of any length, for tables.
func NewRunner(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape) (*Runner, error) {
	if err := input.Validate(spec); err != nil {
		return nil, err
	}
	if err := input.Validate(d); err != nil {
		return nil, err
	}
	p, err := NewProgram(spec, d, shape, nil)
	if err != nil {
		return nil, err
	}
	m, err := NewMachine(spec, d)
	if err != nil {
		return nil, err
	}
	if int64(d.TREFI) <= int64(d.TRFC) {
		return nil, &input.Error{Key: "tREFI", Expected: "more than tRFC"}
	}
	m.Repeats.On = spec.Periodic
	return &Runner{Program: p, Machine: m}, nil
}

// Ends returns the end, in clocks, of each of a sequence of heads.
func (b *Runner) Ends(heads ...Head) []int64 {
	b.heads = append(b.heads[:0], heads...)
	b.Program.Restart(b.heads)
	b.Machine.Run(b.Program)
	for _, n := range b.Machine.issued {
		b.Issued += int64(n)
	}
	return b.Machine.ends
}

// Run returns the clocks of one head.
func (b *Runner) Run(h Head) int64 {
	if ends := b.Ends(h); len(ends) > 0 {
		return ends[0]
	}
	return 0 // interrupted
}

// Measure returns the activity of one head.
func (b *Runner) Measure(h Head) Activity {
	took := b.Run(h)
	return b.Machine.Counters.activity(took, b.Program.Geometry.Banks)
}

// Attention returns the clocks of one head without append.
func (b *Runner) Attention(context int) int64 { return b.Run(Head{Context: context}) }
