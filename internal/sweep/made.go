package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/traces"
)

// Run is a completed run, a row in a folder of results.
type Run struct {
	Name    string // of its point
	Config  *configs.Config
	Trace   *traces.Trace
	Summary *results.Summary
}

// Made returns the folder of runs that a command made without a plan, in the form of a sweep's folder. f describes their
// configurations; keys are the differences of the runs beside its axes. summary writes the command's output.
func Made(command string, f *design.File, runs []Run, summary func(io.Writer) error, keys ...string) (*tables.Folder, error) {
	version, err := CodeVersion()
	if err != nil {
		return nil, err
	}
	p, o := emptyPlan(f, version, append(axisKeys(f), keys...)), &Outcome{Ran: len(runs)}
	for i := range runs {
		r := &runs[i]
		point := Point{Name: r.Name, Seed: r.Config.Run.Seed, Tokens: r.Summary.Trace.OutputTokens, Requests: r.Summary.Trace.Requests}
		if err := point.identify(version, r.Config, hashTrace(r.Trace)); err != nil {
			return nil, err
		}
		point.cells = p.cells(&point, nil, r.Config)
		p.Points = append(p.Points, point)
		o.Entries = append(o.Entries, &Entry{Point: point.Hash, Name: r.Name, Seed: point.Seed, Version: version, Status: tables.StatusDone, Summary: r.Summary})
	}
	p.base = p.describeWith(runs[0].Config)
	return p.Folder(command, o, summary)
}

// identify sets the point's hashes: of its configuration, and of all that determines its result.
func (point *Point) identify(version string, config *configs.Config, trace string) (err error) {
	point.config, err = config.SHA256()
	point.Hash = address(version, trace, point.config)
	return err
}

// Address returns a journal's address for a result that depends on a configuration, a trace and more.
func Address(version string, config *configs.Config, trace *traces.Trace, more ...string) (string, error) {
	hash, err := config.SHA256()
	return address(version, hashTrace(trace), hash, more...), err
}

func address(version, trace, config string, more ...string) string {
	text := fmt.Appendf(nil, "%s\n%s\ntrace %s\nconfiguration %s\n", journalSchema, version, trace, config)
	for _, m := range more {
		text = fmt.Appendf(text, "%q\n", m)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// FileOf returns a sweep file without axes that describes one point of the plan.
func (p *Plan) FileOf(point *Point) *design.File {
	f := *p.File
	f.Set, f.Axes = p.settingsOf(point.trial), nil
	return &f
}
