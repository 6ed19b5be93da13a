package tables

import (
	"bytes"
	"testing"
)

// TestLaTeX: numbers are right-aligned, and LaTeX's special characters are escaped.
func TestLaTeX(t *testing.T) {
	table := &Table{Columns: []string{"point_name", "tokens_per_s", "share"}}
	table.Add(`a&b_c {1}\2`, 1234.56789, "5%")
	table.Add("[x] <y> #~^$|", -7.0, "-")
	table.Add("*-5", 7.0, "-0.5%")
	table.Add("a ≤ b ≥ c ≈ d", 8.0, "5%")
	var b bytes.Buffer
	if err := table.WriteLaTeX(&b); err != nil {
		t.Fatal(err)
	}
	const want = `\begin{tabular}{lrr}
\toprule
point\_name & tokens\_per\_s & share \\
\midrule
a\&b\_c \{1\}\textbackslash{}2 & 1234.57 & 5\% \\
{}[x] \textless{}y\textgreater{} \#\textasciitilde{}\textasciicircum{}\$\textbar{} & \textminus{}7 & - \\
{}*-5 & 7 & \textminus{}0.5\% \\
a $\leq$ b $\geq$ c $\approx$ d & 8 & 5\% \\
\bottomrule
\end{tabular}
`
	if b.String() != want {
		t.Errorf("%s\nby hand\n%s", b.String(), want)
	}
	if err := (*Table)(nil).WriteLaTeX(&b); err == nil {
		t.Error("no table is written")
	}
}
