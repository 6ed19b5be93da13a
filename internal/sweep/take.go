package sweep

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/l3sim/l3sim/input"
)

// Take adds the entries of the journal in dir that this one lacks: a search goes on from
// what its shards recorded. A folder without a journal is an *input.Error.
func (j *Journal) Take(dir string) (Damage, error) {
	if _, err := os.Stat(filepath.Join(dir, journalName)); errors.Is(err, fs.ErrNotExist) {
		return Damage{}, &input.Error{File: dir, Expected: "the folder of a shard, with its " + journalName}
	}
	entries, damage, err := ReadJournal(dir)
	if err != nil {
		return damage, err
	}
	var news []*Entry
	for _, hash := range slices.Sorted(maps.Keys(entries)) {
		if j.entry(hash) == nil {
			news = append(news, entries[hash])
		}
	}
	return damage, j.recordAll(news)
}
