package l3sim

import (
	"cmp"
	"context"
	"sync"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results/tables"
)

// Table is the results of a sweep: a row for each point, with typed cells. Float(row, "tbt_p99_ms") returns a number, Value(row, "point") any
// cell.
type Table = tables.Table

// SweepOptions set how a sweep runs. They change no result.
type SweepOptions struct {
	// Folder gets a journal of finished points, and at the end results.csv, results.parquet and a summary of each point. A
	// sweep into the same folder reuses the points of the journal. "" keeps results in memory.
	Folder   string
	Workers  int                  // points that run in parallel; 0: one for each core
	Progress func(done, of int64) // is called, one call at a time, with the number of finished points; may be nil
}

// Sweep runs the points of a sweep file; ld loads their configurations. A point that fails is a row with its error. When
// ctx ends, Sweep returns its error, and the journal keeps the finished points.
func Sweep(ctx context.Context, ld *Loader, path string, o SweepOptions) (t *Table, err error) {
	if err := input.Ended(ctx); err != nil {
		return nil, err
	}
	file, err := design.ReadFile(ld, path)
	if err != nil {
		return nil, err
	}
	version, err := sweep.CodeVersion()
	if err != nil {
		return nil, err
	}
	plan, err := sweep.NewPlan(file, version)
	if err != nil {
		return nil, err
	}
	run := sweep.RunOptions{Workers: o.Workers}
	if o.Progress != nil {
		var one sync.Mutex
		run.Progress = func(done, of int64) {
			one.Lock()
			defer one.Unlock()
			o.Progress(done, of)
		}
	}
	if o.Folder != "" {
		if run.Journal, err = sweep.OpenJournal(o.Folder); err != nil {
			return nil, err
		}
		defer func() { err = cmp.Or(err, run.Journal.Close()) }()
	}
	outcome, err := plan.Run(ctx, run)
	if err == nil && o.Folder != "" {
		err = plan.Write(o.Folder, outcome)
	}
	if err != nil {
		return nil, err
	}
	return plan.Table(outcome)
}
