package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/lab/lm"
	"github.com/l3sim/l3sim/scheduler/predict"
)

// files writes files into a new folder, and makes it the current one.
func files(t *testing.T, texts map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range texts {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefusals: what each command refuses at once, word for word: one line, exit code 2, nothing on standard output.
func TestRefusals(t *testing.T) {
	deep.Heavy(t)
	files(t, map[string]string{"x.csv": "m,n,k,us\n1,2,3,4\n", "empty": "", "two": "ab", "nine": "123456789", "mine.toml": ""})
	if err := os.Mkdir("folder", 0o755); err != nil {
		t.Fatal(err)
	}
	const one = "one set of measurements at a time"
	for line, want := range map[string]string{
		"validate --whole x.csv --service s":                                                       "--service: expected no --whole beside it: " + one,
		"validate --whole x.csv --hostkv s":                                                        "--hostkv: expected no --whole beside it: " + one,
		"validate --whole x.csv --loop s":                                                          "--loop: expected no --whole beside it: " + one,
		"validate --whole x.csv --requests s":                                                      "--requests: expected no --whole beside it: " + one,
		"validate --whole x.csv --figure f.svg":                                                    "--figure: expected no --whole beside it: " + one,
		"validate --hostkv x.csv --service s":                                                      "--service: expected no --hostkv beside it: " + one,
		"validate --hostkv x.csv --rows r":                                                         "--rows: expected no --hostkv beside it: " + one,
		"validate --hostkv x.csv --workers 1":                                                      "--workers: expected no --hostkv beside it: " + one,
		"validate --hostkv x.csv --loop l":                                                         "--loop: expected no --hostkv beside it: " + one,
		"validate --hostkv x.csv --fit":                                                            "--fit: expected no --hostkv beside it: " + one,
		"validate --hostkv x.csv --requests l":                                                     "--requests: expected no --hostkv beside it: " + one,
		"validate --hostkv x.csv --figure f.svg":                                                   "--figure: expected no --hostkv beside it: " + one,
		"validate --loop x.csv --service s":                                                        "--service: expected no --loop beside it: " + one,
		"validate --loop x.csv --rows r":                                                           "--rows: expected no --loop beside it: " + one,
		"validate --loop x.csv --workers 1":                                                        "--workers: expected no --loop beside it: " + one,
		"validate --loop x.csv --requests l":                                                       "--loop: expected no --requests with it",
		"validate --requests l --service s":                                                        "--requests: expected no --service with it",
		"validate --fit":                                                                           "--fit: expected --loop beside it",
		"validate --figure f.svg":                                                                  "--figure = f.svg: expected --loop or --requests beside it",
		"validate --figure f.jpg --loop x.csv":                                                     "--figure = f.jpg: expected a file that ends with .png, .svg or .pdf",
		"validate --workers -1":                                                                    "--workers = -1: expected 0 to 65536",
		"validate --workers 65537":                                                                 "--workers = 65537: expected 0 to 65536",
		"validate --rows folder":                                                                   "--rows = folder: expected a file, not a folder",
		"validate --service ''":                                                                    `--service = "": expected a name`,
		"validate --rows ''":                                                                       `--rows = "": expected a name`,
		"validate --requests ''":                                                                   `--requests = "": expected a name`,
		"validate --loop ''":                                                                       `--loop = "": expected a name`,
		"validate --hostkv ''":                                                                     `--hostkv = "": expected a name`,
		"validate --whole ''":                                                                      `--whole = "": expected a name`,
		"validate --figure ''":                                                                     `--figure = "": expected a name`,
		"validate --hostkv none.csv":                                                               "none.csv: no such file or directory",
		"validate --whole none.csv":                                                                "none.csv: no such file or directory",
		"calibrate none.json":                                                                      "none.json: no such file or directory",
		"calibrate none.json --out ''":                                                             `--out = "": expected a name`,
		"calibrate none.json --out folder":                                                         "--out = folder: expected a file, not a folder",
		"gpu validate --gpu a100-sxm-80gb":                                                         "--measured: expected a CSV file or a folder of them",
		"gpu validate --gpu a100-sxm-80gb --measured x.csv --max-mape -1":                          "--max-mape = -1: expected at least 0",
		"gpu validate --gpu a100-sxm-80gb --measured x.csv --launch 3":                             `--launch = "3": "3" is not a duration: want a number with a unit (ps, ns, us, ms, s), such as "100ms"`,
		"gpu validate --gpu a100-sxm-80gb --measured x.csv --launch=-3us":                          "--launch = -3us: expected at least 0us",
		"gpu fit --name x --out x.toml":                                                            "--measured: expected a CSV file or a folder of them",
		"gpu fit --measured x.csv --out x.toml":                                                    "--name: expected a name",
		"gpu fit --measured x.csv --name x":                                                        "--out: expected a file to write; or --fit, for the kernels alone",
		"gpu fit --measured x.csv --name a\\b --out x.toml":                                        `--name = "a\\b": expected a name on one line`,
		"gpu fit --measured x.csv --name '' --out x.toml":                                          `--name = "": expected a name on one line`,
		"gpu fit --measured x.csv --name x --out x.txt":                                            `--out = "x.txt": expected a .toml file`,
		"gpu fit --measured x.csv --name x --fit x.txt":                                            `--fit = "x.txt": expected a .toml file`,
		"gpu fit --measured x.csv --name x --out x.toml --fit x.toml":                              `--fit = "x.toml": expected another file than --out`,
		"gpu fit --measured x.csv --llmservingsim t --name x --out x.toml":                         "--measured: expected no --llmservingsim with it",
		"gpu fit --measured x.csv --aiconfigurator t --name x --out x.toml":                        "--measured: expected no --aiconfigurator with it",
		"gpu fit --llmservingsim t --aiconfigurator t --name x --out x.toml":                       "--llmservingsim: expected no --aiconfigurator with it",
		"gpu fit --llmservingsim t --name x --out x.toml":                                          "--base: expected a GPU with the card's data sheet: a preset or a file",
		"gpu fit --measured x.csv --system s --name x --out x.toml":                                "--system: expected --aiconfigurator with it",
		"gpu fit --measured x.csv --framework s --name x --out x.toml":                             "--framework: expected --aiconfigurator with it",
		"gpu fit --measured x.csv --version s --name x --out x.toml":                               "--version: expected --aiconfigurator with it",
		"gpu fit --aiconfigurator t --name x --out x.toml":                                         "--system: expected a GPU as AIConfigurator names it: h200_sxm",
		"gpu fit --aiconfigurator t --system s --name x --out x.toml":                              "--framework: expected one of vllm, trtllm, sglang",
		"gpu fit --aiconfigurator t --system s --framework vllm --name x --out x.toml":             "--version: expected the version of the framework: 0.24.0",
		"gpu fit --aiconfigurator t --system s --framework vlm --version 1 --name x --out x.toml":  `--framework = "vlm": expected one of vllm, trtllm, sglang; did you mean "vllm"?`,
		"gpu fit --aiconfigurator t --system s --framework vllm --version 1 --name x --out x.toml": "--base: expected a GPU with the card's data sheet: a preset or a file",
		"gpu fit --aiconfigurator t --system s_x --framework vllm --version 1 --name x --out x.toml --base h200-sxm": "t: tables = s_x, vllm 1: expected a folder s_x_vllm with CSV files, or s_x/gemm/vllm/1/gemm_perf.parquet as AIConfigurator has it",
		"gpu fit --llmservingsim t --name x --out x.toml --base h200-sxm":                                            "t/meta.yaml: no such file or directory",
		"reproduce fig12":                                `reproduce = "fig12": expected one of all, claims, fair, fig10, fig11, fig2, fig8, fig9, sensitivity, sparse; did you mean "fig10"?`,
		"reproduce fig2 --requests 9":                    "--requests = 9: expected 10 to 100000",
		"reproduce fig2 --requests 100001":               "--requests = 100001: expected 10 to 100000",
		"reproduce fig2 --seeds 0":                       "--seeds = 0: expected 1 to 100",
		"reproduce fig2 --seeds 101":                     "--seeds = 101: expected 1 to 100",
		"reproduce fig2 --out ''":                        `--out = "": expected a name`,
		"predict --batches 4":                            "--batches = 4: expected 5 to 1048576",
		"predict --batches 1048577":                      "--batches = 1048577: expected 5 to 1048576",
		"eval --weights ''":                              `--weights = "": expected a name`,
		"eval --plant ''":                                `--plant = "": expected a name`,
		"eval --plant lanes":                             `--plant = "lanes": expected one of bank, lane, quad, rankset; did you mean "lane"?`,
		"eval --text ''":                                 `--text = "": expected a name`,
		"eval --nll ''":                                  `--nll = "": expected a name`,
		"eval --choices":                                 `--choices = true: expected --profile FILE beside it, which has them`,
		"eval --profile ''":                              `--profile = "": expected a name`,
		"eval --text empty":                              "empty: --text: expected a file with at least one byte",
		"eval --text two":                                "--text = 2 bytes: expected at least 3 bytes",
		"eval --text nine --prompt 0":                    "--prompt = 0: expected 1 to 7",
		"eval --text nine --prompt 8":                    "--prompt = 8: expected 1 to 7",
		"eval --text nine --prompt 3 --steps 0":          "--steps = 0: expected 1 to 5",
		"eval --text nine --prompt 3 --steps 6":          "--steps = 6: expected 1 to 5",
		"eval --reference --plant lane":                  "--plant = lane: expected to be left out beside --reference, which has no DIMMs",
		"eval --reference --exact":                       "--exact = true: expected to be left out beside --reference, which has no DIMMs",
		"eval --reference --precision fp32":              "--precision = fp32: expected to be left out beside --reference, which has no DIMMs",
		"eval --policy h2o --exact":                      "--exact = true: expected to be left out beside --policy h2o, which has no DIMMs",
		"eval --profile p.toml":                          "--profile = p.toml: expected a --policy other than dense, which attends to everything",
		"generate --tokens 0":                            "--tokens = 0: expected 1 to 8192",
		"generate --tokens 8193":                         "--tokens = 8193: expected 1 to 8192",
		"generate --temperature=-0.1":                    "--temperature = -0.1: expected 0 to 100",
		"generate --temperature 100.5":                   "--temperature = 100.5: expected 0 to 100",
		"generate --prompt ''":                           `--prompt = "": expected a name`,
		"generate --prompt-file ''":                      `--prompt-file = "": expected a name`,
		"generate --prompt-file empty":                   "empty: --prompt-file: expected a file with at least one byte",
		"generate --prompt a --prompt abc --tokens 8190": "--prompt 2 = 3 bytes, 8190 more: expected at most 8192 together, the model's context",
		"generate --prompt-file nine --tokens 8184":      "nine = 9 bytes, 8184 more: expected at most 8192 together, the model's context",
		"generate --tokens 6144":                         "--tokens = 2049 bytes, 6144 more: expected at most 8192 together, the model's context",
		"generate --set model.kv_bits=8":                 "--set: model.kv_bits = 8: expected 16, or 0: 'l3lab eval' has narrow keys and values",
		`generate --set model.kv_format="fp8"`:           "--set: model.kv_format = \"fp8\": expected fp16: 'l3lab eval' has narrow keys and values",
		"latent ''":                                      "",
		"latent nine --formats ''":                       `--formats = "": expected a name`,
		"latent nine --formats float64,half":             `--formats = "half": expected one of bf16, float32, float64, fp16`,
	} {
		var args []string
		for _, word := range strings.Fields(line) {
			args = append(args, strings.Trim(word, "'"))
		}
		var out, messages bytes.Buffer
		code := run(t.Context(), args, &out, &messages)
		got := strings.TrimSuffix(messages.String(), "\n")
		if code != cli.WrongInput || out.Len() > 0 || want != "" && got != "l3lab: "+want {
			t.Errorf("%s: exit code %d, %q, got\n%s\nwant\n%s", line, code, out.String(), got, want)
		}
	}
}

// TestSmallRuns: the commands on the smallest valid files, in text, as JSON and in files.
func TestSmallRuns(t *testing.T) {
	latent, err := filepath.Abs("../../lm/testdata/latent_other.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	files(t, map[string]string{
		"nine":       "123456789",
		"hostkv.csv": "mode,batch,context,misses,layers,ms,spread\nnone,32,32768,0,16,11,0\ninline,32,32768,0,16,11.5,0.0115\ninline,32,32768,128,16,13.5,0\ntwo_none,32,32768,0,16,12,0\ntwo8,32,32768,128,16,14,0\ntwo132,32,32768,128,16,14,0\n",
		"whole.csv":  "model,gpu,gpus,precision,framework,parallelism,speculation,input,output,concurrency,tpot_ms,output_tok_s_gpu\nno-such-model,H200,8,fp8,sglang,TP8,,1024,1024,8,12.8,\n",
		"loop.csv":   "model,tp,sub_batches,batch,chunk,finished,standin,pim_us,ms,joules,alone_us\nopt-13b,1,2,8,0,0,none,0,20,8,0\nopt-13b,1,2,8,0,0,device,0,20.3,8,22\nopt-13b,1,2,8,0,0,device,400,26,9,422\n",
		"one.csv":    "m,n,k,us\n512,27648,8192,1858.399\n",
		"reduce.csv": "gpus,bytes,us\n8,8192,30\n",
	})
	of := func(line string) (out, messages string) {
		t.Helper()
		var o, m bytes.Buffer
		if code := run(t.Context(), strings.Fields(line), &o, &m); code != cli.OK {
			t.Errorf("%s: exit code %d: %s", line, code, m.String())
		}
		return o.String(), m.String()
	}
	holds := func(line string, wants ...string) {
		t.Helper()
		out, messages := of(line)
		for _, want := range wants {
			if !strings.Contains(out+messages, want) {
				t.Errorf("%s: without %q\n%s%s", line, want, out, messages)
			}
		}
	}
	holds("validate --hostkv hostkv.csv", "hostkv.csv")
	holds("validate --hostkv hostkv.csv --json", `"schema": "l3sim/validate-hostkv/1"`)
	holds("validate --whole whole.csv --rows rows.csv", "no-such-model")
	holds("validate --whole whole.csv --json", `"schema": "l3sim/validate-whole/1"`)
	if text, err := os.ReadFile("rows.csv"); err != nil || !strings.Contains(string(text), "no-such-model") {
		t.Errorf("%v, %s", err, text)
	}
	if out, _ := of("validate --whole whole.csv --fit"); out != "" {
		t.Errorf("a host time of no rows: %s", out)
	}
	holds("validate --loop loop.csv --figure loop.svg", "loop.csv on dgx-h100-l3")
	if _, err := os.Stat("loop.svg"); err != nil {
		t.Error(err)
	}
	holds("gpu validate --gpu a100-paper --measured one.csv", "gemm", "a100-paper")
	// A launch of 10 us is not part of a small all-reduce, so that its error grows by a half: from p/30 to
	// p/20.
	error := func(line string) float64 {
		t.Helper()
		var report struct {
			AllReduce struct{ Bias float64 } `json:"all_reduce"`
		}
		out, _ := of(line)
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatal(err)
		}
		return 1 + report.AllReduce.Bias
	}
	whole, taken := error("gpu validate --gpu a100-sxm-80gb --measured reduce.csv --json"), error("gpu validate --gpu a100-sxm-80gb --measured reduce.csv --json --launch 10us")
	if !near(taken, 1.5*whole) {
		t.Errorf("a prediction of %v of the whole time is %v of it without a launch of a third", whole, taken)
	}
	// A model with latent attention in float32, both ways and forms of the first nine tokens.
	table, _ := of("latent " + latent + " --formats float32 --tokens 9")
	lines := strings.Split(table, "\n")
	for i, want := range []string{"way format form largest nats mean nats attention choices differ gap", "dense float32 expanded ", "dense float32 absorbed ", "dsa float32 expanded ", "dsa float32 absorbed ", ""} {
		if i >= len(lines) || !strings.HasPrefix(strings.Join(strings.Fields(lines[i]), " "), strings.TrimSpace(want)) {
			t.Errorf("line %d of %q: want %q", i, lines, want)
		}
	}
	holds("eval --text nine --prompt 3 --steps 2 --nll nll.csv --precision fp32 --json", `"bytes": 5,`, `"prompt": 3,`, `"steps": 2,`, `"dimms": true,`, `"kv_bits": 16`)
	if text, err := os.ReadFile("nll.csv"); err != nil || strings.Count(string(text), "\n") != 3 || !strings.Contains(string(text), "\n3,") || !strings.Contains(string(text), "\n4,") {
		t.Errorf("%v, %s", err, text)
	}
	holds("eval --text nine --prompt 3 --reference", "5 bytes decoded after 3: ", "largest error of attention 0;")
	out, notes := of("gpu fit --measured one.csv --name mine --base a100-sxm-80gb --out mine.toml --fit fit.toml")
	if out != "gemm                   1 samples of a single shape: fitted, and none held out\n" || notes != "" {
		t.Errorf("%q, %q", out, notes)
	}
	for name, wants := range map[string][]string{
		"mine.toml": {"# mine: fitted by 'l3lab gpu fit' to one.csv.", "# Peaks, bandwidth, SMs and memory are those of a100-sxm-80gb, as are kinds not listed here.", "# Attention kernels fitted are those of the suite server.",
			"# gemm                   1 samples of a single shape", "[gpu]", `name = "mine"`, "memory_capacity"},
		"fit.toml": {"# mine: fitted by 'l3lab gpu fit' to one.csv.", "# Kinds not listed here are those of a100-sxm-80gb.", `source = "one.csv"`, `base = "a100-sxm-80gb"`, "rows = 1"},
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s without %q:\n%.1500s", name, want, text)
			}
		}
	}
	if fit, _ := os.ReadFile("fit.toml"); strings.Contains(string(fit), "memory_capacity") {
		t.Error("a fit has a data sheet")
	}
}

// TestJudgementText: the errors of the three parts with their counts, in percent.
func TestJudgementText(t *testing.T) {
	var text strings.Builder
	j := judgement{Model: "m", Trace: "t", Seed: 7, Batches: 20, Candidates: 30, SubBatches: 40, Noise: 0.5, Errors: predict.PredictionErrors{
		PrefillAttention: predict.RelativeError{Mean: 0.011, Count: 1}, DecodeAttention: predict.RelativeError{Mean: 0.022, Count: 2}, FC: predict.RelativeError{Mean: 0.033, Count: 3}}}
	if err := j.writeText(&text); err != nil {
		t.Fatal(err)
	}
	want := `m on t, seed 7: 20 of 30 batches that prefill, 40 sub-batches, noise 0.5

                     relative error  held out
  prefill attention           1.10%         1
   decode attention           2.20%         2
                 FC           3.30%         3
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

// TestNamesOfWeights: the name that a configuration gives a model, and the sequences that fit its
// context.
func TestNamesOfWeights(t *testing.T) {
	for weights, want := range map[string]string{"": "tiny-lm", "a/b.safetensors": "b", "c.bin": "c.bin"} {
		if got := (&languageFlags{weights: weights}).modelName(); got != want {
			t.Errorf("%q is called %s, want %s", weights, got, want)
		}
	}
	if tooLong("x", 3, 5, 8) != nil || tooLong("x", 4, 5, 8) == nil || len(lm.Plants()) != 4 {
		t.Error("a context of 8 holds 8 bytes, and no 9")
	}
}
