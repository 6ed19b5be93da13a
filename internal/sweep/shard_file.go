package sweep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// shardName is the file in a shard's folder that names the plan and the shard's points.
// Merge needs only this file and the journal beside it, neither the sweep file nor its
// traces.
const shardName = "shard.jsonl"

// shardSchema names the form of that file: a line of JSON for the shard, then
// one for each of its points.
const shardSchema = "l3sim/shard/1"

// shardHead is the first line.
type shardHead struct {
	Schema  string        `json:"schema"`
	Plan    string        `json:"plan"`    // Plan.Identity
	Version string        `json:"version"` // version of the code
	File    string        `json:"file"`    // path of the sweep file, as given
	Shard   int           `json:"shard"`
	Of      int           `json:"of"`
	Points  int           `json:"points"`  // number of points of the whole plan
	Columns []string      `json:"columns"` // the keys of pointLine.Cells
	Keys    []string      `json:"keys"`    // the columns that an axis sets
	Base    *results.Base `json:"base"`    // what all points share
}

// pointLine is the identity of a point and the first cells of its row.
type pointLine struct {
	Index  int      `json:"index"` // in the whole plan
	Point  string   `json:"point"` // Point.Hash
	Name   string   `json:"name"`
	Seed   uint64   `json:"seed"`
	Config string   `json:"config,omitempty"` // SHA-256, "" for a point with an error
	Cells  []string `json:"cells"`
}

// line returns a point as a shard's file has it.
func (p *Point) line(index int) pointLine {
	return pointLine{index, p.Hash, p.Name, p.Seed, p.config, p.cells}
}

// Describe writes the plan and the points of the part into dir, for Merge. It refuses the
// folder of another shard of the same plan, as one of the two would be lost. It takes over
// the folder of an older plan, whose journal may hold points of this plan.
func (p *Part) Describe(dir string) error {
	head := shardHead{shardSchema, p.identity, p.Version, p.File.Path, p.Shard.Index, p.Shard.Count, p.Whole, p.columns, p.Keys, p.whole.describe()}
	old, err := readShardHead(dir)
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

// readShardHead returns the first line of the shard file in dir.
func readShardHead(dir string) (*shardHead, error) {
	head, err := readShard(dir, nil)
	return head, err
}

// readShard reads the shard file in dir and calls point for each line after the
// first; a nil point stops it there.
func readShard(dir string, point func(*pointLine) error) (*shardHead, error) {
	path := filepath.Join(dir, shardName)
	f, err := os.Open(path)
	if IsSystemFault(err) {
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
			if head.Of < 1 || head.Of > maxShards || head.Shard < 0 || head.Shard >= head.Of || head.Points < 0 || head.Points > maxCombinations {
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

// decodeLine decodes a line of JSON.
func decodeLine(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("not a line of JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
