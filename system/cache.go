package system

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// checkCache has the rules of what a cache of prefixes fits together with.
func (s *System) checkCache(cfg *configs.Config, c *input.Check) {
	c.That(s.kv.keeps, "cache.prefix", true, "false with run.system = %s, which has no such cache", s.Name)
	c.That(cfg.Policy.Name == "dense", "cache.prefix", true, "false with policy.name = %s: another prompt may need what it has dropped", cfg.Policy.Name)
	c.That(!s.kv.inDIMM || cfg.Comm.Stripe == scheduler.StripeNone, "cache.prefix", true, "false with comm.stripe = %q", cfg.Comm.Stripe)
	if !c.OK() {
		return
	}
	if host := cfg.Cache.HostCapacity; host > 0 {
		c.That(s.kv.inGPUs, "cache.host_capacity", host, "0B with run.system = %s, whose keys and values are %s", s.Name, s.kv.name)
		c.That(host <= cfg.Node.MemoryCapacity, "cache.host_capacity", host, "at most node.memory_capacity, %v", cfg.Node.MemoryCapacity)
	}
	unit, what := cfg.Batching.PageTokens, "batching.page_tokens"
	if s.kv.inDIMM {
		g, err := pim.NewGeometry(&cfg.DRAM.Spec, cfg.HeadShape())
		if err != nil {
			return // reported with the ranks
		}
		unit, what = g.RowTokens, "an allocation unit of a rank"
	}
	c.That(cfg.Cache.Block%unit == 0, "cache.block", cfg.Cache.Block, "a multiple of the %d tokens of %s", unit, what)
}

// keeping has an empty memory of a replica keep blocks of prefixes, if the configuration says so. unit is the bytes of one of its units.
func (n *Node) keeping(l *scheduler.Ledger, unit units.Bytes) *scheduler.Ledger {
	if c := &n.cfg.Cache; c.Prefix {
		most := int64(c.Capacity/units.Bytes(n.Replicas())/unit) / l.UnitsOf(c.Block)
		l.KeepPrefixes(c.Block, most, c.Placement)
		l.KeepOnHost(int64(c.HostCapacity/units.Bytes(n.Replicas())/unit) / l.UnitsOf(c.Block))
	}
	return l
}

// groupReads says that GPUs read what several requests share once.
func groupReads(cfg *configs.Config) bool { return cfg.Cache.Prefix && cfg.Cache.GroupReads }

// hostTier says that blocks that make way on the GPUs go to the host.
func hostTier(cfg *configs.Config) bool { return cfg.Cache.Prefix && cfg.Cache.HostCapacity > 0 }

// prefixStays says that prompts attend over what a cache has of them where it is.
func prefixStays(cfg *configs.Config) bool {
	return cfg.Cache.Prefix && systemOf(cfg.Run.System).kv.inDIMM && cfg.Cache.PrefixAttention == scheduler.PrefixOnDIMM
}

// cacheOf returns what the caches of all replicas have done.
func (n *Node) cacheOf(replicas []*replica) (c results.Cache) {
	if !n.cfg.Cache.Prefix {
		return c
	}
	for _, r := range replicas {
		did := r.batcher.CacheCounts()
		c.HitTokens += did.Hit
		c.MissTokens += did.Miss
		c.EvictedBlocks += did.Evicted
		c.Offloaded += did.Down * int64(n.cfg.Model.KVBytesPerToken())
		c.Transferred += int64(r.engine.core().side.fetched)
		c.Spared += r.engine.core().side.spared
	}
	if all := c.HitTokens + c.MissTokens; all > 0 {
		c.HitRate = float64(c.HitTokens) / float64(all)
	}
	c.Peak = int64(n.memory.unit) * maxOfSum(replicas, func(r *replica) *steps { return &r.cached })
	return c
}

// tier is the host's memory behind the GPUs', where blocks of a cache of prefixes go that make way. Without one link is 0.
type tier struct {
	link, channels units.Bandwidth // of all the replica's GPUs in one direction, and of its memory channels
	token          units.Bytes     // keys and values of a token in all layers
	idle           units.Duration  // since when the links and channels are
	// What the iteration at hand takes of the links down and up and of the channels.
	down, up, channel units.Duration
}

// tier returns that of a replica.
func (n *Node) tier() (t tier) {
	if cfg := n.cfg; hostTier(cfg) {
		t.link = units.Bandwidth(cfg.Model.TensorParallel) * n.linkShare()
		t.channels = units.Bandwidth(cfg.ReplicaChannels()) * cfg.DRAM.Spec.Bandwidth()
		t.token = cfg.Model.KVBytesPerToken()
	}
	return t
}

// beside returns the first without resources of besideGPU; with a tier, all of them: its links and channels, too.
func (t *tier) beside(device string, without int) []resource {
	if t.link == 0 {
		return besideGPU(device)[:without]
	}
	return besideGPU(device)
}

// swap has the iteration that begins at a time move blocks between GPUs and host. What made way when the iteration before ended has gone
// down since.
func (t *tier) swap(f *flow, m *scheduler.Moves, start units.Duration) {
	if t.link > 0 {
		t.take(f, m, start)
	}
}

// take times the moves of an iteration. What made way when the iteration before ended has used the links since
// then.
func (t *tier) take(f *flow, m *scheduler.Moves, start units.Duration) {
	down, up := units.Bytes(m.Down.Tokens)*t.token, units.Bytes(m.Up.Tokens)*t.token
	w, rate := &f.work, min(t.link, t.channels)
	gone := min(units.Bytes(m.Earlier)*t.token, units.Bytes(float64(rate)*(start-t.idle).Seconds()))
	t.down, t.up, t.channel = transferTime(rate, down-gone), transferTime(rate, up), transferTime(t.channels, down-gone+up)
	w.time[ofDown] += transferTime(rate, down)
	w.time[ofUp] += t.up
	w.time[ofChannel] += transferTime(t.channels, down+up)
	f.side.fetched += up
}

// hide has blocks move layer by layer beside the work of the iteration, which takes at least as long.
func (t *tier) hide(f *flow) {
	if t.link > 0 {
		f.hide(onDown, t.down)
		f.hide(onUp, t.up)
		f.hide(onChannels, t.channel)
	}
}
