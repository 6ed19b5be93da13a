package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the smallest width of a terminal in columns; help is no wider.
const helpWidth = 80

func init() { cobra.EnableCommandSorting = false } // help lists the commands of a group in order of use

// printHelp prints a command's help in helpWidth columns.
func printHelp(cmd *cobra.Command, _ []string) {
	cmd.InitDefaultHelpFlag()
	fmt.Fprint(cmd.OutOrStdout(), fit(cmp.Or(cmd.Long, cmd.Short)+"\n\n"+cmd.UsageString()))
}

// Breaks of help: between the lines of a paragraph, and before the description of a flag or a command.
var (
	withinParagraph   = regexp.MustCompile(`(?m)^([^ \n].*)\n([^ \n])`)
	beforeDescription = regexp.MustCompile(`^ .*\S {2,}`)
)

// fit breaks the lines of a help text. It refills paragraphs, continues a description below its beginning,
// and breaks an example's command before a flag, with a shell's line continuation.
func fit(text string) string {
	for joined := ""; joined != text; { // a line of one letter ends one match and starts the next
		joined, text = text, withinParagraph.ReplaceAllString(text, "$1 $2")
	}
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		before, end, indent := []string{" "}, "", ""
		if described := beforeDescription.FindString(line); described != "" {
			indent = strings.Repeat(" ", len(described))
		} else if strings.HasPrefix(line, "  ") {
			before, end, indent = []string{" --", " | ", " && "}, ` \`, "      "
		}
		for len(line) > helpWidth {
			at := 0
			for _, word := range before {
				at = max(at, strings.LastIndex(line[:min(len(line), helpWidth+len(word)-len(end))], word))
			}
			if at <= len(indent) {
				break // one word that is too long
			}
			fmt.Fprintf(&b, "%s%s\n", line[:at], end)
			line = indent + line[at+1:]
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
