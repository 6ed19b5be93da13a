package policy

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

const profileSchema = "l3sim/profile/1" // identifies the format of a profile's file

// Profile has a policy's data-dependent counts, as a Recorder measured them with a model and a text. It is stored as TOML: see Write and
// Spec.ReadFiles.
type Profile struct {
	Model    ProfileModel
	Policy   Spec // only the keys that affect choices count
	Measured ProfileMeasured
	Heads    []ProfileHead // by layer and KV head
}

// ProfileModel is the measured model, with the keys of a configuration's [model].
type ProfileModel struct {
	Name    string `toml:"name"`
	Layers  int    `toml:"layers"`
	Heads   int    `toml:"heads"` // query heads of a layer
	KVHeads int    `toml:"kv_heads"`
	HeadDim int    `toml:"head_dim"`
}

// ProfileMeasured describes the measured contexts.
type ProfileMeasured struct {
	Prompt int `toml:"prompt"` // tokens
	Last   int `toml:"last"`   // context of the last step
	// Contexts is the first context of each bucket, ascending: a bucket ends where the next one begins. A step's own token is part of its
	// context.
	Contexts []int `toml:"contexts"`
}

// ProfileHead has the counts of one KV head, by bucket. Tokens that any query head of the group attends to count once.
type ProfileHead struct {
	// Share is the number of attended tokens at home divided by the number of tokens outside the window on the GPUs; 0 if there are none.
	Share []float64
	Rows  []float64 // rows of 512 tokens that contain attended tokens at home, mean over steps
	// Chosen is the tokens at home that a head chose, in ranges, by step from the prompt on; nil where nobody recorded them, and of heads
	// that attend at home to all that is there.
	Chosen [][][2]int
}

// Bucket returns the bucket of a context; shorter contexts are in the first one, longer ones in the last.
func (m *ProfileMeasured) Bucket(context int) int {
	bucket, found := slices.BinarySearch(m.Contexts, context)
	if !found {
		bucket--
	}
	return max(0, bucket)
}

// Share returns the attended share of the tokens at home in a step of the given context, including its own token: the share of the
// context's bucket, or of the nearest bucket.
func (p *Profile) Share(layer, kvHead, context int) float64 {
	return p.Heads[layer*p.Model.KVHeads+kvHead].Share[p.Measured.Bucket(context)]
}

// Tokens returns the number of home tokens that a KV head attends to in a step: its share of them, rounded. For HGCA this equals the
// measured number exactly, if home is as measured.
func (p *Profile) Tokens(layer, kvHead, context, home int) int {
	return int(math.Round(p.Share(layer, kvHead, context) * float64(home)))
}

func (p *Profile) check(model string, shape Shape, s *Spec) error {
	bad := func(key, got, want string) error {
		return &input.Error{Key: "policy.profile", Value: strconv.Quote(s.Profile), Expected: fmt.Sprintf(
			"a profile with %s = %s, not %s, which 'l3lab eval --profile' writes; or \"\"", key, want, got), OtherKeys: []string{key}}
	}
	for _, k := range schema.Of[ProfileModel]().Keys {
		got, want := written(k.Get(&p.Model)), written(k.Get(newProfileModel(model, shape)))
		if got != want {
			return bad("model."+k.Name, got, want)
		}
	}
	if p.Policy.Name != s.Name {
		return bad("policy.name", strconv.Quote(p.Policy.Name), strconv.Quote(s.Name))
	}
	for _, k := range s.List().choosing(s.Name) {
		if got, want := written(k.Get(p.Policy.of(s.List()))), written(k.Get(s)); got != want {
			return bad("policy."+k.Name, got, want)
		}
	}
	return p.checkChosen(s, shape, bad)
}

func newProfileModel(name string, s Shape) *ProfileModel {
	return &ProfileModel{Name: name, Layers: s.Layers, Heads: s.QueryHeads, KVHeads: s.KVHeads, HeadDim: s.Dim}
}

// choosing returns a policy's keys that affect which tokens it chooses, including its name. They are named as in the section [policy] of a
// profile, which has only one policy's keys.
func (l *List) choosing(policy string) (keys []schema.Key) {
	own := l.policy(policy)
	for _, k := range l.schema.Keys {
		section, last := schema.Split(k.Name)
		if k.Name == "name" || own != nil && (section == policy && !slices.Contains(own.CostKeys, last) || k.Name == "gates" && own.splits()) {
			k.Name = last
			keys = append(keys, k)
		}
	}
	return keys
}

// written formats a value as configuration files do.
func written(v reflect.Value) string {
	text, _ := schema.Literal(v.Interface())
	return text
}

// Write writes the profile in the format that ReadFiles reads.
func (p *Profile) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Counts of a policy that depend on data ('l3lab eval --profile').\nschema = %q\n\n[model]\n", profileSchema)
	for _, k := range schema.Of[ProfileModel]().Keys {
		fmt.Fprintf(&b, "%s = %s\n", k.Name, written(k.Get(&p.Model)))
	}
	b.WriteString("\n[policy]\n")
	for _, k := range p.Policy.List().choosing(p.Policy.Name) {
		fmt.Fprintf(&b, "%s = %s\n", k.Name, written(k.Get(&p.Policy)))
	}
	m := &p.Measured
	fmt.Fprintf(&b, "\n[measured]\nprompt = %d\nlast = %d\ncontexts = %s\n", m.Prompt, m.Last, list(m.Contexts, strconv.Itoa))
	for i, h := range p.Heads {
		fmt.Fprintf(&b, "\n[[head]]\nlayer = %d\nkv_head = %d\nshare = %s\nrows = %s\n", i/p.Model.KVHeads, i%p.Model.KVHeads, list(h.Share, number), list(h.Rows, number))
		if h.Chosen != nil {
			b.WriteString("chosen = [ # tokens, a text for each step\n")
			for _, ranges := range h.Chosen {
				fmt.Fprintf(&b, "  %q,\n", rangesText(ranges))
			}
			b.WriteString("]\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number formats a number as in TOML, with all digits.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func list[T any](values []T, text func(T) string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = text(v)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// rowTokens is the number of tokens in a row of keys over all banks of a rank (16 banks of 1 KiB a chip, FP16).
const rowTokens = 512

const bucketTokens = 128 // number of contexts in a bucket of a profile

// Recorder builds a profile from the selections of one sequence. Buckets have 128 contexts. For HGCA a bucket is a block between two
// evictions, so that the tokens at home are constant within it.
type Recorder struct {
	profile     Profile
	width, from int // of buckets: contexts from from + i·width on
	heads       [][]bucketCounts
	ranges      [][2]int
	chosen      []chosenSteps // by head; nil: choices themselves are not kept
}

// chosenSteps is the ranges of each step of a head. chose says that some token at home was not among them.
type chosenSteps struct {
	steps [][][2]int
	chose bool
}

// KeepChoices has the profile say which tokens each step chose.
func (r *Recorder) KeepChoices() { r.chosen = make([]chosenSteps, len(r.heads)) }

type bucketCounts struct{ attended, home, rows, steps int64 } // a head's sums in a bucket

// NewRecorder returns a recorder for a sequence with a prompt of the given tokens.
func NewRecorder(model string, shape Shape, s *Spec, prompt int) *Recorder {
	r := &Recorder{width: bucketTokens, from: 1, heads: make([][]bucketCounts, shape.Layers*shape.KVHeads)}
	chosen := s.List().New(s.Name) // only keys that affect choices
	for _, k := range s.List().choosing(s.Name) {
		k.Set(&chosen, k.Get(s))
	}
	r.profile = Profile{Model: *newProfileModel(model, shape), Policy: chosen, Measured: ProfileMeasured{Prompt: prompt}}
	if k, ok := s.keys().(hasBlocks); ok {
		r.width, r.from = k.Blocks()
	}
	return r
}

// Step records the selection of a KV head in a step of the given context, including its own token. The steps of each head must come in
// order.
func (r *Recorder) Step(layer, kvHead, context int, s *Selection) {
	m, h := &r.profile.Measured, &r.heads[layer*r.profile.Model.KVHeads+kvHead]
	if first := max(m.Prompt+1, context-((context-r.from)%r.width+r.width)%r.width); len(m.Contexts) == 0 || first > m.Contexts[len(m.Contexts)-1] {
		m.Contexts = append(m.Contexts, first)
	}
	if m.Last = context; len(*h) < len(m.Contexts) {
		*h = append(*h, bucketCounts{})
	}
	b := &(*h)[len(m.Contexts)-1]
	attended, rows := r.count(s, Home)
	var c *chosenSteps
	if r.chosen != nil {
		c = &r.chosen[layer*r.profile.Model.KVHeads+kvHead]
		c.steps = append(c.steps, merged(r.ranges))
	}
	held, _ := r.count(s, GPU)
	if c != nil && attended < context-held {
		c.chose = true
	}
	b.attended += int64(attended)
	b.home += int64(context - held)
	b.rows += int64(rows)
	b.steps++
}

// count returns the number of tokens that any query head attends to on a device, and the number of their rows.
func (r *Recorder) count(s *Selection, on Device) (tokens, rows int) {
	r.ranges = r.ranges[:0]
	for i := range s.Parts {
		if s.Parts[i].Device == on {
			r.ranges = append(r.ranges, s.Parts[i].Ranges...)
		}
	}
	slices.SortFunc(r.ranges, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	end, row := 0, 0 // end of the counted tokens
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

// Profile returns the profile of the recorded sequence, which must have at least one step.
func (r *Recorder) Profile() *Profile {
	p := r.profile
	p.Heads = make([]ProfileHead, len(r.heads))
	for i, buckets := range r.heads {
		for _, b := range buckets {
			share := 0.0
			if b.home > 0 {
				share = float64(b.attended) / float64(b.home)
			}
			p.Heads[i].Share = append(p.Heads[i].Share, share)
			p.Heads[i].Rows = append(p.Heads[i].Rows, float64(b.rows)/float64(b.steps))
		}
		if r.chosen != nil && r.chosen[i].chose {
			p.Heads[i].Chosen = r.chosen[i].steps
		}
	}
	return &p
}
