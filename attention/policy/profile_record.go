package policy

import (
	"cmp"
	"slices"
)

// rowTokens is the tokens of a row of keys over all banks of a rank (16 banks of 1 KiB a chip,
// FP16).
const rowTokens = 512

// bucketTokens is the contexts of a bucket of a profile.
const bucketTokens = 128

// Recorder makes a profile of the selections of one sequence. Buckets have 128 contexts. Those
// of HGCA have a block, between two evictions, so that tokens at home are the same throughout one.
type Recorder struct {
	profile     Profile
	width, from int // of buckets: contexts from + i·width on are one
	heads       []headCounts
	ranges      [][2]int
}

// headCounts is the sums of a head by bucket.
type headCounts struct{ attended, home, rows, steps []int64 }

// NewRecorder returns a recorder for a sequence with a prompt of that many tokens.
func NewRecorder(model string, shape Shape, s *Spec, prompt int) *Recorder {
	full := s.Own()
	r := &Recorder{width: bucketTokens, from: 1, heads: make([]headCounts, shape.Layers*shape.KVHeads)}
	chosen := New(s.Name) // without keys that choose no tokens
	for _, k := range choosing(s.Name) {
		k.Set(&chosen, k.Get(full))
	}
	r.profile = Profile{Model: *newProfileModel(model, shape), Policy: *chosen.Own(), Measured: ProfileMeasured{Prompt: prompt}}
	if s.Name == "hgca" {
		r.width, r.from = full.Block, full.Window%full.Block+1
	}
	return r
}

// Step adds what a KV head attends to in a step of that context, its own token
// included. Each head is given all its steps, in their order.
func (r *Recorder) Step(layer, kvHead, context int, s *Selection) {
	m, h := &r.profile.Measured, &r.heads[layer*r.profile.Model.KVHeads+kvHead]
	if first := max(m.Prompt+1, context-((context-r.from)%r.width+r.width)%r.width); len(m.Contexts) == 0 || first > m.Contexts[len(m.Contexts)-1] {
		m.Contexts = append(m.Contexts, first)
	}
	if m.Last = context; len(h.steps) < len(m.Contexts) {
		h.attended, h.home, h.rows, h.steps = append(h.attended, 0), append(h.home, 0), append(h.rows, 0), append(h.steps, 0)
	}
	n := len(m.Contexts) - 1
	attended, rows := r.count(s, Home)
	held, _ := r.count(s, GPU)
	h.attended[n] += int64(attended)
	h.home[n] += int64(context - held)
	h.rows[n] += int64(rows)
	h.steps[n]++
}

// count returns the tokens that any query head attends to on a device, and the rows in which
// they lie.
func (r *Recorder) count(s *Selection, on Device) (tokens, rows int) {
	r.ranges = r.ranges[:0]
	for i := range s.Parts {
		if s.Parts[i].Device == on {
			r.ranges = append(r.ranges, s.Parts[i].Ranges...)
		}
	}
	slices.SortFunc(r.ranges, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	end, row := 0, 0 // of what was counted
	for _, of := range r.ranges {
		from, to := max(of[0], end), of[1]
		if from >= to {
			continue
		}
		tokens += to - from
		last := (to-1)/rowTokens + 1
		rows += max(0, last-max(row, from/rowTokens))
		end, row = to, last
	}
	return tokens, rows
}

// Profile returns what was recorded of a sequence with at least one step.
func (r *Recorder) Profile() *Profile {
	p := r.profile
	p.Heads = make([]ProfileHead, len(r.heads))
	for i, h := range r.heads {
		for n, steps := range h.steps {
			share := 0.0
			if h.home[n] > 0 {
				share = float64(h.attended[n]) / float64(h.home[n])
			}
			p.Heads[i].Share = append(p.Heads[i].Share, share)
			p.Heads[i].Rows = append(p.Heads[i].Rows, float64(h.rows[n])/float64(steps))
		}
	}
	return &p
}
