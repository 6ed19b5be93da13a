package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
)

// Merged is a plan rebuilt from its shards, with all results.
type Merged struct {
	Points  []Point // in the plan's order
	Outcome *Outcome
	Shards  int
	Damage  []Damage // damage of the shards' journals
	plan    *Plan    // writes results; it has no configurations and cannot run
}

// incompleteError lists the shards and points that a merge lacks.
type incompleteError struct {
	Missing []string // clauses: the shards without a folder, then the points that folders lack
}

// Error joins what is missing into one line.
func (e *incompleteError) Error() string {
	return "the results are not complete: " + strings.Join(e.Missing, "; ")
}

// Merge reads the folders of a plan's shards, in any order. All must be of one plan, one version of
// the code and one division into shards. A shard may occur more than once, whole or in parts, if
// its results agree in all but wall time and host; of equal results the one that started first is
// used.
//
// Other folders return an *input.Error, missing results an *incompleteError.
func Merge(dirs []string) (*Merged, error) {
	m := &merge{place: map[string]int{}}
	for _, dir := range dirs {
		if err := m.add(dir); err != nil {
			return nil, err
		}
	}
	for _, dir := range dirs { // all points are known now
		if err := m.entries(dir); err != nil {
			return nil, err
		}
	}
	if err := m.incomplete(); err != nil {
		return nil, err
	}
	return m.merged(dirs)
}

// merge is a plan being rebuilt.
type merge struct {
	head   *shardHead
	first  string         // the folder that the head is from
	shards [][]string     // folders of each shard
	points []Point        // by index; a point without Hash has not been read
	shard  []int          // shard of each point
	place  map[string]int // index of the first point with each address
	held   []result       // by index, for the first point with each address
	damage []Damage
}

// result is a point's entry and its origin.
type result struct {
	*Entry
	dir string
}

func (m *merge) add(dir string) error {
	head, err := readShard(dir, nil)
	if err != nil {
		return err
	}
	if m.head == nil {
		m.head, m.first = head, dir
		m.shards = make([][]string, head.Of)
		m.points, m.shard, m.held = make([]Point, head.Points), make([]int, head.Points), make([]result, head.Points)
	}
	if err := m.match(head, dir); err != nil {
		return err
	}
	m.shards[head.Shard] = append(m.shards[head.Shard], dir)
	_, err = readShard(dir, func(line *pointLine) error { return m.point(head.Shard, line, dir) })
	return err
}

// match checks that a shard is of the plan and the division of the first one.
func (m *merge) match(head *shardHead, dir string) error {
	fail := func(key, is, expected string) error {
		return &input.Error{File: filepath.Join(dir, shardName), Line: 1, Key: key, Value: is, Expected: expected + ", as in " + m.first}
	}
	switch {
	case head.Version != m.head.Version:
		return fail("version", head.Version, "results of one version of the code, "+m.head.Version)
	case head.Plan != m.head.Plan:
		return fail("plan", describe(head), "shards of one plan, "+describe(m.head))
	case head.Of != m.head.Of:
		return fail("of", fmt.Sprint(head.Of), fmt.Sprintf("one division into %d shards", m.head.Of))
	case head.Points != m.head.Points || !slices.Equal(head.Columns, m.head.Columns) || !slices.Equal(head.Keys, m.head.Keys):
		return fail("points", fmt.Sprint(head.Points), "the points and columns of one plan")
	}
	return nil
}

func describe(head *shardHead) string {
	return fmt.Sprintf("%s of %s, %d points over %s", head.Plan[:min(len(head.Plan), 12)], head.File, head.Points, strings.Join(head.Keys, ", "))
}

func (m *merge) point(shard int, line *pointLine, dir string) error {
	p := Point{Name: line.Name, Seed: line.Seed, Hash: line.Point, config: line.Config, cells: line.Cells}
	old := &m.points[line.Index]
	if old.Hash == "" {
		*old = p
		m.shard[line.Index] = shard
		if _, known := m.place[p.Hash]; !known {
			m.place[p.Hash] = line.Index
		}
		return nil
	}
	if m.shard[line.Index] == shard && old.Hash == p.Hash {
		if !reflect.DeepEqual(old, &p) {
			return &input.Error{File: filepath.Join(dir, shardName), Key: "point", Value: p.Name,
				Expected: fmt.Sprintf("the same as in another folder of shard %d/%d, that of %s; one of them has been changed", shard, m.head.Of, old.Name)}
		}
		return nil
	}
	return &input.Error{File: filepath.Join(dir, shardName), Key: "point", Value: p.Name,
		Expected: fmt.Sprintf("each point in one shard; shard %d/%d has it, too", m.shard[line.Index], m.head.Of)}
}

// entries reads the results of one folder. Of two results of a point it takes the later. It skips
// results of other plans, which the journal may still hold.
func (m *merge) entries(dir string) error {
	own := map[int]*Entry{}
	damage, err := eachEntry(dir, func(e *Entry) error {
		if at, ours := m.place[e.Point]; ours {
			own[at] = e
		}
		return nil
	})
	if err != nil {
		return err
	}
	if damage.Count > 0 {
		m.damage = append(m.damage, damage)
	}
	for _, at := range slices.Sorted(maps.Keys(own)) {
		e, held := own[at], &m.held[at]
		if held.Entry != nil && !held.agrees(e) {
			return &input.Error{File: filepath.Join(dir, journalName), Key: fmt.Sprintf("%s, seed %d", e.Name, e.Seed),
				Value: e.outcome(), Expected: fmt.Sprintf("what %s has, %s: the same configuration, trace and code gave two results",
					held.dir, held.outcome())}
		}
		if held.Entry == nil || e.Started.Before(held.Started) {
			*held = result{e, dir}
		}
	}
	return nil
}

// agrees says whether two entries have the same result apart from wall time and host.
func (e *Entry) agrees(other *Entry) bool {
	if e.Status != other.Status || e.Error != other.Error || (e.Summary == nil) != (other.Summary == nil) {
		return false
	}
	if e.Summary == nil {
		return true
	}
	a, b := *e.Summary, *other.Summary
	a.WallS, b.WallS = 0, 0
	return reflect.DeepEqual(a, b)
}

func (e *Entry) outcome() string {
	if e.Summary == nil {
		return fmt.Sprintf("%s (%s)", e.Status, e.Error)
	}
	return fmt.Sprintf("%g output tokens/s in %g s", e.Summary.OutputTokensPerS, e.Summary.SimulatedS)
}

// incomplete returns an error that names the shards and the points that are not there.
func (m *merge) incomplete() error {
	var missing []string
	for i, dirs := range m.shards {
		if len(dirs) == 0 {
			missing = append(missing, fmt.Sprintf("shard %d/%d is missing", i, m.head.Of))
		}
	}
	if len(missing) > 8 {
		missing = append(missing[:7], fmt.Sprintf("and so are %d more of %d shards", len(missing)-7, m.head.Of))
	}
	lacking, example, lost := make([]int, m.head.Of), make([]string, m.head.Of), 0
	for i := range m.points {
		p := &m.points[i]
		if p.Hash == "" {
			lost++
			continue
		}
		if m.held[m.place[p.Hash]].Entry == nil {
			if s := m.shard[i]; lacking[s] == 0 {
				example[s] = fmt.Sprintf("%s, seed %d", p.Name, p.Seed)
			}
			lacking[m.shard[i]]++
		}
	}
	for s, n := range lacking {
		if n > 0 {
			missing = append(missing, fmt.Sprintf("shard %d/%d (%s) lacks %d of its points, the first is %s",
				s, m.head.Of, strings.Join(m.shards[s], ", "), n, example[s]))
		}
	}
	switch {
	case len(missing) > 0:
		for i := range m.damage {
			missing = append(missing, m.damage[i].String())
		}
		return &incompleteError{missing}
	case lost > 0: // every shard is complete, but the plan is not
		return &incompleteError{[]string{fmt.Sprintf("%d of %d points are in no shard's %s", lost, len(m.points), shardName)}}
	}
	return nil
}

// merged returns the plan and its results. It checks by the identity that the plan is the one that
// was divided, since a shard's file may have been changed.
func (m *merge) merged(dirs []string) (*Merged, error) {
	p := &Plan{File: &design.File{Path: m.head.File, Repeats: 1, Loader: system.Configs()}, Version: m.head.Version, Keys: m.head.Keys, Points: m.points, columns: m.head.Columns, base: m.head.Base}
	if p.Identity() != m.head.Plan {
		return nil, &input.Error{File: strings.Join(dirs, ", "), Key: "plan", Value: describe(m.head),
			Expected: "the points that this plan was dealt; a " + shardName + " has been changed"}
	}
	o := &Outcome{Entries: make([]*Entry, len(m.points)), Reused: len(m.points)}
	for i := range m.points {
		o.Entries[i] = m.held[m.place[m.points[i].Hash]].Entry
		if o.Entries[i].Status == tables.StatusFailed {
			o.Failed++
		}
	}
	return &Merged{m.points, o, m.head.Of, m.damage, p}, nil
}

// Write writes the results into dir as Plan.Write does. First it adds the entries that dir's
// journal lacks, in the order of points, so that a sweep in that folder can continue from this
// journal.
func (m *Merged) Write(dir string) (err error) {
	j, err := OpenJournal(dir)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, j.Close()) }()
	var news []*Entry
	seen := make(map[string]bool, len(m.Points))
	for _, e := range m.Outcome.Entries {
		if old := j.entry(e.Point); !seen[e.Point] && (old == nil || !old.agrees(e)) {
			news = append(news, e)
		}
		seen[e.Point] = true
	}
	if err := j.record(news...); err != nil {
		return err
	}
	return m.plan.Write(dir, m.Outcome)
}
