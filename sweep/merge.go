package sweep

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// Merged is a plan put together again from its shards, with all results.
type Merged struct {
	Points  []Point // in the plan's order
	Outcome *Outcome
	Shards  int
	plan    *Plan // what writes results; it has no configurations and cannot run
}

// IncompleteError says what a merge lacks.
type IncompleteError struct {
	Missing []string // shards without folder, then what lacks in folders, each a clause
}

func (e *IncompleteError) Error() string {
	return "the results are not complete: " + strings.Join(e.Missing, "; ")
}

// Merge reads the folders of a plan's shards, in any order. All must be of one
// plan, one version of the code and one division into shards; a shard may be
// there more than once, whole or in parts, where its results agree in all but
// the time that they took. Of equal results the one that started first counts.
//
// What the folders are not is an *input.InputError; results that are not there
// yet are an *IncompleteError.
func Merge(dirs []string) (*Merged, error) {
	m := &merge{place: map[string]int{}}
	for _, dir := range dirs {
		if err := m.add(dir); err != nil {
			return nil, err
		}
	}
	if err := m.incomplete(); err != nil {
		return nil, err
	}
	return m.merged(), nil
}

// merge is a plan under reconstruction.
type merge struct {
	head   *shardHead
	first  string         // folder of head
	shards [][]string     // folders of each shard
	points []Point        // by index; those without Hash are not there
	shard  []int          // of each point
	place  map[string]int // index of the first point with each address
	held   []result       // by index, for the first point with each address
}

// result is a point's entry and where it is from.
type result struct {
	*Entry
	dir string
}

// add takes in one folder.
func (m *merge) add(dir string) error {
	head, err := readShardHead(dir)
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
	if _, err = readShard(dir, func(line *pointLine) error { return m.point(head.Shard, line, dir) }); err != nil {
		return err
	}
	return eachEntry(dir, func(e *Entry) error { return m.entry(e, dir) })
}

// match checks that a shard is of the plan and the division of the first one.
func (m *merge) match(head *shardHead, dir string) error {
	fail := func(key, is, expected string) error {
		return &input.InputError{File: filepath.Join(dir, shardName), Line: 1, Key: key, Value: is, Expected: expected + ", as in " + m.first}
	}
	switch {
	case head.Version != m.head.Version:
		return fail("version", head.Version, "results of one version of the code, "+m.head.Version)
	case head.Plan != m.head.Plan:
		return fail("plan", short(head.Plan), "shards of one plan, "+short(m.head.Plan))
	case head.Of != m.head.Of:
		return fail("of", fmt.Sprint(head.Of), fmt.Sprintf("one division into %d shards", m.head.Of))
	case head.Points != m.head.Points || !slices.Equal(head.Columns, m.head.Columns):
		return fail("points", fmt.Sprint(head.Points), "the points and columns of one plan")
	}
	return nil
}

// short shortens a hash for an error message.
func short(hash string) string { return hash[:min(len(hash), 12)] }

// point takes in a point of a shard.
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
	if m.shard[line.Index] != shard || old.Hash != p.Hash {
		return &input.InputError{File: filepath.Join(dir, shardName), Key: "point", Value: p.Name,
			Expected: fmt.Sprintf("each point in one shard; shard %d/%d has it, too", m.shard[line.Index], m.head.Of)}
	}
	return nil
}

// entry takes in a result; those of other plans, which a folder's journal may
// hold from before, are passed over.
func (m *merge) entry(e *Entry, dir string) error {
	at, ours := m.place[e.Point]
	if !ours {
		return nil
	}
	held := &m.held[at]
	if held.Entry != nil && !held.agrees(e) {
		if held.dir != dir {
			return &input.InputError{File: filepath.Join(dir, journalName), Key: fmt.Sprintf("%s, seed %d", e.Name, e.Seed),
				Value: e.outcome(), Expected: fmt.Sprintf("what %s has, %s: the same configuration, trace and code gave two results",
					held.dir, held.outcome())}
		}
		*held = result{e, dir} // a point that was forced to run again: the later counts
	}
	if held.Entry == nil || e.Started.Before(held.Started) {
		*held = result{e, dir}
	}
	return nil
}

// agrees says that two entries have the same result, however long it took.
func (e *Entry) agrees(other *Entry) bool {
	if e.Status != other.Status || e.Error != other.Error || (e.Summary == nil) != (other.Summary == nil) {
		return false
	}
	if e.Summary == nil {
		return true
	}
	a, b := *e.Summary, *other.Summary
	a.WallS, b.WallS = 0, 0
	return a == b
}

// outcome describes an entry in a few words.
func (e *Entry) outcome() string {
	if e.Summary == nil {
		return fmt.Sprintf("%s (%s)", e.Status, e.Error)
	}
	return fmt.Sprintf("%g output tokens/s in %g s", e.Summary.OutputTokensPerS, e.Summary.SimulatedS)
}

// incomplete returns an error that names the shards and the points that are not
// there.
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
		return &IncompleteError{missing}
	case lost > 0: // no shard lacks anything, but the plan does
		return &IncompleteError{[]string{fmt.Sprintf("%d of %d points are in no shard's %s", lost, len(m.points), shardName)}}
	}
	return nil
}

// merged returns the plan and its results.
func (m *merge) merged() *Merged {
	p := &Plan{File: &File{Path: m.head.File, Repeats: 1}, Version: m.head.Version, Keys: m.head.Keys, Points: m.points, columns: m.head.Columns}
	o := &Outcome{Entries: make([]*Entry, len(m.points)), Reused: len(m.points)}
	for i := range m.points {
		o.Entries[i] = m.held[m.place[m.points[i].Hash]].Entry
		if o.Entries[i].Status == results.StatusFailed {
			o.Failed++
		}
	}
	return &Merged{m.points, o, m.head.Of, p}
}

// Write puts the results into dir as Plan.Write does, and before them its
// journal, from which a sweep in that folder goes on: in the order of points,
// without those that it holds already.
func (m *Merged) Write(dir string) error {
	j, err := OpenJournal(dir)
	if err != nil {
		return err
	}
	defer j.Close()
	var news []*Entry
	seen := make(map[string]bool, len(m.Points))
	for _, e := range m.Outcome.Entries {
		if old := j.Entry(e.Point); !seen[e.Point] && (old == nil || !old.agrees(e)) {
			news = append(news, e)
		}
		seen[e.Point] = true
	}
	if err := j.RecordAll(news); err != nil {
		return err
	}
	return m.plan.Write(dir, m.Outcome)
}
