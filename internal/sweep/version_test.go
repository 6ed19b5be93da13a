package sweep

import (
	"runtime/debug"
	"testing"
)

// TestCleanRevision: a commit identifies the code only if nothing beside it was changed or replaced.
func TestCleanRevision(t *testing.T) {
	settings := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: modified}}
	}
	local := []*debug.Module{{Path: "a"}, {Path: "b", Replace: &debug.Module{Path: "../b"}}}
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, ""},
		{debug.BuildInfo{Settings: settings("true")}, ""},
		{debug.BuildInfo{Settings: settings("false"), Deps: local[:1]}, "abc"},
		{debug.BuildInfo{Settings: settings("false"), Deps: local}, ""},
	} {
		if got := cleanRevision(&c.info); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.info, got, c.want)
		}
	}
}
