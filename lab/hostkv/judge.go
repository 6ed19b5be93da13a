package hostkv

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/kinds"
)

// addedShare is the share of the GPU's part above which added time is judged; below it, the iteration's
// time is.
const addedShare = 0.1

// Predicted is a measured iteration with its prediction.
type Predicted struct {
	Row
	GPU       float64 `json:"gpu_ms"`             // measured, without transfers
	Predicted float64 `json:"predicted_ms"`       // with the measured GPU part
	Added     float64 `json:"added_ms"`           // measured, minus the GPU's part
	Says      float64 `json:"predicted_added_ms"` // predicted, minus the GPU's part
	Large     bool    `json:"large"`              // measured added time is at least a tenth of the GPU's part
}

// ModeErrors is the errors of one mode.
type ModeErrors struct {
	Mode      string `json:"mode"`
	Added     Errors `json:"added"`     // of added time, if it is large
	Small     Errors `json:"small"`     // of the iteration's time, if added time is small
	Iteration Errors `json:"iteration"` // of the iteration's time, in all rows
}

// Report is the result of Judge.
type Report struct {
	Schema string       `json:"schema"`
	File   string       `json:"file"`
	Modes  []ModeErrors `json:"modes"`
	Rows   []Predicted  `json:"rows"`
}

// sets is the model and the node of the measured iterations: layers of GLM-5 on one GPU that has its links and the host's memory to itself.
// The GPU's time is measured, so only the fetched bytes of the model matter: 1,152 B for each of 2,048 tokens.
var sets = []string{
	"run.system=sparse-offload", "run.model=glm-5-fp8", "policy.name=dsa", "model.tensor_parallel=1", "node.gpus=1", "node.channels=8", "model.layer_pattern=", "model.dense_layers=0", "model.dense_ffn_hidden=0", "model.experts=8",
	"sparse_offload.buffer_rows=2048", "pcie.generation=5", "pcie.lanes=16", "pcie.efficiency=0.8808", "pcie.gpus_per_uplink=1",
}

// Judge runs every row with transfers through the flow of sparse-offload. The GPU's part is taken from the row without transfers of the
// same batch and context.
func Judge(file string, rows []Row, o configs.Options) (*Report, error) {
	r, base := &Report{Schema: "l3sim/validate-hostkv/1", File: file, Modes: []ModeErrors{}, Rows: []Predicted{}}, bases(rows)
	o.Preset = cmp.Or(o.Preset, "dgx-h200-l3")
	for _, s := range sets {
		key, value, _ := strings.Cut(s, "=")
		o.Flags = append(slices.Clip(o.Flags), configs.Flag{Name: key, Key: key, Value: value})
	}
	for i := range rows {
		x := &rows[i]
		if x.Mode == None || x.Mode == TwoNone {
			continue
		}
		none, ok := base[caseOf(x)]
		if !ok {
			return nil, &input.Error{File: file, Line: x.Line, Key: "mode", Value: x.Mode, Expected: fmt.Sprintf("a row of mode %s with batch %d, context %d and %d layers, whose time is the GPU's part", noneOf(x.Mode), x.Batch, x.Context, x.Layers)}
		}
		p := Predicted{Row: *x, GPU: none.MS}
		if err := p.predict(o); err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, p)
	}
	for _, mode := range modes {
		if e := errorsOfMode(mode, r.Rows); e.Iteration.Rows > 0 {
			r.Modes = append(r.Modes, e)
		}
	}
	return r, nil
}

func noneOf(mode string) string {
	if mode == Inline {
		return None
	}
	return TwoNone
}

// predict runs the iteration.
func (p *Predicted) predict(o configs.Options) error {
	schedule, blocks := kinds.InOrder, 66 // of 1,024 threads: as many warps as 132 of 512
	if p.Mode != Inline {
		schedule = kinds.Two
	}
	if p.Mode == Two8 {
		blocks = 8
	}
	flag := func(key, value string) { o.Flags = append(o.Flags, configs.Flag{Name: key, Key: key, Value: value}) }
	o.Flags = slices.Clone(o.Flags)
	flag("sparse_offload.schedule", schedule)
	flag("sparse_offload.fetch_blocks", strconv.Itoa(blocks))
	flag("model.layers", strconv.Itoa(p.Layers))
	cfg, err := kinds.Loader().Load(o)
	if err != nil {
		return err
	}
	n, err := kinds.NewFetchIterations(cfg)
	if err != nil {
		return err
	}
	b := &scheduler.Batch{Step: 1, Sub: make([]scheduler.SubBatch, 1)}
	if schedule == kinds.Two {
		b.Sub = make([]scheduler.SubBatch, 2)
	}
	for i := range p.Batch {
		sub := &b.Sub[i*len(b.Sub)/p.Batch]
		sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Base: int64(p.Context) - 1, Last: 2, Prompt: int32(p.Context) - 1})
	}
	took, err := n.Iteration(b, p.Misses, p.GPU/(n.GPUTime(b).Seconds()*1e3))
	if err != nil {
		return err
	}
	p.Predicted = float64(took.Seconds() * 1e3)
	p.Added, p.Says = p.MS-p.GPU, p.Predicted-p.GPU
	p.Large = p.Added >= addedShare*p.GPU
	return nil
}

func errorsOfMode(mode string, rows []Predicted) ModeErrors {
	var added, small, all []float64
	for i := range rows {
		p := &rows[i]
		if p.Mode != mode {
			continue
		}
		all = append(all, p.Predicted/p.MS)
		if p.Large {
			added = append(added, p.Says/p.Added)
		} else {
			small = append(small, p.Predicted/p.MS)
		}
	}
	return ModeErrors{mode, errorsOf(added), errorsOf(small), errorsOf(all)}
}

// WriteText writes the errors by mode.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "iterations of %s through the flow of sparse-offload, with the measured GPU part\n\n", r.File)
	fmt.Fprintf(&b, "%-8s %26s  %26s  %26s\n", "mode", "added time, large", "iteration, added time small", "iteration, all rows")
	for i := range r.Modes {
		m := &r.Modes[i]
		fmt.Fprintf(&b, "%-8s %26s  %26s  %26s\n", m.Mode, m.Added.text(), m.Small.text(), m.Iteration.text())
	}
	fmt.Fprintf(&b, "\nrows: median and 90th percentile of the absolute error; added time is that beyond the GPU's part, and large where it is %.0f%% of that or more\n", 100*addedShare)
	_, err := io.WriteString(w, b.String())
	return err
}

func (e *Errors) text() string {
	if e.Rows == 0 {
		return "no rows"
	}
	return fmt.Sprintf("%d: %.1f%%, %.1f%%", e.Rows, 100*e.Median, 100*e.P90)
}
