package policy

import "github.com/l3sim/l3sim/attention"

// csaTable is the lists of CSAttention of one KV head: for each centroid the tokens whose keys
// have the highest products with it, which are held in FP16. Of equal products the earlier
// token's counts as higher. A list is a heap with its lowest entry first.
type csaTable struct {
	entries int // of a list
	tokens  []int32
	values  []float32
}

// newCSATable returns empty lists with room for entries tokens each.
func newCSATable(lists, entries int) csaTable {
	return csaTable{entries, make([]int32, lists*entries), make([]float32, lists*entries)}
}

// list returns the entries of a list.
func (t *csaTable) list(n int) (tokens []int32, values []float32) {
	return t.tokens[n*t.entries : (n+1)*t.entries], t.values[n*t.entries : (n+1)*t.entries]
}

// build fills a list from the products of a centroid with the keys of all tokens so far, at
// least as many as a list has entries. It rounds products; scratch is as long.
func (t *csaTable) build(n int, products, scratch []float32) {
	for i, p := range products {
		products[i] = attention.RoundHalf(p)
	}
	tokens, values := t.list(n)
	for i, token := range appendTop(tokens[:0], products, t.entries, scratch) {
		values[i] = products[token]
	}
	for i := t.entries/2 - 1; i >= 0; i-- {
		settle(tokens, values, i)
	}
}

// insert tries a token that is later than all others: it replaces the lowest entry if its
// product is higher.
func (t *csaTable) insert(n int, token int32, product float32) {
	tokens, values := t.list(n)
	if product = attention.RoundHalf(product); product > values[0] {
		tokens[0], values[0] = token, product
		settle(tokens, values, 0)
	}
}

// settle moves an entry of a heap down to where no entry below it is lower.
func settle(tokens []int32, values []float32, i int) {
	lower := func(a, b int) bool { return values[a] < values[b] || values[a] == values[b] && tokens[a] > tokens[b] }
	for {
		lowest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(values); child++ {
			if lower(child, lowest) {
				lowest = child
			}
		}
		if lowest == i {
			return
		}
		tokens[i], tokens[lowest] = tokens[lowest], tokens[i]
		values[i], values[lowest] = values[lowest], values[i]
		i = lowest
	}
}
