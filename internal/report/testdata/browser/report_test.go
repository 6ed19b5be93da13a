// Package browser opens a report in a real browser. It is a module of its own, so that l3sim does not
// depend on a browser's driver. It needs Chromium or Chrome, and runs in .ci/long.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// hostile names try to leave the places where a report shows names.
var hostile = []string{`<script>hacked=1</script>`, `</script><script>hacked=2</script>`, `<img src=x onerror="hacked=3">`, `"onmouseover="hacked=4`, `'; hacked=5; //`, `{{.}}`}

// results runs a sweep with hostile names, and one of a Latin hypercube, and returns the page of both.
func results(t *testing.T) (l3sim, page string) {
	dir := t.TempDir()
	l3sim = filepath.Join(dir, "l3sim")
	command := func(folder, name string, args ...string) {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = folder
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	command("../../../..", "go", "build", "-o", l3sim, "./cmd/l3sim")
	small := "[set]\nrun.model = \"llama-2-7b\"\nrun.trace = \"dolphin\"\nrun.requests = 2\n"
	names, _ := json.Marshal(hostile)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("sweep.toml", small+"arrivals.kind = \"poisson\"\n[zip]\nname = "+string(names)+"\nnode.ranksets = [2, 3, 4, 5, 6, 7]\n[grid]\nrun.system = [\"l3\", \"gpu-only\"]\narrivals.rate_per_s = [1.0, 2.0]\n")
	write("search.toml", strings.Replace(small, "llama-2-7b\"\nrun.trace = \"dolphin\"\nrun.requests = 2", "gpt-175b\"\nrun.trace = \"dolphin\"\nrun.requests = 60", 1)+
		"[latin_hypercube]\nsamples = 60\nnode.ranksets = { min = 2, max = 16 }\nnode.memory_capacity = { min = \"512GiB\", max = \"4TiB\", step = \"512GiB\" }\nrun.system = [\"l3\", \"gpu-only\"]\n")
	command(dir, l3sim, "sweep", "sweep.toml", "--out", "search<b>", "-q")
	command(dir, l3sim, "sweep", "search.toml", "--out", "search", "-q")
	command(dir, l3sim, "report", "search", "search<b>", "--title", `Results of <i>l3sim</i>`, "--out", "report.html")
	return l3sim, filepath.Join(dir, "report.html")
}

// watch collects what the page complains about, and what it asks the network for.
func watch(ctx context.Context, complaints *[]string, lock *sync.Mutex) {
	add := func(format string, args ...any) {
		lock.Lock()
		defer lock.Unlock()
		*complaints = append(*complaints, fmt.Sprintf(format, args...))
	}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				add("console: %s %s", e.Type, e.Args[0].Value)
			}
		case *runtime.EventExceptionThrown:
			add("exception: %s", e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			add("log: %s", e.Entry.Text)
		case *page.EventJavascriptDialogOpening:
			add("dialog: %s", e.Message)
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; !strings.HasPrefix(u, "blob:") && !strings.HasPrefix(u, "data:") && !strings.HasSuffix(u, "/report.html") {
				add("request: %s", u)
			}
		}
	})
}

// TestReport renders, takes clicks, keys and brushes, and complains of nothing.
func TestReport(t *testing.T) {
	l3sim, file := results(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1280, 1000))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	defer stop()
	ctx, stop2 := chromedp.NewContext(allocator)
	defer stop2()
	ctx, stop3 := context.WithTimeout(ctx, 3*time.Minute)
	defer stop3()
	var complaints []string
	var lock sync.Mutex
	watch(ctx, &complaints, &lock)
	do := func(actions ...chromedp.Action) {
		t.Helper()
		if err := chromedp.Run(ctx, actions...); err != nil {
			t.Fatal(err)
		}
	}
	eval := func(script string, to any) {
		t.Helper()
		do(chromedp.Evaluate(script, to))
	}
	text := func(script string) string {
		t.Helper()
		s := ""
		eval(script, &s)
		return s
	}
	do(log.Enable(), network.Enable(), chromedp.Navigate("file://"+file), chromedp.WaitVisible(`html[data-ready="true"]`, chromedp.ByQuery))
	shoot := func(name string) {
		t.Helper()
		var png []byte
		do(chromedp.FullScreenshot(&png, 100))
		if folder := os.Getenv("SCREENSHOTS"); folder != "" {
			if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	shoot("light")

	empty := text(`[...document.querySelectorAll('.chart')].filter(c => c.offsetParent && c.querySelectorAll('svg path').length < 5).map(c => c.id).join()`)
	if empty != "" {
		t.Errorf("empty charts: %s", empty)
	}

	// Keys: the chart takes the focus, and the arrows walk along the front.
	do(chromedp.Focus("#scatter"), chromedp.KeyEvent(kb.ArrowRight))
	first := text(`document.querySelector('#chosen h3').textContent`)
	do(chromedp.KeyEvent(kb.ArrowRight))
	second := text(`document.querySelector('#chosen h3').textContent`)
	if first == "" || first == second {
		t.Errorf("arrows chose %q, then %q", first, second)
	}

	// Mouse: hovering shows the point's goals, a click chooses the point.
	var at struct {
		X, Y float64
		Name string
	}
	eval(`(() => { const c = document.getElementById('scatter'); c.scrollIntoView({block: 'center'}); const chart = echarts.getInstanceByDom(c);
		const d = chart.getOption().series[0].data.at(-1), p = chart.convertToPixel('grid', d.value), box = c.getBoundingClientRect(), data = JSON.parse(document.getElementById('data').textContent);
		return {X: box.x + p[0], Y: box.y + p[1], Name: data.sets[0].names[d.row] + data.sets[0].signs[d.row]}; })()`, &at)
	do(input.DispatchMouseEvent(input.MouseMoved, at.X-3, at.Y), input.DispatchMouseEvent(input.MouseMoved, at.X, at.Y), chromedp.Sleep(300*time.Millisecond))
	if shown := text(`document.getElementById('scatter').textContent`); !strings.Contains(shown, at.Name) {
		t.Errorf("no tooltip with %q: %s", at.Name, shown)
	}
	do(chromedp.MouseClickXY(at.X, at.Y))
	if got := text(`document.querySelector('#chosen h3').textContent`); got != at.Name {
		t.Errorf("a click on %q chose %q", at.Name, got)
	}

	reproduces(t, l3sim, text(`document.querySelector('#chosen pre').textContent`), eval)

	// A brush along an axis of the parallel coordinates leaves fewer points.
	count := func() string { return text(`document.getElementById('count').textContent`) }
	before := count()
	eval(`(() => { const c = document.getElementById('parallel'); c.scrollIntoView({block: 'center'}); const b = c.getBoundingClientRect(), chart = echarts.getInstanceByDom(c);
		const axis = chart.getModel().getComponent('parallel').coordinateSystem.getAxisLayout(chart.getModel().getComponent('parallelAxis', 0).axis.dim); return {X: b.x + axis.position[0], Y: b.y + axis.position[1], Name: ''}; })()`, &at)
	do(brush(at.X, at.Y-5, at.Y-90), chromedp.Sleep(500*time.Millisecond))
	if after := count(); after == before {
		t.Errorf("a brush leaves %s", after)
	}
	shoot("brushed")
	do(chromedp.MouseClickXY(at.X, at.Y-200), chromedp.Sleep(500*time.Millisecond))
	if after := count(); after != before {
		t.Errorf("without the brush there are %s", after)
	}

	table(t, do, eval)
	downloads(t, do, text)

	// The other folder, whose names are hostile, in the dark.
	background := text(`getComputedStyle(document.body).backgroundColor`)
	do(chromedp.Click("#theme"), chromedp.Evaluate(`(() => { const s = document.getElementById('set'); s.value = '1'; s.dispatchEvent(new Event('change')); })()`, nil), chromedp.Sleep(300*time.Millisecond))
	if now := text(`getComputedStyle(document.body).backgroundColor`); now == background {
		t.Errorf("the dark page has background %s, too", now)
	}
	names := text(`(() => { let all = ''; for (const r of document.querySelectorAll('#points tbody tr')) { r.click(); all += document.getElementById('chosen').textContent; } return all; })()`)
	shoot("dark")
	for _, name := range hostile {
		if !strings.Contains(names, name) {
			t.Errorf("%s is of no chosen point", name)
		}
	}
	if text(`String(window.hacked)`) != "undefined" || text(`document.querySelectorAll('main img, main i, main script').length + ''`) != "0" {
		t.Error("a name is markup")
	}
	if text(`document.title`) != "Results of <i>l3sim</i>" || text(`document.getElementById('rates').hidden + ''`) != "false" {
		t.Error("no title, or no attainment over rates")
	}

	widths(t, do, text, shoot)

	var pdf []byte
	do(emulation.SetEmulatedMedia().WithMedia("print"), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		pdf, _, err = page.PrintToPDF().Do(ctx)
		return err
	}))
	if !strings.HasPrefix(string(pdf), "%PDF") || len(pdf) < 20_000 {
		t.Errorf("%d bytes of print", len(pdf))
	}
	if text(`getComputedStyle(document.querySelector('#theme')).display`) != "none" || text(`getComputedStyle(document.body).color`) != "rgb(0, 0, 0)" {
		t.Error("print has buttons, or no black text")
	}
	lock.Lock()
	defer lock.Unlock()
	if len(complaints) > 0 {
		t.Errorf("the page complains: %q", complaints)
	}
}

// widths checks, at the widths of a phone, a tablet and a desk, with each of the folders, before and after points
// are chosen, that no element is wider than the page. Inside a box that scrolls an element may be.
func widths(t *testing.T, do func(...chromedp.Action), text func(string) string, shoot func(string)) {
	t.Helper()
	const wide = `(() => {
		const page = document.documentElement.clientWidth, scrolls = (e) => e && (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
		const all = [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > page + 1 && e.getClientRects().length && !e.closest('svg') && !scrolls(e.parentElement));
		return (document.documentElement.scrollWidth > page ? 'the page scrolls: ' + document.documentElement.scrollWidth + ' of ' + page + '; ' : '') + all.slice(0, 5).map((e) => e.tagName + '.' + e.className + '#' + e.id + ' to ' + Math.round(e.getBoundingClientRect().right)).join(', ');
	})()`
	for _, width := range []int64{390, 768, 1440} {
		do(emulation.SetDeviceMetricsOverride(width, 900, 1, false), chromedp.Sleep(300*time.Millisecond))
		for set := range 2 {
			do(chromedp.Evaluate(fmt.Sprintf(`(() => { const s = document.getElementById('set'); s.value = '%d'; s.dispatchEvent(new Event('change')); })()`, set), nil))
			for _, click := range []string{``, `document.querySelectorAll('#points tbody tr')[2].click()`, `document.querySelectorAll('#points tbody tr')[5].click()`, `document.getElementById('all').click()`, `document.getElementById('all').click()`} {
				do(chromedp.Evaluate(`void (() => { `+click+` })()`, nil))
				if found := text(wide); found != "" {
					t.Errorf("%d px, folder %d, after %q: %s", width, set, click, found)
				}
			}
			shoot(fmt.Sprintf("%d-%d", width, set))
		}
	}
	do(emulation.ClearDeviceMetricsOverride(), chromedp.Sleep(300*time.Millisecond))
}

// reproduces runs the chosen point's command, and compares a result with the page's.
func reproduces(t *testing.T, l3sim, command string, eval func(string, any)) {
	t.Helper()
	c := exec.Command("sh", "-c", strings.Replace(command, "l3sim", l3sim, 1)+" --json -q")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	var summary struct {
		Rate float64 `json:"output_tokens_per_s"`
	}
	if err := json.Unmarshal(out, &summary); err != nil {
		t.Fatal(err)
	}
	var rates []float64
	eval(`(() => { const s = JSON.parse(document.getElementById('data').textContent).sets[0], name = document.querySelector('#chosen h3').textContent;
		const c = s.columns.findIndex(c => c.name === 'output_tokens_per_s'); return s.rows.filter((_, i) => s.names[i] + s.signs[i] === name).map(r => r[c]); })()`, &rates)
	if len(rates) != 1 || rates[0] < summary.Rate*(1-1e-5) || rates[0] > summary.Rate*(1+1e-5) {
		t.Errorf("%s gives %g tokens/s, the page has %g", command, summary.Rate, rates)
	}
}

// brush drags from one height to another.
func brush(x, from, to float64) chromedp.Action {
	steps := chromedp.Tasks{input.DispatchMouseEvent(input.MouseMoved, x, from), input.DispatchMouseEvent(input.MousePressed, x, from).WithButton(input.Left).WithClickCount(1)}
	for i := range 6 {
		steps = append(steps, input.DispatchMouseEvent(input.MouseMoved, x, from+(to-from)*float64(i+1)/6).WithButton(input.Left))
	}
	return append(steps, input.DispatchMouseEvent(input.MouseReleased, x, to).WithButton(input.Left).WithClickCount(1))
}

// table sorts, filters and chooses by keys.
func table(t *testing.T, do func(...chromedp.Action), eval func(string, any)) {
	t.Helper()
	var column []float64
	read := func() []float64 {
		eval(`(() => { const heads = [...document.querySelectorAll('#points thead th')].map(h => h.textContent.replace(/ .$/, '')), c = heads.indexOf('output_tokens_per_s');
			return [...document.querySelectorAll('#points tbody tr')].map(r => Number(r.children[c].textContent)); })()`, &column)
		return column
	}
	header := `[...document.querySelectorAll('#points thead button')].find(b => b.textContent.startsWith('output_tokens_per_s')).click()`
	eval(header, nil)
	if up := read(); len(up) < 10 || !slices.IsSorted(up) {
		t.Errorf("not rising: %v", up)
	}
	eval(header, nil)
	if down := read(); slices.IsSorted(down) || !slices.IsSortedFunc(down, func(a, b float64) int { return int(b - a) }) {
		t.Errorf("not falling: %v", down)
	}
	all := len(column)
	do(chromedp.SendKeys("#filter", "gpu-only"))
	if some := len(read()); some == 0 || some == all {
		t.Errorf("%d of %d rows with gpu-only", some, all)
	}
	narrow, wide := 0, 0
	eval(`document.querySelectorAll('#points thead th').length`, &narrow)
	do(chromedp.Click("#all"))
	eval(`document.querySelectorAll('#points thead th').length`, &wide)
	if wide < narrow+20 {
		t.Errorf("%d columns, %d with all", narrow, wide)
	}
	do(chromedp.Click("#all"), chromedp.Focus("#points tbody tr:nth-child(2)"), chromedp.KeyEvent(kb.Enter))
	same := false
	eval(`document.querySelector('#chosen h3').textContent === document.querySelector('#points tbody tr:nth-child(2) td').textContent`, &same)
	if !same {
		t.Error("Enter on a row does not choose it")
	}
	do(chromedp.Evaluate(`(() => { const f = document.getElementById('filter'); f.value = ''; f.dispatchEvent(new Event('input')); })()`, nil))
}

// downloads catches what the buttons save.
func downloads(t *testing.T, do func(...chromedp.Action), text func(string) string) {
	t.Helper()
	do(chromedp.Evaluate(`(() => { window.saved = []; const old = URL.createObjectURL; URL.createObjectURL = (b) => { b.text().then(s => saved.push(s)); return old.call(URL, b); }; HTMLAnchorElement.prototype.click = function () { saved.push(this.download); }; })()`, nil),
		chromedp.Click("#csv"), chromedp.Click("#json"), chromedp.Sleep(300*time.Millisecond))
	var saved []string
	if err := json.Unmarshal([]byte(text(`JSON.stringify(saved)`)), &saved); err != nil || len(saved) != 4 {
		t.Fatal(err, len(saved))
	}
	points := text(`JSON.parse(document.getElementById('data').textContent).sets[0].rows.length + ''`)
	for _, s := range saved {
		var rows []map[string]any
		switch {
		case s == "search.csv" || s == "search.json":
		case strings.HasPrefix(s, "point,"):
			if n := strings.Count(s, "\n") - 1; fmt.Sprint(n) != points || !strings.Contains(s, "l3sim run --set") {
				t.Errorf("%d rows of %s:\n%.300s", n, points, s)
			}
		case json.Unmarshal([]byte(s), &rows) == nil:
			if fmt.Sprint(len(rows)) != points || rows[0]["usd_per_million_output_tokens"] == nil || rows[0]["command"] == nil {
				t.Errorf("%d objects of %s: %v", len(rows), points, rows[0])
			}
		default:
			t.Errorf("saved %.300s", s)
		}
	}
}
