package system

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/configs"
)

// Notes says what the numbers of a configuration's runs rest on that none of them says.
func Notes(cfg *configs.Config) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	gpu, base := cfg.GPU.Name, ""
	if preset, changed := cfg.GPUBase(); preset != "" {
		base = preset
		keys := "nothing"
		if len(changed) > 0 {
			keys = strings.Join(changed, ", ")
		}
		note("GPU %s is %s with changed: %s; what is not changed (efficiencies of kernels, power and links among it) is that of %s", gpu, preset, keys, preset)
	}
	prices := &cfg.Prices.Prices
	switch price, whose := prices.GPU.Of(gpu, base); whose {
	case gpu:
	case "":
		note("price list %s has no GPU %s: it costs prices.gpu.other, %s, in USD", prices.Name, gpu, price)
	default:
		note("price list %s has no GPU %s: it costs what %s does, %s, in USD", prices.Name, gpu, whose, price)
	}
	return notes
}
