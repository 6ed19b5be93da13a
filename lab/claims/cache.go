package claims

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/sweep"
)

// Cache keeps finished points between runs.
type Cache struct {
	Dir       string
	Temporary bool // nothing of it remains
	Journal   *sweep.Journal
}

const mostCaches = 16 // largest number of parallel reproductions

// OpenCache opens the cache in the user's cache folder, or another one while a reproduction uses the first.
// Without a cache folder there is no cache, and a note says so.
func OpenCache(note func(format string, args ...any)) (*Cache, error) {
	c := &Cache{}
	user, err := os.UserCacheDir()
	if err == nil {
		c.Dir = filepath.Join(user, "l3sim", "reproduce")
	} else {
		reason := err
		if c.Dir, err = os.MkdirTemp("", "l3sim-reproduce-"); err != nil {
			return nil, err
		}
		c.Temporary = true
		note("no cache folder (%v): finished points are not kept", reason)
	}
	c.Journal, err = sweep.OpenJournal(c.Dir)
	for n := 2; errors.Is(err, sweep.ErrInUse) && n <= mostCaches; n++ {
		c.Dir = filepath.Join(user, "l3sim", fmt.Sprintf("reproduce-%d", n))
		if c.Journal, err = sweep.OpenJournal(c.Dir); err == nil {
			note("another reproduction runs: points of this one are kept in %s", c.Dir)
		}
	}
	if foreign := (*input.Error)(nil); errors.As(err, &foreign) { // another version wrote it
		if err = os.Remove(foreign.File); err == nil {
			note("%s is not of this version: all points run again", foreign.File)
			c.Journal, err = sweep.OpenJournal(c.Dir)
		}
	}
	if err == nil {
		return c, nil
	}
	return nil, errors.Join(fmt.Errorf("cache (XDG_CACHE_HOME gives a run its own): %w", err), c.clear())
}

// Close leaves the cache ready for the next run.
func (c *Cache) Close() error { return errors.Join(c.Journal.Close(), c.clear()) }

func (c *Cache) clear() error {
	if !c.Temporary {
		return nil
	}
	return os.RemoveAll(c.Dir)
}
