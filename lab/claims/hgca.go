package claims

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/lab/lm"
	"github.com/l3sim/l3sim/system/kinds"
)

func (x *machine) host() *kinds.HostAttention { return kinds.NewHostAttention(x.cfg) }

// loading returns the time of attention on a GPU that loads keys and values from the host, over that
// on the CPUs, in one layer: the smallest over the contexts.
func (s *subject) loading() (finding, error) {
	h := s.own.host()
	f, all := finding{value: math.Inf(1)}, []string{}
	for _, context := range s.Contexts {
		cpus := h.OnCPUs(max(s.Batch, 1), max(s.Queries, 1), context)
		gpus, transfer := h.Loaded(max(s.Batch, 1), max(s.Queries, 1), context)
		f.value = min(f.value, gpus.Seconds()/cpus.Seconds())
		all = append(all, fmt.Sprintf("%s tokens: %.3g ms, of which the transfer %.3g ms, against %.3g ms", tokens(context), 1e3*gpus.Seconds(), 1e3*transfer.Seconds(), 1e3*cpus.Seconds()))
	}
	f.reason = strings.Join(all, "; ")
	return f, nil
}

// gain returns the speedup of a window on the GPU and the rest on the CPUs, in parallel, over loading
// the rest.
func gain(h *kinds.HostAttention, batch, window, rest int) float64 {
	near, unmoved := h.Loaded(batch, 1, window)
	all, whole := h.Loaded(batch, 1, window+rest)
	_, moved := h.Loaded(batch, 1, rest)
	return (all - whole + moved).Seconds() / max(near-unmoved, h.OnCPUs(batch, 1, rest)).Seconds()
}

// growing returns the gain with more keys and values on the host, or more requests, over that with
// fewer.
func (s *subject) growing() (finding, error) {
	h, batches := s.own.host(), s.Batches
	small, large := gain(h, batches[0], 1024, s.Contexts[0]), gain(h, batches[1], 1024, s.Contexts[1])
	return finding{value: large / small, reason: fmt.Sprintf("1,024 tokens on the GPU; gain of %.3g with batch %d of %s more, %.3g with %d of %s", small, batches[0], tokens(s.Contexts[0]), large, batches[1], tokens(s.Contexts[1]))}, nil
}

// generate returns the seconds in which a batch of equal requests decodes all but the first token
// together, after the last prompt.
func (x *machine) generate(batch, in, out int) (float64, error) {
	r, err := x.serve(batch, in, out)
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

// offloaded returns the time of another system for Figure 12's tokens over that of the paper's: the
// smallest over the batches.
func (s *subject) offloaded() (finding, error) {
	f, all := finding{value: math.Inf(1)}, []string{}
	for _, batch := range s.Batches {
		own, err := s.own.generate(batch, hgcaIn, hgcaOut)
		if err != nil {
			return f, err
		}
		other, note, err := s.fetching(batch)
		if err != nil {
			return f, err
		}
		f.value = min(f.value, other/own)
		all = append(all, fmt.Sprintf("batch %d: %.3g s%s against %.3g s", batch, other, note, own))
	}
	f.reason = strings.Join(all, "; ")
	return f, nil
}

// fetching returns the seconds of the other system, whose GPU loads a share of all keys and values in
// every step. Unless it loads in sequence, this is assumed to hide behind all else, the best case.
// Without a share the other system is simulated.
func (s *subject) fetching(batch int) (seconds float64, note string, err error) {
	if s.Share == 0 {
		seconds, err = s.over.generate(batch, hgcaIn, hgcaOut)
		return seconds, "", err
	}
	loaded := int(s.Share * (hgcaIn + hgcaOut/2))
	step := s.over.iterate(false, batch, loaded)
	_, transfer := s.over.host().Loaded(batch, 1, loaded)
	links := (hgcaOut - 1) * float64(s.over.cfg.Model.Layers) * transfer.Seconds()
	seconds = max((hgcaOut-1)*step.total(), links)
	if s.InTurn {
		seconds = float64((hgcaOut-1)*step.total()) + float64(links)
	}
	return seconds, fmt.Sprintf(" (transfers %.3g s)", links), nil
}

// step returns the mean seconds of a decode step of one request whose context is about that long.
func (x *machine) step(context int) (float64, error) {
	const out = 385
	s, err := x.generate(1, context-out+1, out)
	return s / (out - 1), err
}

// hosted returns the time of a step of another system over that of CSAttention with its best schedule,
// with keys and values on the host.
func (s *subject) hosted() (finding, error) {
	f, least := finding{}, math.Inf(1)
	for _, schedule := range schedules {
		x, err := s.own.with(schedule...)
		if err != nil {
			return f, err
		}
		took, err := x.step(s.Contexts[0])
		if err != nil {
			return f, err
		}
		if took < least {
			least, f.reason = took, fmt.Sprintf("share %s, period %s: %.4g ms a step", value(schedule[0]), value(schedule[1]), 1e3*took)
		}
	}
	other, err := s.over.step(s.Contexts[0])
	f.value, f.reason = other/least, f.reason+fmt.Sprintf(" against %.4g ms at %s tokens", 1e3*other, tokens(s.Contexts[0]))
	return f, err
}

// rate returns the tokens per second of one request around a context, over those of the other system if there is
// one.
func (s *subject) rate() (finding, error) {
	took, err := s.own.step(s.Contexts[0])
	if s.over != nil && err == nil {
		other, err := s.over.step(s.Contexts[0])
		return finding{value: other / took, reason: fmt.Sprintf("%.4g ms a token against %.4g ms", 1e3*took, 1e3*other)}, err
	}
	return finding{value: 1 / took, reason: fmt.Sprintf("%.4g ms a token, %.3g ms a layer", 1e3*took, 1e3*took/float64(s.own.cfg.Model.Layers))}, err
}

// memoryRate returns the host's bandwidth by its modules in GB/s, an upper bound for any program.
func (s *subject) memoryRate() (finding, error) {
	gb, channels := float64(s.own.host().Bandwidth())/1e9, s.own.cfg.Node.Channels
	return finding{value: gb, most: gb, reason: fmt.Sprintf("%d channels of %.4g GB/s", channels, gb/float64(channels))}, nil
}

// salience returns the share of salient tokens outside the window, in the first step after a prompt of sample text on the
// byte model: of the head with the smallest or the largest share.
func (s *subject) salience() (finding, error) {
	x := s.own
	spec, prompt := &x.cfg.Policy, s.Contexts[0]
	if x.salient == nil {
		var err error
		if x.salient, err = salient(spec, prompt); err != nil {
			return finding{}, err
		}
	}
	least, median, most := x.salient[0], x.salient[len(x.salient)/2], x.salient[len(x.salient)-1]
	f := finding{value: most, reason: fmt.Sprintf("%d heads of the byte model, a window of %d after %s bytes of sample text: %.3g of the tokens at the least, %.3g in the median, %.3g at the most",
		len(x.salient), policy.Section[policies.HGCASpec](spec).Window, tokens(prompt), least, median, most)}
	if s.Least {
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
