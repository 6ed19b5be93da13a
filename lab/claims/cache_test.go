package claims

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecondCache: a reproduction that runs in parallel with another has its own cache, and says where; after both have ended, the next
// one has the first cache again.
func TestSecondCache(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("HOME", dir) // macOS
	notes := ""
	open := func() *Cache {
		t.Helper()
		c, err := OpenCache(func(format string, args ...any) { notes += fmt.Sprintf(format, args...) })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, second := open(), open()
	if filepath.Base(first.Dir) != "reproduce" || filepath.Base(second.Dir) != "reproduce-2" || !strings.Contains(notes, second.Dir) {
		t.Errorf("%s and %s; %s", first.Dir, second.Dir, notes)
	}
	for _, c := range []*Cache{first, second} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	third := open()
	if third.Dir != first.Dir {
		t.Errorf("%s", third.Dir)
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
}
