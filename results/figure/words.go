package figure

import (
	"strings"
	"unicode"

	"github.com/l3sim/l3sim/results/tables"
)

// systemWords describe systems for readers who do not know l3sim's names.
var systemWords = map[string]string{
	"gpu-only": "GPUs alone", "l3": "L3", "hbm-pim": "PIM in HBM", "rank-pim": "PIM at ranks", "cpu-offload": "offloading to CPUs",
	"gpu+cpu": "GPUs and CPUs", "sparse-offload": "rows from host memory",
}

// properNames are parts of models' names as their makers write them.
var properNames = map[string]string{
	"gpt": "GPT", "opt": "OPT", "oss": "oss", "glm": "GLM", "deepseek": "DeepSeek", "minimax": "MiniMax", "lm": "LM", "fp8": "FP8",
}

var traceNames = map[string]string{
	"openr1": "OpenR1", "openthoughts": "OpenThoughts", "longbench": "LongBench", "dolphin": "Dolphin", "mooncake": "Mooncake",
}

// shown writes a value for readers of the figure alone: systems by description, models and traces as their makers write them. The rest of a
// value that begins with a system's name stays: "L3, h100-sxm".
func shown(column string, value tables.Value) string {
	text := Label(column, value)
	_, name, _ := strings.Cut("."+column, ".")
	switch name[strings.LastIndex(name, ".")+1:] {
	case "system", "point":
		end := strings.IndexAny(text+" ", ", ")
		if words, ok := systemWords[text[:end]]; ok {
			return words + text[end:]
		}
	case "trace":
		if name, ok := traceNames[text]; ok {
			return name
		}
	case "model":
		if strings.Contains(text, "/") { // a file
			return text
		}
		parts := strings.Split(text, "-")
		for i, part := range parts {
			parts[i] = properName(part)
		}
		return strings.Join(parts, "-")
	}
	return text
}

// properName writes a part of a model's name: "8b" is 8B, "v3" V3, "llama" Llama.
func properName(part string) string {
	if name, ok := properNames[part]; ok || part == "" {
		return name
	}
	if first := rune(part[0]); unicode.IsDigit(first) || len(part) > 1 && unicode.IsDigit(rune(part[1])) {
		return strings.ToUpper(part)
	}
	return strings.ToUpper(part[:1]) + part[1:]
}
