package claims

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	files "github.com/l3sim/l3sim/configs/paper"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// evidence is what the claims are found in.
type evidence struct {
	seeds    []uint64
	readings bool // it is for all readings of the claims
	of       map[string]*experiment
	text     *models
	sparse   machines
}

// evaluation is the content of evaluation.toml.
type evaluation struct {
	Experiment []experimentSpec
	Claim      []*claim
}

// experimentSpec says what an experiment is for.
type experimentSpec struct {
	Name    string // of its sweep file
	Target  Target
	Claims  string   // a condition on the points that claims need
	Figures []string // drawn from its results
}

// finders are the functions that claims name.
var finders = map[string]finder{
	"best case": findBest, "ordering": findOrdering, "scaling": findScaling, "step": findStep,
	"least latency": findLeastLatency, "largest latency": findLargestLatency,
	"transfer share": onModels((*models).transferShare), "compute kept": onModels((*models).computeKept),
	"unit ratio": onModels((*models).unitRatio), "transposition": onModels((*models).transposition),
	"large requests": onModels((*models).largeRequests), "small requests": onModels((*models).smallRequests),
	"attention share": onModels((*models).attentionShare),
	"sparse share":    onSparse((*subject).share), "sparse time": onSparse((*subject).time), "sparse ratio": onSparse((*subject).ratio), "sparse growth": onSparse((*subject).growth),
	"sparse attention ratio": onSparse((*subject).attentionRatio), "sparse memory": onSparse((*subject).memory),
	"lserve selector": onSparse((*subject).selector), "lserve pages": onSparse((*subject).pages), "lserve reuse": onSparse((*subject).reuse),
	"lserve slope":      onSparse((*subject).slope),
	"csattention ratio": onSparse((*subject).centroids), "csattention composition": onSparse((*subject).composition),
	"csattention entries": onSparse((*subject).entries), "csattention hosted": onSparse((*subject).hosted),
	"hgca loading": onSparse((*subject).loading), "hgca growing": onSparse((*subject).growing), "hgca offloaded": onSparse((*subject).offloaded),
	"hgca rate": onSparse((*subject).rate), "hgca salience": onSparse((*subject).salience), "hgca memory rate": onSparse((*subject).memoryRate),
	"lserve needle": onSparse((*subject).needle),
}

// onModels makes a finder of what needs no run.
func onModels(find func(*models, *reading) (finding, error)) finder {
	return func(e *evidence, _ uint64, r *reading) (finding, error) { return find(e.text, r) }
}

// readEvaluation reads evaluation.toml and readSparse the claims about sparse attention, which are
// part of the program.
var (
	readEvaluation = sync.OnceValues(func() (*evaluation, error) { return readClaims("evaluation.toml") })
	readSparse     = sync.OnceValues(func() (*evaluation, error) {
		all := &evaluation{}
		for _, name := range sparseFiles {
			e, err := readClaims(name)
			if err != nil {
				return nil, err
			}
			all.Claim = append(all.Claim, e.Claim...)
		}
		return all, nil
	})
)

// sparseFiles have the claims about sparse attention.
var sparseFiles = []string{"lserve.toml", "lserve_accuracy.toml", "hgca.toml", "csattention.toml", "sparse.toml"}

// readClaims reads a file of claims, and looks up the function that finds each one's number.
func readClaims(name string) (*evaluation, error) {
	text, err := files.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	e := &evaluation{}
	meta, err := input.DecodeTOML(files.Folder+"/"+name, string(text), e)
	if err != nil {
		return nil, err
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("%s: unknown keys %v", name, unknown)
	}
	for _, c := range e.Claim {
		if c.find = finders[c.Find]; c.find == nil && c.Kind != statement {
			return nil, fmt.Errorf("%s: %s: no function %q", name, c.ID, c.Find)
		}
		if len(c.Readings) == 0 {
			c.Readings = []reading{{}}
		}
		for i := range c.Readings {
			r := &c.Readings[i]
			r.Set, r.Over = slices.Concat(c.Set, r.Set), slices.Concat(c.Over, r.Over)
		}
	}
	return e, nil
}

// claimsOf returns the claims that belong to a target, in the order of the paper's
// figures.
func claimsOf(t Target) ([]*claim, error) {
	if t == Sparse {
		e, err := readSparse()
		if err != nil {
			return nil, err
		}
		return e.Claim, nil
	}
	all, err := readEvaluation()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all.Claim), func(c *claim) bool {
		figure, _, _ := strings.Cut(c.ID, ".")
		own := figure == string(t) || t == Fig2 && c.ID == "text.mha_share_16k" || t == Fair && figure == string(Fig8)
		return !own && t != AllTargets && t != ClaimsOnly
	}), nil
}

// busy describes what a run's resources did, the ranksets' balance where they have one.
func busy(s *results.Summary) string {
	text := fmt.Sprintf("GPUs %.0f%%, PIM %.0f%% busy", 100*s.Utilization.GPU, 100*s.Utilization.PIM)
	if s.RanksetImbalance > 0 {
		text += fmt.Sprintf(", busiest rankset over mean %.2f", s.RanksetImbalance)
	}
	return text
}

// terabytes is a run's memory for KV.
func terabytes(s *results.Summary) float64 { return float64(s.KVBytes.Capacity) / 1e12 }

// bottleneck names the resource that a run keeps busiest.
func bottleneck(s *results.Summary) string {
	if s.Utilization.GPU > s.Utilization.PIM {
		return fmt.Sprintf("GPUs %.0f%% busy", 100*s.Utilization.GPU)
	}
	return fmt.Sprintf("ranksets %.0f%% busy", 100*s.Utilization.PIM)
}

// throughput is what Fig 8 to 10 compare.
func throughput(s *results.Summary) float64 { return s.OutputTokensPerS }

// metric returns a summary's number by the name of its column.
func metric(name string) (func(*results.Summary) float64, error) {
	at := slices.Index(results.MetricNames(), name)
	if at < 0 {
		return nil, fmt.Errorf("no metric %q", name)
	}
	return func(s *results.Summary) float64 {
		v, _ := strconv.ParseFloat(s.MetricValues()[at], 64) // it reads what a number was written as
		return v
	}, nil
}
