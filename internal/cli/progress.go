package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

const (
	barInterval  = 100 * time.Millisecond // between redraws of the bar on a terminal
	lineInterval = 5 * time.Second        // before the first line if standard error is no terminal; doubles with each line
	lineLongest  = 5 * time.Minute        // between two lines
)

// Progress shows how far a long command is: a bar on a terminal, otherwise lines at growing
// intervals, nothing with --quiet. Set may be called from several goroutines and costs one atomic
// operation; a separate goroutine draws.
type Progress struct {
	name     string // of the program
	out      io.Writer
	unit     string // what is counted: "requests"
	interval time.Duration
	bar      *mpb.Bar      // nil if out is no terminal
	bars     *mpb.Progress // owner of bar

	total   int64
	current atomic.Int64
	now     atomic.Pointer[string] // the present step, shown after the counts
	start   time.Time
	stop    chan struct{} // nil until Start and with --quiet
	drawer  sync.WaitGroup
}

// NewProgress returns a progress display that counts unit, such as "requests".
// It shows nothing before Start.
func (a *App) NewProgress(unit string) *Progress {
	p := &Progress{name: a.name, unit: unit, interval: lineInterval}
	if !a.Quiet {
		p.out = a.Stderr
	}
	return p
}

// ProgressOnTerminal returns a progress display for tasks of seconds, not minutes: it shows nothing
// unless on a terminal.
func (a *App) ProgressOnTerminal(unit string) *Progress {
	p := a.NewProgress(unit)
	if !IsTerminal(p.out) {
		p.out = nil
	}
	return p
}

// IsTerminal says that w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Start begins the display of a task of total units, 0 if unknown.
func (p *Progress) Start(total int64) {
	if p.out == nil {
		return
	}
	p.total, p.start, p.stop = total, time.Now(), make(chan struct{})
	if IsTerminal(p.out) {
		p.interval = barInterval
		p.bars = mpb.New(mpb.WithOutput(p.out), mpb.WithRefreshRate(barInterval))
		if total > 0 {
			p.bar = p.bars.AddBar(p.total,
				mpb.PrependDecorators(decor.CountersNoUnit("%d/%d "+p.unit)),
				mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), decor.Elapsed(decor.ET_STYLE_GO), decor.Any(p.what)),
				mpb.BarRemoveOnComplete())
		} else {
			p.bar = p.bars.AddSpinner(1, mpb.AppendDecorators(decor.Name(p.unit+" "), decor.Elapsed(decor.ET_STYLE_GO)),
				mpb.BarRemoveOnComplete())
		}
	}
	p.drawer.Go(p.draw)
}

// what returns the bar's text: the time left at the rate so far, and the text of Now.
func (p *Progress) what(decor.Statistics) string {
	text := ""
	if n, elapsed := p.current.Load(), time.Since(p.start); n > 0 && n < p.total {
		text = fmt.Sprintf(" %s left", time.Duration(float64(elapsed)/float64(n)*float64(p.total-n)).Round(time.Second))
	}
	if now := p.now.Load(); now != nil {
		text += " " + *now
	}
	return text
}

// Set says that n units are done. The display never goes back: of two concurrent calls, the larger
// number counts.
func (p *Progress) Set(n int64) {
	for {
		old := p.current.Load()
		if n <= old || p.current.CompareAndSwap(old, n) {
			return
		}
	}
}

// Now sets the text for the present step.
func (p *Progress) Now(what string) { p.now.Store(&what) }

// Of says that n of total units are done; the first call starts the display.
func (p *Progress) Of(n, total int64) {
	if p.total == 0 {
		p.Start(total)
	}
	p.Set(n)
}

// Done ends the display and waits for its last drawing. It may be called more than once, and
// without Start.
func (p *Progress) Done() {
	if p.stop == nil {
		return
	}
	close(p.stop)
	p.drawer.Wait()
	p.stop = nil
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
	}
}

// draw shows the state at each interval until Done.
func (p *Progress) draw() {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		if p.bar != nil {
			p.bar.SetCurrent(p.current.Load())
			continue
		}
		fmt.Fprintln(p.out, p.line(time.Since(p.start)))
		p.interval = min(2*p.interval, lineLongest)
		tick.Reset(p.interval)
	}
}

// line describes the state after elapsed: counts, share, and the time left at the rate so far.
func (p *Progress) line(elapsed time.Duration) string {
	n := p.current.Load()
	if p.total == 0 {
		return fmt.Sprintf("%s: %d %s, %s", p.name, n, p.unit, elapsed.Round(time.Second))
	}
	text := fmt.Sprintf("%s: %d/%d %s (%d%%), %s", p.name, n, p.total, p.unit, 100*n/p.total, elapsed.Round(time.Second))
	if n > 0 && n < p.total {
		left := time.Duration(float64(elapsed) / float64(n) * float64(p.total-n))
		text += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	if what := p.now.Load(); what != nil {
		text += "; " + *what
	}
	return text
}
