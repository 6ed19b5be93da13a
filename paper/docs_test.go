package paper

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocs: the committed page is what this generator writes, with every claim,
// and has its pictures.
func TestDocs(t *testing.T) {
	const docs = "../docs"
	page := readFile(t, filepath.Join(docs, PageFile))
	if !strings.HasPrefix(page, pageHead) {
		t.Error("the page's head is not the generator's: write it again")
	}
	for _, part := range parts {
		if oldPart(page, part) == "" {
			t.Errorf("no part %s", part)
		}
	}
	evaluation := oldPart(page, parts[0])
	for _, c := range Claims() {
		if !strings.Contains(evaluation, "| `"+c.ID+"`") || !strings.Contains(evaluation, c.Says) {
			t.Errorf("%s is not on the page as the generator writes it", c.ID)
		}
	}
	if !strings.Contains(evaluation, limits) {
		t.Error("what cannot be reproduced is not the generator's")
	}
	for name, text := range captions {
		picture := figureFolder + "/reproduction_" + name + ".png"
		if !strings.Contains(page, picture) || !strings.Contains(page, text) {
			t.Errorf("%s is not on the page", name)
		}
		if _, err := os.Stat(filepath.Join(docs, picture)); err != nil {
			t.Error(err)
		}
	}
}
