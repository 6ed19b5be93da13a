package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/traces"
)

// Run is one run that is done, of which a folder of results has a row.
type Run struct {
	Name    string // of its point
	Config  *configs.Config
	Trace   *traces.Trace
	Summary *results.Summary
}

// Made returns the plan and the outcome of runs that were made without a plan, so that their folder is that of a sweep of
// the same points. f describes their configurations; keys are what the runs differ in beside its axes.
func Made(f *design.File, version string, runs []Run, keys ...string) (*Plan, *Outcome, error) {
	p, o := emptyPlan(f, version, append(axisKeys(f), keys...)), &Outcome{Ran: len(runs)}
	for i := range runs {
		r := &runs[i]
		point := Point{Name: r.Name, Seed: r.Config.Run.Seed, Tokens: r.Summary.Trace.OutputTokens, Requests: r.Summary.Trace.Requests}
		if err := point.identify(version, r.Config, hashTrace(r.Trace)); err != nil {
			return nil, nil, err
		}
		point.cells = p.cells(&point, nil, r.Config)
		p.Points = append(p.Points, point)
		o.Entries = append(o.Entries, &Entry{Point: point.Hash, Name: r.Name, Seed: point.Seed, Version: version, Status: tables.StatusDone, Summary: r.Summary})
	}
	p.base = p.describeWith(runs[0].Config)
	return p, o, nil
}

// identify sets the point's hashes, of its configuration and of all that decides its result.
func (point *Point) identify(version string, config *configs.Config, trace string) (err error) {
	point.config, err = config.SHA256()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\ntrace %s\nconfiguration %s\n", journalSchema, version, trace, point.config))
	point.Hash = hex.EncodeToString(sum[:])
	return err
}

// FileOf returns what describes one point of the plan: a file without axes.
func (p *Plan) FileOf(point *Point) *design.File {
	f := *p.File
	f.Set, f.Axes = p.settingsOf(point.trial), nil
	return &f
}
