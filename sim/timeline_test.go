package sim

import "testing"

func TestTimelineCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		spans []Span
		legal bool
	}{
		{"none", nil, true},
		{"adjacent", []Span{{Start: 5, End: 9}, {Start: 0, End: 5}}, true},
		{"overlap", []Span{{Start: 4, End: 9}, {Start: 0, End: 5}}, false},
		{"two resources", []Span{{Start: 4, End: 9}, {Start: 0, End: 5, Resource: 1}}, true},
		{"backwards", []Span{{Start: 4, End: 3}}, false},
		{"an empty one where another starts", []Span{{Start: 4, End: 9}, {Start: 4, End: 4}}, true},
	} {
		var line Timeline
		for _, s := range c.spans {
			line.Add(s)
		}
		if err := line.Check(); (err == nil) != c.legal {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	var none *Timeline
	none.Add(Span{Start: 1})
	if err := none.Check(); err != nil {
		t.Error(err)
	}
}
