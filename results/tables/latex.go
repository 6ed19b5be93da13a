package tables

import (
	"io"
	"strings"
)

// latexSpecial escapes what LaTeX would not print literally.
var latexSpecial = strings.NewReplacer(`\`, `\textbackslash{}`, `{`, `\{`, `}`, `\}`, `$`, `\$`, `&`, `\&`, `#`, `\#`, `%`, `\%`, `_`, `\_`, `^`, `\textasciicircum{}`, `~`, `\textasciitilde{}`,
	`<`, `\textless{}`, `>`, `\textgreater{}`, `|`, `\textbar{}`, `µ`, `\textmu{}`, `±`, `\textpm{}`, `×`, `\texttimes{}`, `†`, `\textdagger{}`, `‡`, `\textdaggerdbl{}`, `–`, `--`, `−`, `\textminus{}`,
	`≤`, `$\leq$`, `≥`, `$\geq$`, `≈`, `$\approx$`)

// WriteLaTeX writes the table as a tabular of the package booktabs, numbers aligned right. Caption and label belong to the document
// that inputs the file.
func (t *Table) WriteLaTeX(w io.Writer) error {
	if err := t.given(); err != nil {
		return err
	}
	cells, number := t.texts()
	var b strings.Builder
	b.WriteString(`\begin{tabular}{`)
	for _, right := range number {
		if right {
			b.WriteByte('r')
		} else {
			b.WriteByte('l')
		}
	}
	b.WriteString("}\n\\toprule\n")
	for r, row := range cells {
		for i, cell := range row {
			if i > 0 {
				b.WriteString(" & ")
			}
			if i == 0 && cell != "" && strings.Contains("[*", cell[:1]) { // arguments of the line break before
				b.WriteString("{}")
			}
			if rest, below := strings.CutPrefix(cell, "-"); below && rest != "" && number[i] { // text would have a hyphen
				b.WriteString(`\textminus{}`)
				cell = rest
			}
			b.WriteString(latexSpecial.Replace(cell))
		}
		b.WriteString(" \\\\\n")
		if r == 0 {
			b.WriteString("\\midrule\n")
		}
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n")
	_, err := io.WriteString(w, b.String())
	return err
}
