package tables

import (
	"strings"
	"testing"
)

func TestWide(t *testing.T) {
	table, err := readTable("r.csv", strings.NewReader("model,system,trace,tokens,n\na,s,p,1,9\na,s,q,2,9\na,t,q,3,9\nb,s,r,4,9\n"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := table.Wide(2, 3).WriteCSV(&b); err != nil || b.String() != "model,system,p,q,r\na,s,1,2,\na,t,,3,\nb,s,,,4\n" {
		t.Errorf("got %v\n%s", err, b.String())
	}
}
