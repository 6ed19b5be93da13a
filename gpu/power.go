package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units/portable"
)

// PowerSpec is a GPU's power draw, and the slowdown by its power limit. Watts are of the whole board, as its energy counter measures them.
type PowerSpec struct {
	Limit      float64 `toml:"limit_w"`       // maximum sustained power
	Idle       float64 `toml:"idle_w"`        // without work for seconds
	ActiveIdle float64 `toml:"active_idle_w"` // in gaps of milliseconds between kernels
	Base       float64 `toml:"base_w"`        // while any kernel runs
	// PerByte and PerFLOP are the energy of a byte of memory traffic and of an executed 16-bit operation, at full clock.
	PerByte float64 `toml:"pj_per_byte"`
	PerFLOP float64 `toml:"pj_per_flop"`
	// PromptBand is the relative uncertainty of the energy of prompts, which arithmetic dominates, due to PerFLOP: it widens the band of a
	// run's energy. 0 if PerFLOP was measured.
	PromptBand float64 `toml:"prompt_band"`
	// Throttle is the exponent by which the clock falls when work would exceed the limit at full clock: by (power/limit)^throttle. Power
	// falls faster than the clock, since the voltage falls with it. 0: the limit has no effect.
	Throttle float64 `toml:"throttle"`
}

// Check has the rules of the section [gpu.power].
func (p *PowerSpec) Check(c *input.Check) {
	watts := func(key string, w float64) { c.That(w >= 0 && w <= 1e6, key, w, "0 to 1e6") }
	c.That(p.Limit > 0 && p.Limit <= 1e6, "limit_w", p.Limit, "more than 0, up to 1e6")
	watts("idle_w", p.Idle)
	watts("active_idle_w", p.ActiveIdle)
	watts("base_w", p.Base)
	watts("pj_per_byte", p.PerByte)
	watts("pj_per_flop", p.PerFLOP)
	c.That(p.PromptBand >= 0 && p.PromptBand <= 1, "prompt_band", p.PromptBand, "0 to 1")
	c.That(p.Throttle >= 0 && p.Throttle <= 1, "throttle", p.Throttle, "0 to 1")
}

// Work is a sequence of kernels on each GPU of a replica.
type Work struct {
	// Seconds is its duration for short times, before the power limit takes effect.
	Seconds float64
	// Clocked is the part of Seconds that scales with the clock; launches and memory traffic do not.
	Clocked float64
	Dynamic float64 // joules of a GPU's memory traffic and arithmetic, at full clock
}

// Plus returns both in sequence.
func (w Work) Plus(v Work) Work {
	return Work{w.Seconds + v.Seconds, w.Clocked + v.Clocked, w.Dynamic + v.Dynamic}
}

// Times returns n repetitions in sequence.
func (w Work) Times(n int) Work {
	f := float64(n)
	return Work{float64(f * w.Seconds), float64(f * w.Clocked), float64(f * w.Dynamic)}
}

func (s *Spec) work(c Cost) Work { return s.workOf(&c) }

// workOf is work for a cost that is passed by reference.
func (s *Spec) workOf(c *Cost) Work {
	if c.Seconds == 0 {
		return Work{}
	}
	p := &s.Power
	w := Work{Seconds: c.Seconds, Dynamic: (float64(p.PerByte*c.Bytes) + float64(p.PerFLOP*c.Executed)) * 1e-12}
	// Arithmetic and its chains scale with the clock. If memory binds, they count in proportion to their share of the sum of squares.
	busy := c.Seconds - c.Overhead
	core, memory := float64(c.Compute*c.Compute)+float64(c.Latency*c.Latency), float64(c.Memory*c.Memory)
	if core > 0 {
		w.Clocked = float64(busy * (core / (core + memory)))
	}
	return w
}

// stretch returns the factor on clocked time under a load that lasts for seconds: the clock falls until the mean power is at the limit.
func (s *Spec) stretch(w Work) float64 {
	p := &s.Power
	if w.Seconds == 0 || p.Throttle == 0 {
		return 1
	}
	power := p.Base + w.Dynamic/w.Seconds
	if power <= p.Limit {
		return 1
	}
	return portable.Pow(power/p.Limit, p.Throttle)
}

// Slowdown returns the factor on Seconds for work in such a load.
func (s *Spec) Slowdown(w Work) float64 {
	if w.Seconds == 0 {
		return 1
	}
	return 1 + float64((s.stretch(w)-1)*w.Clocked)/w.Seconds
}

// Sustained returns the seconds of work in a lasting load, and the joules of one GPU.
func (s *Spec) Sustained(w Work) (seconds, joules float64) {
	p := &s.Power
	seconds = float64(w.Seconds * s.Slowdown(w))
	return seconds, min(float64(p.Limit*seconds), float64(p.Base*seconds)+w.Dynamic)
}

// KernelSustained is Sustained for one kernel that repeats.
func (s *Spec) KernelSustained(c Cost) (seconds, joules float64) { return s.Sustained(s.work(c)) }
