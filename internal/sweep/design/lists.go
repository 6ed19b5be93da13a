package design

import (
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
)

// OfLists returns the sweep of --system a,b or --model a,b: all combinations of the names, without axes
// if each flag has one name. Further keys may have lists, too.
func OfLists(ld *configs.Loader, o configs.Options, further ...string) (*File, error) {
	lists := append([]string{"run.system", "run.model", "gpu.preset", "policy.name"}, further...)
	file := &File{Configs: o.ConfigFiles, Sets: o.Sets, Repeats: 1, Loader: ld}
	for _, f := range o.Flags {
		names := strings.Split(f.Value, ",")
		if len(names) == 1 || !slices.Contains(lists, f.Key) {
			file.Set = append(file.Set, Setting{Key: f.Key, Value: f.Value})
			continue
		}
		axis := Axis{Kind: "list"}
		for i, name := range names {
			names[i] = strings.TrimSpace(name)
			if names[i] == "" || slices.Contains(names[:i], names[i]) {
				return nil, &input.Error{Key: f.Name, Value: strconv.Quote(f.Value), Expected: "names, each once, joined by commas"}
			}
			setting := Setting{Key: f.Key, Value: names[i]}
			if !slices.Contains(further, f.Key) {
				setting.Value = strconv.Quote(names[i])
			}
			axis.Choices = append(axis.Choices, Choice{Name: names[i], Settings: []Setting{setting}})
		}
		file.Axes = append(file.Axes, axis)
	}
	return file, nil
}
