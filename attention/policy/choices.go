package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Choices is the tokens that heads of one sequence chose, step by step, as the file policy.profile has them (ProfileHead.Chosen). Steps are
// those after the prompt, in turn. What its methods return are means over the heads that chose. It is not safe for concurrent use.
type Choices struct {
	prompt int
	heads  [][][][2]int      // by head and step, ranges
	groups map[int][]float64 // results of Groups, by size
}

// Choices returns the choices in the profile that ReadFiles has read, or nil.
func (s *Spec) Choices() *Choices {
	if s.profile == nil {
		return nil
	}
	return s.profile.holds.Choices()
}

// Choices returns the choices of heads that chose, or nil if there are none.
func (p *Profile) Choices() *Choices {
	c := &Choices{prompt: p.Measured.Prompt}
	for _, h := range p.Heads {
		if h.Chosen != nil {
			c.heads = append(c.heads, h.Chosen)
		}
	}
	if c.heads == nil {
		return nil
	}
	return c
}

// Step returns the number of the recorded step that stands for one of that context: the nearest one.
func (c *Choices) Step(context int) int {
	return min(max(context-c.prompt-1, 0), len(c.heads[0])-1)
}

// Groups returns in how many groups of size successive tokens the chosen ones lie, by step.
func (c *Choices) Groups(size int) []float64 {
	groups := make([]float64, len(c.heads[0]))
	for _, steps := range c.heads {
		for i, ranges := range steps {
			groupsOf(ranges, size, func(int) { groups[i]++ })
		}
	}
	return c.mean(groups)
}

// Touched returns the number of groups of size successive tokens that contain a chosen token in a step of the given context: that of the nearest
// recorded step, rounded up, but at least as many as the chosen tokens fill and at most as many as the context has. Without a recording (nil) it
// is the number for random tokens, as the function Touched returns it.
func (c *Choices) Touched(context, chosen, size int) int {
	if c == nil {
		return Touched(context, chosen, size)
	}
	groups, known := c.groups[size]
	if !known {
		groups = c.Groups(size)
		if c.groups == nil {
			c.groups = map[int][]float64{}
		}
		c.groups[size] = groups
	}
	recorded := int(math.Ceil(groups[c.Step(context)] - 1e-9))
	return min(max(recorded, (chosen+size-1)/size), (context+size-1)/size)
}

// Misses returns how many pages, by step, a GPU does not have that keeps as many of a head as it has used last. Its memory is empty before
// the first step. What a step uses stays for all of the step, and of pages that an earlier one used last those with lower tokens go first. A
// page that the step's own token begins comes from no other memory.
func (c *Choices) Misses(page, pages int) []float64 {
	misses := make([]float64, len(c.heads[0]))
	for _, steps := range c.heads {
		used := map[int]int{} // the step that used a page last, of pages that the GPU has
		var order, kept []int // those pages, the one used longest ago first
		for i, ranges := range steps {
			own := c.prompt + i // the step's token
			kept = kept[:0]
			groupsOf(ranges, page, func(group int) {
				if _, has := used[group]; !has && group*page < own {
					misses[i]++
				}
				used[group] = i
				kept = append(kept, group)
			})
			all := make([]int, 0, len(order)+len(kept))
			for _, group := range order {
				if used[group] < i {
					all = append(all, group)
				}
			}
			order = append(all, kept...)
			for ; len(order) > pages; order = order[1:] {
				delete(used, order[0])
			}
		}
	}
	return c.mean(misses)
}

// mean turns sums over heads into means.
func (c *Choices) mean(sums []float64) []float64 {
	for i := range sums {
		sums[i] /= float64(len(c.heads))
	}
	return sums
}

// groupsOf calls see with the number of each group of size successive tokens in which ascending ranges have some.
func groupsOf(ranges [][2]int, size int, see func(group int)) {
	next := 0 // the first group that was not seen
	for _, r := range ranges {
		for next = max(next, r[0]/size); next <= (r[1]-1)/size; next++ {
			see(next)
		}
	}
}

// rangesText writes ranges as profiles have them: "0-15 40" is the first 16 tokens and token 40.
func rangesText(ranges [][2]int) string {
	var b strings.Builder
	for i, r := range ranges {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(r[0]))
		if r[1] > r[0]+1 {
			fmt.Fprintf(&b, "-%d", r[1]-1)
		}
	}
	return b.String()
}

// parseChosen reads the ranges of each step of a head, whose contexts begin with first and end with last.
func parseChosen(c *input.Check, key string, texts []string, first, last int) (steps [][][2]int) {
	c.That(len(texts) == last-first+1, key, fmt.Sprintf("%d elements", len(texts)), "an array of %d texts, one for each step from measured.prompt to measured.last", last-first+1)
	for i := 0; c.OK() && i < len(texts); i++ {
		ranges, end := [][2]int{}, 0
		for _, word := range strings.Fields(texts[i]) {
			from, to, more := strings.Cut(word, "-")
			a, err := strconv.Atoi(from)
			b := a
			if more && err == nil {
				b, err = strconv.Atoi(to)
			}
			c.That(err == nil && a >= end && b >= a && b < first+i, fmt.Sprintf("%s[%d]", key, i), word, "tokens as in \"0-15 40\", ascending, %d to %d here", end, first+i-1)
			ranges, end = append(ranges, [2]int{a, b + 1}), b+1
		}
		steps = append(steps, ranges)
	}
	return steps
}

// merged returns sorted ranges, which may overlap, as ascending ones that do not touch.
func merged(sorted [][2]int) [][2]int {
	all := [][2]int{}
	for _, r := range sorted {
		if n := len(all); n > 0 && r[0] <= all[n-1][1] {
			all[n-1][1] = max(all[n-1][1], r[1])
		} else if r[0] < r[1] {
			all = append(all, r)
		}
	}
	return all
}

// checkChosen refuses recorded choices for a step of several tokens, and for an indexer that chooses fewer or more tokens.
func (p *Profile) checkChosen(s *Spec, shape Shape, bad func(key, got, want string) error) error {
	c := p.Choices()
	if c == nil {
		return nil
	}
	if shape.Ahead() > 0 {
		return &input.Error{Key: "policy.profile", Value: strconv.Quote(s.Profile), OtherKeys: []string{"serving.verified_tokens"},
			Expected: fmt.Sprintf("a profile without chosen tokens, which are of steps of one token each, or serving.verified_tokens = 1, not %d", shape.Verified)}
	}
	if most := int(slices.Max(c.Groups(1))); s.Indexed() && most != shape.IndexTopK {
		return bad("model.index_top_k", strconv.Itoa(most), strconv.Itoa(shape.IndexTopK))
	}
	return nil
}
