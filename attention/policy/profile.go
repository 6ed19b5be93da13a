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

const profileSchema = "l3sim/profile/1" // names the form of a profile's file

// Profile is the counts of a policy that depend on data, as a Recorder measured them on a
// model and a text. It is a file in TOML: Write and Spec.ReadFiles.
type Profile struct {
	Model    ProfileModel
	Policy   Spec // only the keys that choose tokens count
	Measured ProfileMeasured
	Heads    []ProfileHead // by layer and KV head
}

// ProfileModel is the model that was measured, with the keys of a configuration's [model].
type ProfileModel struct {
	Name    string `toml:"name"`
	Layers  int    `toml:"layers"`
	Heads   int    `toml:"heads"` // query heads of a layer
	KVHeads int    `toml:"kv_heads"`
	HeadDim int    `toml:"head_dim"`
}

// ProfileMeasured is where counts were taken.
type ProfileMeasured struct {
	Prompt int `toml:"prompt"` // tokens
	Last   int `toml:"last"`   // context of the last step
	// Contexts is the first context of each bucket, ascending: a bucket ends where the next
	// one begins. Steps' own tokens are in their contexts.
	Contexts []int `toml:"contexts"`
}

// ProfileHead is what one KV head did, by bucket. Tokens that any query head of the group
// attends to count once.
type ProfileHead struct {
	// Share is the attended tokens at home over all tokens that no window on the GPUs holds;
	// 0 where there are none.
	Share []float64
	Rows  []float64 // rows of 512 tokens that the attended tokens at home lie in, mean over steps
}

// Bucket returns the bucket of a context: the first one for shorter contexts, the last one for longer ones.
func (m *ProfileMeasured) Bucket(context int) int {
	bucket, found := slices.BinarySearch(m.Contexts, context)
	if !found {
		bucket--
	}
	return max(0, bucket)
}

// Share returns the attended share of the tokens at home in a step of that context, its own token
// included. It is that of the context's bucket. Contexts beyond those that were measured have the
// share of the nearest bucket.
func (p *Profile) Share(layer, kvHead, context int) float64 {
	return p.Heads[layer*p.Model.KVHeads+kvHead].Share[p.Measured.Bucket(context)]
}

// Tokens returns how many of home tokens a KV head attends to in a step with a context: its
// share of them, rounded. For HGCA that is what was measured, to the token, where home is.
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
	return nil
}

func newProfileModel(name string, s Shape) *ProfileModel {
	return &ProfileModel{Name: name, Layers: s.Layers, Heads: s.QueryHeads, KVHeads: s.KVHeads, HeadDim: s.Dim}
}

// choosing returns the keys of a policy that bear on which tokens it chooses, the name among them, under their names in the
// section [policy] of a profile, which has the keys of one policy alone.
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

// written writes a value as configuration files do.
func written(v reflect.Value) string {
	text, _ := schema.Literal(v.Interface())
	return text
}

// Write writes the profile as a file that ReadFiles reads.
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
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number writes a number as TOML does, in full.
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

// rowTokens is the tokens of a row of keys over all banks of a rank (16 banks of 1 KiB a chip,
// FP16).
const rowTokens = 512

const bucketTokens = 128 // the contexts of a bucket of a profile

// Recorder makes a profile of the selections of one sequence. Buckets have 128 contexts. Those
// of HGCA have a block, between two evictions, so that tokens at home are the same throughout one.
type Recorder struct {
	profile     Profile
	width, from int // of buckets: contexts from + i·width on are one
	heads       [][]bucketCounts
	ranges      [][2]int
}

type bucketCounts struct{ attended, home, rows, steps int64 } // the sums of a head in a bucket

// NewRecorder returns a recorder for a sequence with a prompt of that many tokens.
func NewRecorder(model string, shape Shape, s *Spec, prompt int) *Recorder {
	r := &Recorder{width: bucketTokens, from: 1, heads: make([][]bucketCounts, shape.Layers*shape.KVHeads)}
	chosen := s.List().New(s.Name) // without keys that choose no tokens
	for _, k := range s.List().choosing(s.Name) {
		k.Set(&chosen, k.Get(s))
	}
	r.profile = Profile{Model: *newProfileModel(model, shape), Policy: chosen, Measured: ProfileMeasured{Prompt: prompt}}
	if k, ok := s.keys().(hasBlocks); ok {
		r.width, r.from = k.Blocks()
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
	if m.Last = context; len(*h) < len(m.Contexts) {
		*h = append(*h, bucketCounts{})
	}
	b := &(*h)[len(m.Contexts)-1]
	attended, rows := r.count(s, Home)
	held, _ := r.count(s, GPU)
	b.attended += int64(attended)
	b.home += int64(context - held)
	b.rows += int64(rows)
	b.steps++
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
	for i, buckets := range r.heads {
		for _, b := range buckets {
			share := 0.0
			if b.home > 0 {
				share = float64(b.attended) / float64(b.home)
			}
			p.Heads[i].Share = append(p.Heads[i].Share, share)
			p.Heads[i].Rows = append(p.Heads[i].Rows, float64(b.rows)/float64(b.steps))
		}
	}
	return &p
}
