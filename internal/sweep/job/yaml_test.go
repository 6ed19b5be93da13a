//go:build unix

package job

import (
	"strconv"
	"strings"
	"testing"
)

// at returns the value at a path of keys and indices, or nil.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// readYAML decodes the subset of YAML in our manifests: block mappings and sequences, flow
// sequences, plain scalars and JSON strings.
func readYAML(t *testing.T, text string) any {
	t.Helper()
	var lines []string
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	v, rest := yamlBlock(t, lines)
	if len(rest) > 0 {
		t.Fatalf("not read: %s", rest[0])
	}
	return v
}

func yamlIndent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// yamlBlock decodes the block that begins with the first line.
func yamlBlock(t *testing.T, lines []string) (any, []string) {
	indent := yamlIndent(lines[0])
	var list []any
	mapping := map[string]any{}
	for len(lines) > 0 && yamlIndent(lines[0]) == indent {
		line := lines[0][indent:]
		if item, ok := strings.CutPrefix(line, "- "); ok {
			var v any
			if _, _, isMap := yamlKey(item); isMap {
				lines[0] = strings.Repeat(" ", indent+2) + item
				v, lines = yamlBlock(t, lines)
			} else {
				v, lines = yamlScalar(t, item), lines[1:]
			}
			list = append(list, v)
			continue
		}
		key, value, ok := yamlKey(line)
		if _, twice := mapping[key]; !ok || twice || list != nil {
			t.Fatalf("line %q", line)
		}
		lines = lines[1:]
		if value != "" {
			mapping[key] = yamlScalar(t, value)
			continue
		}
		mapping[key], lines = yamlBlock(t, lines)
	}
	if list != nil {
		return list, lines
	}
	return mapping, lines
}

// yamlKey splits "key: value"; a quoted string is not a key here.
func yamlKey(text string) (key, value string, ok bool) {
	if key, ok = strings.CutSuffix(text, ":"); ok {
		return key, "", true
	}
	if text[0] == '"' {
		return "", "", false
	}
	return strings.Cut(text, ": ")
}

func yamlScalar(t *testing.T, text string) any {
	if text[0] == '"' {
		s, err := strconv.Unquote(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return s
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		var list []any
		for item := range strings.SplitSeq(strings.TrimSuffix(inner, "]"), ",") {
			list = append(list, yamlScalar(t, strings.TrimSpace(item)))
		}
		return list
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return text
}
