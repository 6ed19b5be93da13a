package paper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/lm"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// host loads a reading's configuration with what attention takes with the host.
func (m *machines) host(sets []string) (*machine, *system.HostAttention, error) {
	x, err := m.get(sets...)
	if err != nil {
		return nil, nil, err
	}
	return x, system.NewHostAttention(x.cfg), nil
}

// loading is the time of attention on a GPU that loads keys and values from the host over that on the
// CPUs, in one layer: the least over the contexts.
func (m *machines) loading(r *reading) (finding, error) {
	_, h, err := m.host(r.Set)
	if err != nil {
		return finding{}, err
	}
	f, all := finding{value: math.Inf(1)}, []string{}
	for _, context := range r.Contexts {
		cpus := h.OnCPUs(max(r.Batch, 1), max(r.Queries, 1), context)
		gpus, transfer := h.Loaded(max(r.Batch, 1), max(r.Queries, 1), context)
		f.value = min(f.value, gpus.Seconds()/cpus.Seconds())
		all = append(all, fmt.Sprintf("%s tokens: %.3g ms, of which the transfer %.3g ms, against %.3g ms", tokens(context), 1e3*gpus.Seconds(), 1e3*transfer.Seconds(), 1e3*cpus.Seconds()))
	}
	f.reason = strings.Join(all, "; ")
	return f, nil
}

// gain is what a window on the GPU and the rest on the CPUs, side by side, gain over loading the rest.
func gain(h *system.HostAttention, batch, window, rest int) float64 {
	near, unmoved := h.Loaded(batch, 1, window)
	all, whole := h.Loaded(batch, 1, window+rest)
	_, moved := h.Loaded(batch, 1, rest)
	return (all - whole + moved).Seconds() / max(near-unmoved, h.OnCPUs(batch, 1, rest)).Seconds()
}

// growing is the gain at more keys and values with the host, or more requests, over that at fewer.
func (m *machines) growing(r *reading) (finding, error) {
	_, h, err := m.host(r.Set)
	if err != nil {
		return finding{}, err
	}
	batches := r.Batches
	small, large := gain(h, batches[0], 1024, r.Contexts[0]), gain(h, batches[1], 1024, r.Contexts[1])
	return finding{value: large / small, reason: fmt.Sprintf("1,024 tokens on the GPU; gain of %.3g with batch %d of %s more, %.3g with %d of %s", small, batches[0], tokens(r.Contexts[0]), large, batches[1], tokens(r.Contexts[1]))}, nil
}

// generate returns the seconds in which so many equal requests decode all but their first token
// together, after the last prompt.
func (x *machine) generate(batch, in, out int) (float64, error) {
	n, err := system.NewNode(x.cfg)
	if err != nil {
		return 0, err
	}
	trace := &traces.Trace{Name: "equal requests"}
	for i := range batch {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: in, Output: out})
	}
	r, err := n.Run(context.Background(), trace, system.Options{})
	if err != nil {
		return 0, err
	}
	first, last := r.Requests[0].FirstToken, r.Requests[0].Finish
	for _, q := range r.Requests {
		first, last = max(first, q.FirstToken), max(last, q.Finish)
	}
	return (last - first).Seconds(), nil
}

// The requests of HGCA's Figure 12.
const hgcaIn, hgcaOut = 1920, 128

// offloaded is the time in which another system generates Figure 12's tokens over that of the paper's:
// the least over the batches.
func (m *machines) offloaded(r *reading) (finding, error) {
	x, err := m.get(r.Set...)
	if err != nil {
		return finding{}, err
	}
	f, all := finding{value: math.Inf(1)}, []string{}
	for _, batch := range r.Batches {
		own, err := x.generate(batch, hgcaIn, hgcaOut)
		if err != nil {
			return f, err
		}
		other, note, err := m.fetching(r, batch)
		if err != nil {
			return f, err
		}
		f.value = min(f.value, other/own)
		all = append(all, fmt.Sprintf("batch %d: %.3g s%s against %.3g s", batch, other, note, own))
	}
	f.reason = strings.Join(all, "; ")
	return f, nil
}

// fetching is the seconds of the other system, whose GPU loads a share of all keys and values in every
// step. Unless that is in turn it hides behind all else, which no system does better. Without a
// share the other system is run.
func (m *machines) fetching(r *reading, batch int) (seconds float64, note string, err error) {
	over, h, err := m.host(r.Over)
	if err != nil {
		return 0, "", err
	}
	if r.Share == 0 {
		seconds, err = over.generate(batch, hgcaIn, hgcaOut)
		return seconds, "", err
	}
	loaded := int(r.Share * (hgcaIn + hgcaOut/2))
	step, err := m.iterate(r.Over, false, batch, loaded)
	if err != nil {
		return 0, "", err
	}
	_, transfer := h.Loaded(batch, 1, loaded)
	links := (hgcaOut - 1) * float64(over.cfg.Model.Layers) * transfer.Seconds()
	seconds = max((hgcaOut-1)*step.total(), links)
	if r.InTurn {
		seconds = float64((hgcaOut-1)*step.total()) + float64(links)
	}
	return seconds, fmt.Sprintf(" (transfers %.3g s)", links), nil
}

// step returns the mean seconds of a decode step of one request around the end of so many tokens.
func (x *machine) step(context int) (float64, error) {
	const out = 385
	s, err := x.generate(1, context-out+1, out)
	return s / (out - 1), err
}

// hosted is the time of a step of another system over that of CSAttention with its best schedule, keys and
// values with the host.
func (m *machines) hosted(r *reading) (finding, error) {
	f, least := finding{}, math.Inf(1)
	for _, schedule := range schedules {
		x, err := m.get(slices.Concat(r.Set, schedule)...)
		if err != nil {
			return f, err
		}
		s, err := x.step(r.Contexts[0])
		if err != nil {
			return f, err
		}
		if s < least {
			least, f.reason = s, fmt.Sprintf("share %s, period %s: %.4g ms a step", value(schedule[0]), value(schedule[1]), 1e3*s)
		}
	}
	other, err := m.get(r.Over...)
	if err != nil {
		return f, err
	}
	s, err := other.step(r.Contexts[0])
	f.value, f.reason = s/least, f.reason+fmt.Sprintf(" against %.4g ms at %s tokens", 1e3*s, tokens(r.Contexts[0]))
	return f, err
}

// rate is the tokens a second of one request around a context.
func (m *machines) rate(r *reading) (finding, error) {
	x, err := m.get(r.Set...)
	if err != nil {
		return finding{}, err
	}
	s, err := x.step(r.Contexts[0])
	return finding{value: 1 / s, reason: fmt.Sprintf("%.4g ms a token, %.3g ms a layer", 1e3*s, 1e3*s/float64(x.cfg.Model.Layers))}, err
}

// memoryRate is the host's bandwidth by its modules in GB/s, which no program exceeds.
func (m *machines) memoryRate(r *reading) (finding, error) {
	x, h, err := m.host(r.Set)
	if err != nil {
		return finding{}, err
	}
	gb := float64(h.Bandwidth()) / 1e9
	return finding{value: gb, most: gb, reason: fmt.Sprintf("%d channels of %.4g GB/s", x.cfg.Node.Channels, gb/float64(x.cfg.Node.Channels))}, nil
}

// salience is the salient share of what has left the window, in the first step after a prompt of sample text on
// the byte model: of the head with the least, or with the most.
func (m *machines) salience(r *reading) (finding, error) {
	x, err := m.get(r.Set...)
	if err != nil {
		return finding{}, err
	}
	spec, prompt := x.cfg.Policy.Own(), r.Contexts[0]
	if x.salient == nil {
		if x.salient, err = salient(spec, prompt); err != nil {
			return finding{}, err
		}
	}
	least, median, most := x.salient[0], x.salient[len(x.salient)/2], x.salient[len(x.salient)-1]
	f := finding{value: most, reason: fmt.Sprintf("%d heads of the byte model, a window of %d after %s bytes of sample text: %.3g of the tokens at the least, %.3g in the median, %.3g at the most",
		len(x.salient), spec.Window, tokens(prompt), least, median, most)}
	if r.Least {
		f.value = least
	}
	return f, nil
}

// salient returns the salient shares of all heads, ascending.
func salient(spec *policy.Spec, prompt int) (shares []float64, err error) {
	weights, err := lm.Builtin()
	if err != nil {
		return nil, err
	}
	model := lm.NewModel(weights, 1)
	watch := func(_, _, context int, s policy.Selection) {
		home, away := 0, context
		for i := range s.Parts {
			if p := &s.Parts[i]; p.Device == policy.Home {
				home += p.Tokens()
			} else {
				away -= p.Tokens()
			}
		}
		shares = append(shares, float64(home)/float64(away))
	}
	_, err = lm.EvaluatePolicy(context.Background(), model, nil, &lm.Attends{Policy: spec, Watch: watch}, lm.SampleText()[:prompt+2], prompt, 1, nil)
	slices.Sort(shares)
	return shares, err
}
