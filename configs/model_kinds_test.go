package configs_test

import (
	. "github.com/l3sim/l3sim/configs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModelKinds: weights, archives and web pages given instead of a config.json are recognised, whatever their size.
func TestModelKinds(t *testing.T) {
	for first, want := range map[string]string{
		"GGUF\x03\x00\x00\x00" + strings.Repeat("\x00", 17<<20):  "weights in GGUF: expected the model's config.json",
		"\x2c\x01\x00\x00\x00\x00\x00\x00{\"__metadata__\": {}}": "weights in safetensors: expected the model's config.json",
		"PK\x03\x04\x00\x00": "weights of PyTorch, or a zip archive: expected the model's config.json",
		"version https://git-lfs.github.com/spec/v1\noid sha256:a\n": "a pointer of Git LFS: expected the file that git lfs pull fetches",
		"<!DOCTYPE html>": "HTML or XML, such as the page of a failed download: expected",
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte(first), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Options{Sets: []string{"run.model=" + path}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", first, err, want)
		}
	}
}
