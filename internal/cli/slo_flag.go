package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
)

// targetNames are the names allowed before "=" in --slo, and the keys that they set. NAME is a target of each request, NAME.p90
// one over all requests. A request has many TBTs: tbt.p90 bounds its own gaps, tbt.p90.tokens all tokens.
var targetNames = func() map[string]string {
	names := map[string]string{}
	for _, name := range []string{"ttft", "tbt", "tpot", "e2e"} {
		names[name] = "slo." + name
		for _, p := range scheduler.Percentiles {
			percentile := "p" + strconv.Itoa(p)
			if key := "slo." + percentile + "." + name; name == "tbt" {
				names[name+"."+percentile], names[name+"."+percentile+".tokens"] = "slo.tbt", key
			} else {
				names[name+"."+percentile] = key
			}
		}
	}
	return names
}()

// targetFlags returns the keys that the value of --slo sets.
func targetFlags(value string) (flags []configs.Flag, err error) {
	for _, part := range strings.Split(value, ",") {
		name, target, found := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		key := targetNames[name]
		switch twice := slices.ContainsFunc(flags, func(f configs.Flag) bool { return f.Key == key }); {
		case !found || key == "":
			names := slices.Sorted(maps.Keys(targetNames))
			return nil, &input.Error{Key: "--slo", Value: strconv.Quote(strings.TrimSpace(part)), Nearest: nearestTarget(name, names),
				Expected: "NAME=TIME of ttft, tbt, tpot, e2e, each with .p50, .p90, .p95 or .p99, such as ttft=2s,tbt.p90=100ms,tbt.p99.tokens=200ms"}
		case twice:
			return nil, &input.Error{Key: "--slo", Value: strconv.Quote(value), Expected: "each target once, and one percentile of a request's own gaps"}
		}
		if percentile, own := strings.CutPrefix(name, "tbt.p"); own && key == "slo.tbt" {
			flags = append(flags, configs.Flag{Name: "--slo", Key: "slo.tbt_percentile", Value: percentile})
		}
		flags = append(flags, configs.Flag{Name: "--slo", Key: key, Value: strings.TrimSpace(target)})
	}
	return flags, nil
}

// nearestTarget returns the target's name closest to a wrong one, "" if none is close.
func nearestTarget(name string, names []string) string {
	if slices.Contains(names, name) {
		return "" // its time is missing
	}
	return input.Nearest(name, names)
}
