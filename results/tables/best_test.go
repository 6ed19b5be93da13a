package tables

import (
	"strings"
	"testing"
)

func TestBest(t *testing.T) {
	table, err := readTable("r.csv", strings.NewReader("point,run.model,model.tensor_parallel,node.gpus,run.seed,status,output_tokens_per_s\n"+
		"a,x,1,8,1,done,10\nb,x,1,8,2,done,20\nc,x,2,8,1,done,30\nd,x,2,8,2,done,1\n"+ // means of 15 and 15.5
		"e,y,1,8,1,done,7\nf,y,2,8,1,done,7\ng,y,2,4,1,done,9\nh,z,1,8,1,failed,\ni,z,2,8,1,done,1\nj,w,1,8,1,failed,\n")) // all of w have failed
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"max output_tokens_per_s over tensor_parallel":       "cdegi",
		"min output_tokens_per_s over tensor_parallel":       "abegi",
		"max output_tokens_per_s over tensor_parallel, gpus": "cdgi",
		"max output_tokens_per_s over model":                 "abcdg",
		"max output_tokens_per_s over gpus,model":            "abcd",
	} {
		got, err := table.Best("--best", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		points := ""
		for _, row := range got.Rows {
			points += row[0].String()
		}
		if points != want {
			t.Errorf("%s: got %s, want %s", text, points, want)
		}
	}
	for text, want := range map[string]string{
		"max output_tokens_per_s":                   `expected "max COLUMN over KEY"`,
		"best output_tokens_per_s over gpus":        `--best = "best output_tokens_per_s": expected "max COLUMN" or "min COLUMN"`,
		"max output_token_per_s over gpus":          `did you mean "output_tokens_per_s"?`,
		"max output_tokens_per_s over gpu":          `did you mean "node.gpus"?`,
		"max output_tokens_per_s over point":        "expected a key that the sweep varies",
		"max output_tokens_per_s over status, gpus": "expected a key that the sweep varies",
	} {
		if _, err := table.Best("--best", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
