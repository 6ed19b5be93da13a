package system

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
)

// rankClasses adds the classes of heads on a rank, with the memory that each holds. All numbers are those of the fullest
// rank, since any rank may be it: heads that do not divide over the channels count as on the channel with most; heads
// of a class that hold different amounts count as the one that holds most. Where layers differ, the layers of a rank
// count as one, with the most heads of each class.
func (n *Node) rankClasses(spec *scheduler.LedgerSpec, p policy.Policy) {
	ranks, layer, runs := 1, 0, p.Runs()
	if spec.Rotation {
		ranks = spec.Ranksets
	}
	on, same := make([][]scheduler.HeadClass, ranks), true
	for run, layers := range runs {
		of := n.channelClasses(p, run)
		if run == 0 {
			spec.Classes = of
		}
		same = same && slices.Equal(of, spec.Classes)
		for range layers {
			rank := &on[layer%ranks]
			for _, c := range of {
				i := classAlike(*rank, c)
				if i < 0 {
					*rank = append(*rank, c)
				} else {
					(*rank)[i].Heads += c.Heads
				}
			}
			layer++
		}
	}
	if same {
		return
	}
	spec.Layers, spec.Classes = ranks, nil
	for _, classes := range on {
		for _, c := range classes {
			if i := classAlike(spec.Classes, c); i < 0 {
				spec.Classes = append(spec.Classes, c)
			} else {
				spec.Classes[i].Heads = max(spec.Classes[i].Heads, c.Heads)
			}
		}
	}
}

// channelClasses returns what the fullest channel holds of a layer of a run.
func (n *Node) channelClasses(p policy.Policy, run int) []scheduler.HeadClass {
	decoding, _ := p.Memory(run)
	held, channels := slices.Clone(decoding), n.cfg.ReplicaChannels()
	if n.channelsPool() {
		channels = 1
	}
	for i := range held {
		held[i].Heads = (held[i].Heads + channels - 1) / channels
		if held[i].Longest > 0 {
			held[i].Share = held[i].Longest
		}
	}
	return addClasses(nil, held, policy.Home, 1)
}

// classAlike returns the place of a class that holds the same, or -1.
func classAlike(classes []scheduler.HeadClass, c scheduler.HeadClass) int {
	return slices.IndexFunc(classes, func(o scheduler.HeadClass) bool { o.Heads = c.Heads; return o == c })
}
