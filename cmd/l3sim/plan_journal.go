package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/plan"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
)

// openJournal opens the journal of plans in a folder of the user's cache. It stores results of combinations, so that the same command can
// resume after an interruption. If the journal cannot be used, a note says so, and nothing is kept.
func (p *planner) openJournal() {
	user, err := os.UserCacheDir()
	dir := filepath.Join(user, "l3sim", "plan")
	if err == nil {
		p.version, err = sweep.CodeVersion()
	}
	if err == nil {
		p.journal, err = sweep.OpenJournal(dir)
	}
	if foreign := (*input.Error)(nil); errors.As(err, &foreign) && os.Remove(foreign.File) == nil { // another version wrote it
		p.journal, err = sweep.OpenJournal(dir)
	}
	if err != nil {
		p.Note("finished combinations are not kept: %v", err)
	}
}

// kept returns the journal's result of a step of a combination; without one it finds and stores it.
func kept[T any](p *planner, c *planning, step string, find func() (T, error)) (value T, err error) {
	knobs := fmt.Sprintf("%q %q %q", c.Options.Sets, c.Options.Flags, c.Options.ConfigFiles) // knobs that the user sets are not searched
	address, err := sweep.Address(p.version, c.cfg, c.trace, "plan", step, knobs)
	if err != nil || p.journal.Get(address, &value) {
		return value, err
	}
	if value, err = find(); err != nil {
		return value, err
	}
	return value, p.journal.Put(address, c.called, p.version, value)
}

// compare compares the knobs of a combination.
func (p *planner) compare(ctx context.Context, c *planning) (err error) {
	c.contest.Candidates, err = kept(p, c, "compare", func() ([]plan.Candidate, error) {
		err := c.contest.Compare(ctx)
		return c.contest.Candidates, err
	})
	return err
}

// decided is a row with what its own JSON leaves out.
type decided struct {
	Row     *plan.Row        `json:"row"`
	Summary *results.Summary `json:"summary"`
}

// decide judges a combination by all requests. Of the tried rates it keeps only that of the row.
func (p *planner) decide(ctx context.Context, c *planning) error {
	found, err := kept(p, c, "decide", func() (decided, error) {
		row, err := c.contest.Decide(ctx)
		if err != nil {
			return decided{}, err
		}
		return decided{row, row.Summary}, nil
	})
	if bad := (*input.Error)(nil); errors.As(err, &bad) && c.contest.Rate() == 0 {
		if c.unfit = err; bad.File == "--set" { // the search chose the layout this way; the user gave no flag
			bad.File = ""
		}
		return nil
	}
	if err != nil {
		return err
	}
	c.row = found.Row
	c.row.Summary, c.row.Tried = found.Summary, nil
	if c.row.Highest > 0 {
		c.row.Tried = []plan.Load{c.row.Load}
	}
	c.row.Config, err = c.contest.Config(c.row.Sets...)
	return err
}
