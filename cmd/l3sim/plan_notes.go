package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/plan"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results/tables"
)

// counter counts from several goroutines.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int64) int64 { return c.n.Add(n) }

// planNotes keeps what a plan has found of its combinations, in the journal of a folder of the user's cache, so that the same command goes
// on after an interruption.
type planNotes struct {
	journal *sweep.Journal // nil: nothing is kept
	version string
}

// openPlans opens the journal of plans. Where it cannot be used, a note says so, and nothing is kept.
func (a *app) openPlans() (*planNotes, error) {
	version, err := sweep.CodeVersion()
	if err != nil {
		return nil, err
	}
	n := &planNotes{version: version}
	user, err := os.UserCacheDir()
	if err == nil {
		dir := filepath.Join(user, "l3sim", "plan")
		n.journal, err = sweep.OpenJournal(dir)
		if foreign := (*input.Error)(nil); errors.As(err, &foreign) && os.Remove(foreign.File) == nil { // another version wrote it
			n.journal, err = sweep.OpenJournal(dir)
		}
	}
	if err != nil {
		a.Note("finished combinations are not kept: %v", err)
	}
	return n, nil
}

// Close lets other plans use the journal.
func (n *planNotes) Close() error {
	if n.journal == nil {
		return nil
	}
	return n.journal.Close()
}

// addressOf returns the address of a step of a combination: all that decides its result.
func (n *planNotes) addressOf(c *planning, step string) (string, error) {
	hash, err := c.cfg.SHA256()
	if err != nil {
		return "", err
	}
	lengths, err := json.Marshal(c.trace.Requests)
	if err != nil {
		return "", err
	}
	given, err := json.Marshal([]any{c.Options.Sets, c.Options.Flags, c.Options.ConfigFiles})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "plan %s\n%s\n%s\n%x\n%s\n", step, n.version, hash, sha256.Sum256(lengths), given))
	return hex.EncodeToString(sum[:]), nil
}

// get reads what is kept of a step, and says whether it is.
func (n *planNotes) get(c *planning, step string, v any) (*sweep.Entry, bool, error) {
	if n.journal == nil {
		return nil, false, nil
	}
	address, err := n.addressOf(c, step)
	if err != nil {
		return nil, false, err
	}
	e := n.journal.Get(address)
	return e, e != nil && json.Unmarshal(e.Value, v) == nil, nil
}

// put keeps a step.
func (n *planNotes) put(c *planning, step string, v any) error {
	if n.journal == nil {
		return nil
	}
	address, err := n.addressOf(c, step)
	if err != nil {
		return err
	}
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return n.journal.Put(&sweep.Entry{Point: address, Name: c.called, Seed: c.cfg.Run.Seed, Status: tables.StatusDone, Summary: c.summary, Value: value, Version: n.version})
}

// compare compares the knobs of a combination, or takes what is kept of that.
func (n *planNotes) compare(ctx context.Context, search *plan.Search, c *planning) error {
	var kept plan.Kept
	_, has, err := n.get(c, "compare", &kept)
	if err != nil {
		return err
	}
	if has {
		c.coarse, err = search.Resume(c.Options, c.cfg, c.trace, kept)
		return err
	}
	if c.coarse, err = search.Compare(ctx, c.Options, c.cfg, c.trace); err != nil {
		return err
	}
	return n.put(c, "compare", c.coarse.Kept())
}

// decide judges a combination by all requests, or takes what is kept of that.
func (n *planNotes) decide(ctx context.Context, search *plan.Search, c *planning, command func(*plan.Tuned) string) error {
	var row plan.Row
	e, has, err := n.get(c, "decide", &row)
	if err != nil {
		return err
	}
	if has {
		c.row, c.sets, c.summary = &row, row.Sets, e.Summary
		c.tuned, err = search.Load(c.Options, row.Sets)
		return err
	}
	t, err := search.Decide(ctx, c.coarse)
	if errors.As(err, new(*input.Error)) && c.coarse.Rate() == 0 {
		c.unfit = err
		return nil
	}
	if err != nil {
		return err
	}
	row = plan.NewRow(t, c.trace, c.Names)
	row.Command = command(t)
	c.tuned, c.sets, c.summary = t.Config, t.Sets, t.Answer.Best.Summary
	if err := n.put(c, "decide", &row); err != nil {
		return err
	}
	c.row = &row
	return nil
}
