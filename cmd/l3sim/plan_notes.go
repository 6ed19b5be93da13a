package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/plan"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// planNotes keeps what a plan has found of its combinations, in the journal of a folder of the user's cache, so that the same command goes
// on after an interruption.
type planNotes struct {
	journal *sweep.Journal // nil: nothing is kept
	version string
}

// openPlans opens the journal of plans. Where it cannot be used, a note says so, and nothing is kept.
func (a *app) openPlans() *planNotes {
	user, err := os.UserCacheDir()
	dir := filepath.Join(user, "l3sim", "plan")
	n := &planNotes{}
	if err == nil {
		n.version, err = sweep.CodeVersion()
	}
	if err == nil {
		n.journal, err = sweep.OpenJournal(dir)
	}
	if foreign := (*input.Error)(nil); errors.As(err, &foreign) && os.Remove(foreign.File) == nil { // another version wrote it
		n.journal, err = sweep.OpenJournal(dir)
	}
	if err != nil {
		a.Note("finished combinations are not kept: %v", err)
	}
	return n
}

// Close lets other plans use the journal.
func (n *planNotes) Close() error {
	if n.journal == nil {
		return nil
	}
	return n.journal.Close()
}

// kept returns what is kept of a step of a combination, or finds and keeps it.
func kept[T any](n *planNotes, c *planning, step string, find func() (T, error)) (value T, err error) {
	if n.journal == nil {
		return find()
	}
	knobs := fmt.Sprintf("%q %q %q", c.Options.Sets, c.Options.Flags, c.Options.ConfigFiles) // those that are given are not searched
	address, err := sweep.Address(n.version, c.cfg, c.trace, "plan", step, knobs)
	if err != nil {
		return value, err
	}
	if e := n.journal.Get(address); e != nil && json.Unmarshal(e.Value, &value) == nil {
		return value, nil
	}
	if value, err = find(); err != nil {
		return value, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return value, err
	}
	return value, n.journal.Put(&sweep.Entry{Point: address, Name: c.called, Seed: c.cfg.Run.Seed, Status: tables.StatusDone, Value: text, Version: n.version})
}

// compare compares the knobs of a combination.
func (n *planNotes) compare(ctx context.Context, c *planning) (err error) {
	c.contest.Candidates, err = kept(n, c, "compare", func() ([]plan.Candidate, error) {
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

// decide judges a combination by all requests. Of the rates that were tried only that of the row is kept.
func (n *planNotes) decide(ctx context.Context, c *planning) error {
	found, err := kept(n, c, "decide", func() (decided, error) {
		row, err := c.contest.Decide(ctx)
		if err != nil {
			return decided{}, err
		}
		return decided{row, row.Summary}, nil
	})
	if errors.As(err, new(*input.Error)) && c.contest.Rate() == 0 {
		c.unfit = err
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
