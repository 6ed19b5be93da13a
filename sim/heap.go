package sim

// nodeHeap is a 4-ary min-heap of nodes: half the levels of a binary one, and
// the four children lie in two cache lines.
type nodeHeap []node

// push adds n.
func (h *nodeHeap) push(n node) {
	s := append(*h, n)
	*h = s
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !n.before(&s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = n
}

// pop removes the first node. The heap is not empty.
func (h *nodeHeap) pop() node {
	s := *h
	first := s[0]
	last := len(s) - 1
	n := s[last]
	s = s[:last]
	*h = s
	if last == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= last {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, last); c++ {
			if s[c].before(&s[least]) {
				least = c
			}
		}
		if !s[least].before(&n) {
			break
		}
		s[i] = s[least]
		i = least
	}
	s[i] = n
	return first
}
