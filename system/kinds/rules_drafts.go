package kinds

import (
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
)

// checkDrafts refuses what is not modelled with decode steps that verify several tokens; all is the systems that the configuration
// could name.
func (s *System) checkDrafts(all []System, cfg *configs.Config, c *input.Check) {
	off := func(fits bool, why string, args ...any) {
		c.That(fits, "serving.verified_tokens", cfg.Serving.VerifiedTokens, "1 with "+why, args...)
	}
	if !s.drafts {
		with := namesOf(all, func(s *System) bool { return s.drafts })
		off(false, "%s = %s, whose steps of several tokens are not modelled; those of %s are", input.Key("run.system"), s.Name, with)
		return
	}
	off(cfg.Policy.Drafts(), "%s = %s: what several queries of one step attend to together is not modelled; it is for %s", input.Key("policy.name"), cfg.Policy.Name, strings.Join(cfg.Policy.List().Drafting(), ", "))
	off(!s.Derive(cfg).PrefixStays(), "%s = %q: tokens of prompts would attend there with the queries of a step that verifies drafts; %q is modelled",
		input.Key("cache.prefix_attention"), cfg.Cache.PrefixAttention, scheduler.PrefixOnGPU)
	if group := cfg.Model.QueryGroup(); s.KV.InDIMM && group*cfg.Serving.VerifiedTokens > pim.MaxQueries {
		c.That(false, "serving.verified_tokens", cfg.Serving.VerifiedTokens, "%d at most with the %d query heads of a KV head of %s: a unit takes %d queries of one", pim.MaxQueries/group, group, cfg.Model.Name, pim.MaxQueries)
	}
}
