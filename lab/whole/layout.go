package whole

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// layout is how a model is divided over the GPUs of a row.
type layout struct {
	gpus    int  // of the node
	tensor  int  // per replica
	data    bool // each GPU of a replica attends for requests of its own
	experts bool // whole experts are on the GPUs of a replica
}

var (
	bracketed  = regexp.MustCompile(`\([^)]*\)`)
	layoutPart = regexp.MustCompile(`^(attention)?(tep|dep|tp|dp|ep|dcp|decodecontextparallel|pp|cp|sp)=?(\d+)?$`)
	layoutGap  = regexp.MustCompile(`[\s,;/+&|]+`)
	spaced     = regexp.MustCompile(`(?i)\b(tep|dep|tp|dp|ep|dcp|decode[ -]context[ -]parallel|pp)[ =-]+(\d+)\b`)
)

// layoutOf reads the parallelism of a row: TP for layers divided over GPUs, EP for whole experts, DP for replicas, or for attention where
// the GPUs are those of TP or EP, DEP and TEP for both. reason says why a text is no supported layout.
func layoutOf(row *Row) (l layout, reason string) {
	inside := strings.ToLower(strings.Join(bracketed.FindAllString(row.Parallelism, -1), " "))
	if strings.Contains(inside, "pp") || strings.Contains(strings.ToLower(row.Parallelism), "pipeline") {
		return l, fmt.Sprintf("%q: pipelines of layers are not modelled", row.Parallelism)
	}
	if strings.Contains(inside, "p/d") || strings.Contains(inside, "pair") || strings.Contains(strings.ToLower(row.Parallelism), "disagg") || strings.Contains(inside, "decode instance") {
		return l, fmt.Sprintf("%q: one side of a split server", row.Parallelism)
	}
	text := strings.ToLower(bracketed.ReplaceAllString(row.Parallelism, " "))
	text = spaced.ReplaceAllStringFunc(text, func(s string) string { return strings.NewReplacer(" ", "", "-", "", "=", "").Replace(s) })
	n := map[string]int{}
	for _, part := range layoutGap.Split(strings.TrimSpace(text), -1) {
		part = strings.ReplaceAll(part, "-", "")
		if part == "" {
			continue
		}
		if part == "attentiondp" || part == "dpattention" {
			n["attention"] = 1
			continue
		}
		m := layoutPart.FindStringSubmatch(part)
		if m == nil || m[3] == "" && m[2] != "ep" {
			return l, fmt.Sprintf("parallelism %q is no layout that is known: TPn, TPn EPn, DPn EPn, DEPn, TEPn, TPn DPn", row.Parallelism)
		}
		of, _ := strconv.Atoi(m[3])
		if m[1] != "" {
			n["attention"] = 1
		}
		if m[3] != "" && (of < 1 || of > maxGPUs) || n[m[2]] > 0 && n[m[2]] != of {
			return l, fmt.Sprintf("parallelism %q: %s is no number of GPUs", row.Parallelism, part)
		}
		n[m[2]] = max(of, 1)
		if m[2] == "ep" && m[3] == "" {
			n["ep"] = -1 // follows from the other numbers
		}
	}
	return arrange(row, n)
}

// arrange makes a layout from the numbers of a row's parallelism.
func arrange(row *Row, n map[string]int) (l layout, reason string) {
	for _, other := range []struct{ key, why string }{
		{"pp", "pipelines of layers are not modelled"}, {"dcp", "contexts divided over GPUs are not modelled"},
		{"decodecontextparallel", "contexts divided over GPUs are not modelled"}, {"cp", "contexts divided over GPUs are not modelled"}, {"sp", "sequences divided over GPUs are not modelled"},
	} {
		if n[other.key] > 1 {
			return l, fmt.Sprintf("%q: %s", row.Parallelism, other.why)
		}
	}
	tp, dp, ep := n["tp"], n["dp"], n["ep"]
	switch {
	case n["dep"] > 0:
		l = layout{gpus: n["dep"], tensor: n["dep"], data: true, experts: true}
	case n["tep"] > 0:
		l = layout{gpus: n["tep"], tensor: n["tep"], experts: true}
	case tp == 0 && dp == 0 && ep == 0 && row.GPUs == 1:
		l = layout{gpus: 1, tensor: 1}
	case tp == 0 && dp == 0 && ep == 0:
		return l, "no parallelism is given"
	case dp > 1 && tp <= 1 && ep != 0: // vLLM: attention by requests, experts over the same GPUs
		l = layout{gpus: dp, tensor: dp, data: true, experts: true}
	case dp > 1 && tp > 1 && (dp == tp && (row.GPUs == tp || row.GPUs == 0) || n["attention"] > 0): // SGLang: TP has all GPUs, attention by requests
		if dp != tp {
			return l, fmt.Sprintf("%q: attention over groups of GPUs is not modelled", row.Parallelism)
		}
		l = layout{gpus: tp, tensor: tp, data: true, experts: ep != 0}
	case dp > 1 && tp > 1 && ep != 0:
		return l, fmt.Sprintf("%q: attention over groups of GPUs is not modelled", row.Parallelism)
	default:
		tensor := max(tp, ep, 1)
		l = layout{gpus: tensor * max(dp, 1), tensor: tensor, data: n["attention"] > 0 && tensor > 1, experts: ep != 0 && tensor > 1}
		if tp > 1 && ep > 1 && ep != tp {
			return l, fmt.Sprintf("%q: experts over another number of GPUs than layers", row.Parallelism)
		}
	}
	if ep > 0 && ep != l.tensor && l.tensor > 1 {
		return l, fmt.Sprintf("%q: experts over another number of GPUs than layers", row.Parallelism)
	}
	if row.GPUs > 0 && row.GPUs != l.gpus {
		return l, fmt.Sprintf("%q is a layout of %d GPUs, and the row has %d", row.Parallelism, l.gpus, row.GPUs)
	}
	return l, ""
}
