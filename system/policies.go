package system

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system/kinds"
)

// Extension is a program's additions to this module: see docs/reference/policies-and-systems.md.
type Extension struct {
	Policies []policy.Policy // more values of policy.name, each with its own section if it has keys
	Systems  []kinds.System  // more values of run.system, each with its own section if it has keys
}

// Extend returns a loader whose configurations may also name the program's additions. They run like any other: Load, NewNode,
// Run. Nothing global changes. An invalid addition returns an error that names it: see policy.List.With and kinds.Extend.
func Extend(x Extension) (*configs.Loader, error) {
	list, err := policies.Builtin().With(x.Policies...)
	if err != nil {
		return nil, err
	}
	return kinds.Extend(list, x.Systems...)
}

// PolicyHelp describes a policy for 'l3sim config policies'.
type PolicyHelp struct {
	policy.Description
	Systems []string `json:"systems"` // that run it
	Refused []string `json:"refused"` // that do not
}

// Policies returns all policies that configurations of a loader may name, with the systems that run them.
func Policies(ld *configs.Loader) (help []PolicyHelp) {
	for _, d := range ld.Policies().Descriptions() {
		p := PolicyHelp{Description: d}
		for _, s := range kinds.In(ld) {
			to := &p.Refused
			if slices.Contains(ld.Policies().At(s.Home), d.Name) {
				to = &p.Systems
			}
			*to = append(*to, s.Name)
		}
		help = append(help, p)
	}
	return help
}

// WriteText writes the policy as 'l3sim config policies' does.
func (p *PolicyHelp) WriteText(w io.Writer) error {
	kind, runs := "exact", "none"
	if p.Lossy {
		kind = "lossy"
	}
	if len(p.Systems) > 0 {
		runs = strings.Join(p.Systems, ", ")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n  attends   %s\n  stores    %s\n  moves     %s\n  systems   %s\n", p.Name, kind, p.Attends, p.Stores, p.Moves, runs)
	if len(p.Refused) > 0 {
		fmt.Fprintf(&b, "  refused   %s\n", strings.Join(p.Refused, ", "))
	}
	for i, k := range p.Keys {
		head := ""
		if i == 0 {
			head = "keys"
		}
		fmt.Fprintf(&b, "  %-9s %s = %s (%s)\n", head, k.Name, k.Default, k.Source)
	}
	fmt.Fprintf(&b, "  source    %s\n\n", p.Source)
	_, err := io.WriteString(w, b.String())
	return err
}
