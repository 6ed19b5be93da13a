package sweep

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Shard is one of the parts that a plan is dealt into, so that several machines
// can run it.
type Shard struct {
	Index int // from 0
	Count int
}

// String returns the shard as the flag takes it: "2/8".
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// maxShards bounds the parts of a plan, as a plan has no more points than this.
const maxShards = maxCombinations

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

// ParseShard reads a shard. "i/N" is part i of N. "auto" is the element of the Slurm array
// that this process runs in. "auto/N" is the completion index of its Kubernetes Job, among
// N. Only the last two read the environment. Errors are of type *input.Error and name the
// flag or the variable.
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

// slurmShard returns the shard of an element of a Slurm array. Elements must be consecutive.
// An array like 3,7 repeats two elements of a larger array: it would take the shards 0/2
// and 1/2, which are parts of another division.
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

// variable reads a number from the environment.
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

// Part returns the points of one shard. They depend only on the plan and the shard. Points
// are sorted by the tokens that they generate, points with equal tokens by their address,
// which is a hash. They are dealt to the shards to and fro. So shards differ by one run at
// most, and each gets long and short runs. Points with the same address go to the same
// shard, as they run once.
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

// deal returns the shard of each point.
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

// Identity returns the SHA-256, in hexadecimal, of a plan's code version and of each
// point's address and row. Together they decide the results.
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
