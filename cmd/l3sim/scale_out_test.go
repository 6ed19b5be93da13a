//go:build unix

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/cli"
)

// TestScaleOutPage: docs/lab/scale-out.md shows the jobs that its commands write.
func TestScaleOutPage(t *testing.T) {
	t.Chdir("../..")
	page := string(read(t, "docs/lab/scale-out.md"))
	for form, fence := range map[string]string{"slurm": "bash", "k8s": "yaml"} {
		command := "l3sim sweep examples/ranks.toml --emit " + form + " --shards 8 --out out/ranks"
		if !strings.Contains(page, "\n"+command+" > ranks.") {
			t.Errorf("the page lacks %q", command)
		}
		var out, messages bytes.Buffer
		if code := run(t.Context(), strings.Fields(command)[1:], &out, &messages); code != cli.OK {
			t.Fatalf("exit code %d: %s", code, messages.String())
		}
		if !strings.Contains(page, "```"+fence+"\n"+out.String()+"```\n") {
			t.Errorf("the page does not show what the command writes:\n%s", out.String())
		}
	}
}
