package system

import "github.com/l3sim/l3sim/results"

func (n *Node) cacheOf(replicas []*replica) (c results.Cache) {
	if !n.cfg.Cache.Prefix {
		return c
	}
	for _, r := range replicas {
		did := r.assembly.Batcher.Ledger.CacheCounts()
		c.HitTokens += did.Hit
		c.MissTokens += did.Miss
		c.EvictedBlocks += did.Evicted
		c.Offloaded += did.Down * int64(n.hw.KVBytesPerToken())
		c.Transferred += int64(r.assembly.Engine.Side().Attends.Fetched)
		c.Spared += r.assembly.Engine.Side().Attends.Spared
	}
	if all := c.HitTokens + c.MissTokens; all > 0 {
		c.HitRate = float64(c.HitTokens) / float64(all)
	}
	c.Peak = int64(n.memory.Unit) * maxOfSum(replicas, func(r *replica) *steps { return &r.tallied.cached })
	return c
}
