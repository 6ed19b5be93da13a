//go:build unix

package job

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
)

func emit(t *testing.T, form string, j *Job) string {
	t.Helper()
	var b bytes.Buffer
	if err := Emit(&b, form, j); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// awkward are names that no script may split or expand.
var awkward = []string{"plain/sweep.toml", "two words.toml", "it's.toml", `"quoted" $HOME.toml`, "`date`;$(x).toml", "-x.toml", "$(JOB_COMPLETION_INDEX) $$(x)$y$$.toml", "a%b*.toml", `back\slash.toml`, "ünïcode.toml"}

// stubs replace Slurm's commands: sbatch runs an array's elements one after another, the others
// record their arguments, one a line.
var stubs = map[string]string{
	"sbatch": `note sbatch "$@"
script=$(cat)
case $script in *--array=*) ids=$ELEMENTS ;; *) ids=none ;; esac
for id in $ids; do
	[ "$id" = none ] || export SLURM_ARRAY_TASK_ID=$id SLURM_ARRAY_JOB_ID=17
	bash -c "$script" >>"$LOG.out" 2>&1
	note ended $?
done
echo '17;north'`,
	"srun":     `shift; "$@"`,
	"l3sim":    `note l3sim "$@"; exit $STATUS`,
	"scontrol": `note scontrol "$@"`,
}

// runScript runs an emitted script with the stubs and returns the calls, one
// call's arguments joined by "|".
func runScript(t *testing.T, script, elements, status, restarts string) []string {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	note := "#!/bin/bash\nnote() { (IFS='|'; printf '%s\\n' \"$*\" >>\"$LOG\"); }\n"
	for name, text := range stubs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(note+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("bash")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "LOG="+log, "ELEMENTS="+elements, "STATUS="+status, "SLURM_RESTART_COUNT="+restarts)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "shards 17, merge 17\n" {
		t.Fatalf("%v\n%s\n%s", err, out, script)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestSlurmScript runs the script that is emitted for awkward names: shards and
// merge get exactly their arguments.
func TestSlurmScript(t *testing.T) {
	deep.Heavy(t)
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	for _, file := range awkward {
		out := "results of " + strings.ReplaceAll(file, `\`, "") // Slurm's patterns allow no backslash
		j := &Job{File: file, Out: out, Shards: 3, Workers: 2, Points: 40}
		calls := runScript(t, emit(t, "slurm", j), "0 1 2", "0", "")
		pattern := strings.ReplaceAll(out, "%", "%%")
		name := argument(file)
		want := []string{"sbatch|--parsable|--output=" + pattern + "/logs/shard-%a.log"}
		for i := range 3 {
			want = append(want, fmt.Sprintf("l3sim|sweep|%s|--quiet|--workers|2|--shard|%d/3|--out|%s/shards/%d", name, i, out, i), "ended|0")
		}
		want = append(want, "sbatch|--parsable|--output="+pattern+"/logs/merge.log|--dependency=afterok:17|--kill-on-invalid-dep=yes",
			fmt.Sprintf("l3sim|sweep|merge|%s/shards/0|%s/shards/1|%s/shards/2|--out|%s", out, out, out, out), "ended|0")
		if !slices.Equal(calls, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestSlurmRetries: an element that did not finish requeues itself, at most three times, and not if
// its input is wrong.
func TestSlurmRetries(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	script := emit(t, "slurm", &Job{File: "a.toml", Out: "out", Shards: 3, Points: 40})
	for _, c := range []struct {
		status, restarts string
		requeued         bool
	}{
		{"0", "", false}, {"1", "", true}, {"2", "", false}, {"137", "", true}, {"143", "2", true}, {"143", "3", false},
	} {
		calls := runScript(t, script, "2", c.status, c.restarts)
		if got := slices.Contains(calls, "scontrol|requeue|17_2"); got != c.requeued {
			t.Errorf("status %s after %s restarts: requeued %t", c.status, c.restarts, got)
		}
		if !slices.Contains(calls, "ended|"+c.status) {
			t.Errorf("status %s is lost: %v", c.status, calls)
		}
	}
}

// TestKubernetesManifest reads the manifest and checks the references between its objects. The
// server's own validation outside of this module checks that the API accepts it
// (docs/reference/scale-out.md).
func TestKubernetesManifest(t *testing.T) {
	for _, file := range awkward {
		if !filepath.IsLocal(file) {
			t.Fatal(file)
		}
		out := "results/" + file
		text := emit(t, "k8s", &Job{File: file, Out: out, Shards: 12, Workers: 2, Points: 40})
		objects := map[string]map[string]any{}
		var kinds []string
		for document := range strings.SplitSeq(text, "\n---\n") {
			object, _ := readYAML(t, document).(map[string]any)
			name := at(object, "metadata", "name").(string)
			if len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
				t.Errorf("name %s", name)
			}
			kinds = append(kinds, object["kind"].(string))
			objects[object["kind"].(string)+" "+name] = object
		}
		// Each object comes after those that it needs.
		if want := []string{"PersistentVolumeClaim", "ServiceAccount", "Role", "RoleBinding", "Pod", "Job", "Job"}; !slices.Equal(kinds, want) {
			t.Errorf("objects %v, want %v", kinds, want)
		}
		name := jobName(&Job{File: file, Out: out})
		files := objects["Pod "+name+"-files"]
		shards, merge := objects["Job "+name], objects["Job "+name+"-merge"]
		role := objects["Role "+name+"-merge"]
		if len(objects) != 7 || files == nil || shards == nil || merge == nil || role == nil || objects["PersistentVolumeClaim "+name] == nil {
			t.Fatalf("objects %v", objects)
		}
		spec := shards["spec"].(map[string]any)
		if spec["completionMode"] != "Indexed" || spec["completions"] != 12 || spec["parallelism"] != 12 || spec["backoffLimitPerIndex"] != 3 {
			t.Errorf("%v", spec)
		}
		// The sweep file must be on the volume before a shard needs it.
		if spec["suspend"] != true {
			t.Error("the shards start at once")
		}
		expand := func(args any) (all []string) {
			for _, a := range args.([]any) {
				all = append(all, k8sExpand(a.(string)))
			}
			return all
		}
		if got, want := expand(at(shards, "spec", "template", "spec", "containers", 0, "command")),
			[]string{"l3sim", "sweep", argument(file), "--quiet", "--workers=2", "--shard=auto/12", "--out=" + out + "/shards/7"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		want := []string{"l3sim", "sweep", "merge"}
		for i := range 12 {
			want = append(want, fmt.Sprintf("%s/shards/%d", out, i))
		}
		if got := expand(at(merge, "spec", "template", "spec", "containers", 0, "command")); !slices.Equal(got, append(want, "--out="+out)) {
			t.Errorf("got %q, want %q", got, want)
		}
		wait := at(merge, "spec", "template", "spec", "initContainers", 0, "command").([]any)
		if wait[len(wait)-1] != "job/"+name || at(role, "rules", 0, "resourceNames", 0) != name {
			t.Errorf("the merge waits for %v and may see %v", wait, at(role, "rules", 0))
		}
		if got := wait[2]; got != `--for=jsonpath={.status.conditions[?(@.type<"FailureTarget")].type}` {
			t.Errorf("the merge waits %v", got)
		}
		if got := at(merge, "spec", "podFailurePolicy", "rules", 0, "onExitCodes", "values"); fmt.Sprint(got) != "[1 2]" {
			t.Errorf("the merge is not tried again after %v", got)
		}
		for _, pod := range []any{at(shards, "spec", "template", "spec"), at(merge, "spec", "template", "spec"), files["spec"]} {
			if at(pod, "restartPolicy") != "Never" && at(pod, "containers", 0, "name") != "files" || at(pod, "volumes", 0, "persistentVolumeClaim", "claimName") != name ||
				at(pod, "volumes", 0, "name") != at(pod, "containers", 0, "volumeMounts", 0, "name") ||
				at(pod, "containers", 0, "volumeMounts", 0, "mountPath") != at(pod, "containers", 0, "workingDir") {
				t.Errorf("%v", pod)
			}
		}
		if at(shards, "spec", "podFailurePolicy", "rules", 0, "onExitCodes", "containerName") != at(shards, "spec", "template", "spec", "containers", 0, "name") {
			t.Error("the failure policy names no container")
		}
	}
}

// k8sExpand expands an argument as Kubernetes does in a pod with completion index 7: $(NAME) is the
// value of an existing variable, and $$ is $.
func k8sExpand(arg string) string {
	return regexp.MustCompile(`\$\$|\$\([A-Za-z0-9_.-]*\)`).ReplaceAllStringFunc(arg, func(s string) string {
		switch s {
		case "$$":
			return "$"
		case "$(JOB_COMPLETION_INDEX)":
			return "7"
		}
		return s
	})
}

// TestCopyToVolume runs the manifest's commands that copy the sweep file to the volume and the
// results back.
func TestCopyToVolume(t *testing.T) {
	for _, command := range []string{"bash", "tar"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Skip(err)
		}
	}
	for _, file := range awkward {
		dir := t.TempDir()
		here, volume := filepath.Join(dir, "here"), filepath.Join(dir, "volume")
		out := "results/" + file
		for _, path := range []string{filepath.Join(here, file), filepath.Join(volume, out, "results.csv")} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(file), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		// A folder replaces the pod's volume.
		script := "kubectl() { while [ \"$1\" != -- ]; do shift; done; shift; local a=(); for x; do a+=(\"${x/#\\/data/$VOLUME}\"); done; \"${a[@]}\"; }\n"
		n := 0
		for line := range strings.Lines(emit(t, "k8s", &Job{File: file, Out: out, Shards: 1})) {
			if command, ok := strings.CutPrefix(line, "#   "); ok && strings.Contains(command, "tar ") {
				script += command
				n++
			}
		}
		cmd := exec.Command("bash", "-e", "-c", script)
		cmd.Dir, cmd.Env = here, append(os.Environ(), "VOLUME="+volume)
		if text, err := cmd.CombinedOutput(); err != nil || n != 2 {
			t.Fatalf("%d commands, %v\n%s\n%s", n, err, text, script)
		}
		for _, path := range []string{filepath.Join(volume, file), filepath.Join(here, out, "results.csv")} {
			if text, err := os.ReadFile(path); err != nil || string(text) != file {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

// TestJobNames: sweeps of one name in different folders, and one sweep with two folders of results,
// are different jobs; two spellings of one path are the same job.
func TestJobNames(t *testing.T) {
	a := jobName(&Job{File: "a/x.toml", Out: "out"})
	for _, other := range []Job{{File: "b/x.toml", Out: "out"}, {File: "a/x.toml", Out: "out2"}} {
		if jobName(&other) == a {
			t.Errorf("%+v is %s, too", other, a)
		}
	}
	if b := jobName(&Job{File: "./a/x.toml", Out: "out/"}); b != a {
		t.Errorf("%s and %s", a, b)
	}
}

func TestEmitRefuses(t *testing.T) {
	good := Job{File: "a.toml", Out: "out", Shards: 3}
	for _, c := range []struct {
		form   string
		change func(*Job)
		want   string
	}{
		{"slrm", func(*Job) {}, `did you mean "slurm"?`},
		{"slurm", func(j *Job) { j.Shards = 0 }, "--shards = 0: expected 1 to 1000"},
		{"slurm", func(j *Job) { j.Shards = 1001 }, "--shards = 1001"},
		{"slurm", func(j *Job) { j.Out = "a\nb" }, "--out"},
		{"slurm", func(j *Job) { j.Out = `a\b` }, `--out = a\b: expected a path without backslash`},
		{"k8s", func(j *Job) { j.Out = "a\u0085b" }, "--out"},
		{"k8s", func(j *Job) { j.File = "a\u2028b" }, "FILE"},
		{"slurm", func(j *Job) { j.File = "a\u2029b" }, "FILE"},
		{"k8s", func(j *Job) { j.File = "a\xffb" }, "FILE"},
		{"k8s", func(j *Job) { j.Out = "/results" }, "--out = /results: expected a path inside this folder"},
		{"k8s", func(j *Job) { j.File = "../a.toml" }, "FILE = ../a.toml"},
	} {
		j := good
		c.change(&j)
		var b bytes.Buffer
		err := Emit(&b, c.form, &j)
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || b.Len() > 0 {
			t.Errorf("%s: got %v, want %s", c.form, err, c.want)
		}
	}
}
