package sweep

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// Shard is one of the parts into which a plan is divided, so that several machines can run it.
type Shard struct {
	Index int // from 0
	Count int
}

// String returns the shard in the form of the flag: "2/8".
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// maxShards bounds the parts of a plan by the number of its points.
const maxShards = design.MaxCombinations

// The environment variables that ParseShard reads for "auto" and "auto/N".
// https://slurm.schedmd.com/job_array.html,
// https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
const (
	slurmID    = "SLURM_ARRAY_TASK_ID"
	slurmMin   = "SLURM_ARRAY_TASK_MIN"
	slurmMax   = "SLURM_ARRAY_TASK_MAX"
	slurmCount = "SLURM_ARRAY_TASK_COUNT"
	k8sIndex   = "JOB_COMPLETION_INDEX"
)

// ParseShard reads a shard. "i/N" is part i of N, "auto" the element of the Slurm array that this
// process runs in, and "auto/N" the completion index of its Kubernetes Job, among N. Only the last
// two read the environment. Errors are of type *input.Error and name the flag or the variable.
func ParseShard(flag, text string, environment func(string) string) (Shard, error) {
	const forms = `"i/N" with i from 0 to N-1, "auto" or "auto/N"`
	bad := func(expected string) (Shard, error) {
		return Shard{}, &input.Error{Key: flag, Value: strconv.Quote(text), Expected: expected}
	}
	if text == "auto" {
		return slurmShard(environment)
	}
	index, count, ok := strings.Cut(text, "/")
	if !ok {
		return bad(forms)
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > maxShards {
		return bad(fmt.Sprintf("%s, N from 1 to %d", forms, maxShards))
	}
	if index == "auto" {
		i, err := variable(environment, k8sIndex, 0, n-1)
		return Shard{i, n}, err
	}
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= n {
		return bad(forms)
	}
	return Shard{i, n}, nil
}

// slurmShard returns the shard of an element of a Slurm array. Elements must be consecutive. An
// array like 3,7 repeats two elements of a larger array, but would take the shards 0/2 and 1/2 of
// another division.
func slurmShard(environment func(string) string) (Shard, error) {
	first, err := variable(environment, slurmMin, 0, 1<<31)
	if err != nil {
		return Shard{}, err
	}
	last, err := variable(environment, slurmMax, first, 1<<31)
	if err != nil {
		return Shard{}, err
	}
	count, err := variable(environment, slurmCount, 1, maxShards)
	if err != nil {
		return Shard{}, err
	}
	if last-first+1 != count {
		return Shard{}, &input.Error{Key: slurmCount, Value: fmt.Sprint(count),
			Expected: fmt.Sprintf("%d, an array of consecutive elements from %s = %d to %s = %d; --shard i/N takes any", last-first+1, slurmMin, first, slurmMax, last)}
	}
	id, err := variable(environment, slurmID, first, last)
	return Shard{id - first, count}, err
}

func variable(environment func(string) string, name string, least, most int) (int, error) {
	text := environment(name)
	n, err := strconv.Atoi(text)
	if err == nil && n >= least && n <= most {
		return n, nil
	}
	bad := &input.Error{Key: name, Value: text, Expected: fmt.Sprintf("a number from %d to %d in this variable", least, most)}
	if text == "" {
		bad.Value, bad.Expected = `""`, "this variable, which is set in an element of a Slurm array"
		if name == k8sIndex {
			bad.Expected = "this variable, which is set in a pod of an indexed Kubernetes Job"
		}
	}
	return 0, bad
}

// Part is the points of one shard of a plan, in the plan's order. It runs like a plan;
// Merge joins the parts.
type Part struct {
	*Plan
	Shard    Shard
	Whole    int    // number of points of the whole plan
	identity string // Plan.Identity of the whole plan
	index    []int  // index of each point in the whole plan
	whole    *Plan
}

// Part returns the points of one shard. They depend only on the plan and the shard. Points are
// sorted by the tokens that they generate, points with equal tokens by their address, which is a
// hash. They are dealt to the shards back and forth, so that shards differ by at most one run, and
// each gets long and short runs. Points with the same address go to the same shard, as they run
// once.
func (p *Plan) Part(s Shard) *Part {
	of := p.deal(s.Count)
	part := *p
	part.Points = nil
	dealt := &Part{Plan: &part, Shard: s, Whole: len(p.Points), identity: p.Identity(), whole: p}
	for i, shard := range of {
		if shard == s.Index {
			part.Points = append(part.Points, p.Points[i])
			dealt.index = append(dealt.index, i)
		}
	}
	return dealt
}

func (p *Plan) deal(count int) []int {
	first := make(map[string]int, len(p.Points)) // point with each address
	var order []int
	for i := range p.Points {
		if _, seen := first[p.Points[i].Hash]; !seen {
			first[p.Points[i].Hash] = i
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &p.Points[a], &p.Points[b]
		return cmp.Or(cmp.Compare(y.Tokens, x.Tokens), cmp.Compare(x.Hash, y.Hash))
	})
	shards := make([]int, len(p.Points))
	for place, i := range order {
		shard := place % (2 * count)
		shards[i] = min(shard, 2*count-1-shard) // 0 to count-1, then back
	}
	for i := range p.Points {
		shards[i] = shards[first[p.Points[i].Hash]]
	}
	return shards
}

// Identity returns the SHA-256, in hexadecimal, of a plan's code version and of each point's
// address and row. Together they determine the results.
func (p *Plan) Identity() string {
	h := sha256.New()
	e := json.NewEncoder(h)
	// Encoding strings to a hash does not fail.
	_ = e.Encode([]any{journalSchema, p.Version, p.columns})
	for i := range p.Points {
		_ = e.Encode(p.Points[i].line(i))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// shardName is the file in a shard's folder that names the plan and the shard's points. Merge needs
// only this file and the journal, not the sweep file or its traces.
const shardName = "shard.jsonl"

// shardSchema names the version of that file: a line of JSON for the shard, then one for each of
// its points.
const shardSchema = "l3sim/shard/2"

// shardHead is the first line.
type shardHead struct {
	Schema  string       `json:"schema"`
	Plan    string       `json:"plan"`    // Plan.Identity
	Version string       `json:"version"` // version of the code
	File    string       `json:"file"`    // path of the sweep file, as given
	Shard   int          `json:"shard"`
	Of      int          `json:"of"`
	Points  int          `json:"points"`  // number of points of the whole plan
	Columns []string     `json:"columns"` // the keys of pointLine.Cells
	Keys    []string     `json:"keys"`    // the columns that an axis sets
	Base    *tables.Base `json:"base"`    // what all points share
}

// pointLine is the identity of a point and the first cells of its row.
type pointLine struct {
	Index  int            `json:"index"` // in the whole plan
	Point  string         `json:"point"` // Point.Hash
	Name   string         `json:"name"`
	Seed   uint64         `json:"seed"`
	Config string         `json:"config,omitempty"` // SHA-256, "" for a point with an error
	Cells  []tables.Value `json:"cells"`
}

func (p *Point) line(index int) pointLine {
	return pointLine{index, p.Hash, p.Name, p.Seed, p.config, p.cells}
}

// Describe writes the plan and the points of the part into dir, for Merge. It refuses the folder of
// another shard of the same plan, since one of the two would be lost. It reuses the folder of an
// older plan, whose journal may hold points of this plan.
func (p *Part) Describe(dir string) error {
	head := shardHead{shardSchema, p.identity, p.Version, p.File.Path, p.Shard.Index, p.Shard.Count, p.Whole, p.columns, p.Keys, p.whole.describe()}
	old, err := readShard(dir, nil)
	if err == nil && old.Plan == head.Plan && (old.Shard != head.Shard || old.Of != head.Of) {
		return &input.Error{Key: "--out", Value: dir,
			Expected: fmt.Sprintf("a folder of its own for shard %s; this one holds shard %d/%d of the same plan", p.Shard, old.Shard, old.Of)}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return results.WriteFiles(dir, []results.File{{Name: shardName, Write: func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		if err := e.Encode(head); err != nil {
			return err
		}
		for i := range p.Points {
			if err := e.Encode(p.Points[i].line(p.index[i])); err != nil {
				return err
			}
		}
		return nil
	}}})
}

// readShard reads the shard file in dir and calls point for each line after the
// first; a nil point stops it there.
func readShard(dir string, point func(*pointLine) error) (*shardHead, error) {
	path := filepath.Join(dir, shardName)
	f, err := os.Open(path)
	if input.IsSystemFault(err) {
		return nil, err
	}
	if err != nil {
		bad := &input.Error{File: dir, Err: err}
		if errors.Is(err, fs.ErrNotExist) {
			bad.Expected = "the folder of a sweep with --shard"
		}
		return nil, bad
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	head := &shardHead{}
	for number := 1; ; number++ {
		line, err := input.ReadLine(r)
		if err == io.EOF && len(line) == 0 && number > 1 {
			return head, nil
		}
		bad := &input.Error{File: path, Line: number, Err: err}
		if err == input.ErrLongLine {
			return nil, bad
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		if number == 1 {
			if bad.Err = decodeLine(line, head); bad.Err != nil || head.Schema != shardSchema {
				bad.Expected = `{"schema":"` + shardSchema + `",...}`
				return nil, bad
			}
			if head.Of < 1 || head.Of > maxShards || head.Shard < 0 || head.Shard >= head.Of || head.Points < 0 || head.Points > design.MaxCombinations {
				bad.Expected = "a shard of 1 to " + fmt.Sprint(maxShards) + " of a plan with that many points at most"
				return nil, bad
			}
			if point == nil {
				return head, nil
			}
			continue
		}
		var p pointLine
		if bad.Err = decodeLine(line, &p); bad.Err != nil {
			return nil, bad
		}
		if p.Index < 0 || p.Index >= head.Points || p.Point == "" || len(p.Cells) != len(head.Columns) {
			bad.Expected = "a point with an index below points and a cell a column"
			return nil, bad
		}
		if err := point(&p); err != nil {
			return nil, err
		}
	}
}

func decodeLine(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("not a line of JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
